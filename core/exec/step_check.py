"""What a step may say: nothing that a kernel indexes with may lead outside a tensor."""

from __future__ import annotations

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Plan, Program
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step


def check_step(program: Program, plan: Plan, step: Step, vocabulary: int) -> None:
    """RequestError for a step that does not fit the program, whose tokens are below `vocabulary`."""
    if not 1 <= step.count <= plan.max_tokens or not 0 <= step.outputs <= step.count:
        raise RequestError(f"a step of {step.count} tokens with {step.outputs} outputs")
    if step.outputs > plan.max_outputs:
        raise RequestError(f"{step.outputs} outputs asked for, at most {plan.max_outputs}")
    if step.start < 0 or step.kv_length > program.context:
        raise RequestError(
            f"positions {step.start}..{step.kv_length - 1} do not fit a context of "
            f"{program.context} tokens"
        )
    low, high = int(step.tokens.min()), int(step.tokens.max())
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")
    if bool(step.segments) != (program.pages is not None):
        kind = "pages and a step without segments" if program.pages else "no pages and segments"
        raise RequestError(f"a program with {kind}")
    if program.pages is not None:
        _check_segments(program.pages, step)


def _check_segments(shape: PageShape, step: Step) -> None:
    if len(step.segments) > shape.segments:
        raise RequestError(f"{len(step.segments)} sequences in a step, at most {shape.segments}")
    totals = sum(s.count for s in step.segments), sum(s.outputs for s in step.segments)
    if step.start != 0 or totals != (step.count, step.outputs):
        raise RequestError(
            f"a step of {step.count} tokens and {step.outputs} outputs from position {step.start} "
            f"with segments of {totals[0]} and {totals[1]} from 0"
        )
    for number, segment in enumerate(step.segments):
        _check_segment(shape, number, segment)


def _check_segment(shape: PageShape, number: int, segment: Segment) -> None:
    if segment.start < 0 or segment.count < 1 or not 0 <= segment.outputs <= segment.count:
        raise RequestError(
            f"sequence {number}: {segment.count} tokens from position {segment.start} with "
            f"{segment.outputs} outputs"
        )
    needed, found = -(-segment.kv_length // PAGE), len(segment.pages)
    if not needed <= found <= shape.table:
        raise RequestError(
            f"sequence {number}: {segment.kv_length} positions need {needed} to {shape.table} "
            f"pages, found {found}"
        )
    low, high = int(segment.pages.min()), int(segment.pages.max())
    if low < 0 or high >= shape.pages:
        wrong = low if low < 0 else high
        raise RequestError(f"sequence {number}: page {wrong} is none of {shape.pages}")
