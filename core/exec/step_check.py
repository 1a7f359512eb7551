"""Checks that a step fits a plan: nothing that a kernel indexes with may lead outside a tensor."""

from __future__ import annotations

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Plan, Program
from llm_lite.core.plan.step import NO_STATE, PAGE, PageShape, Segment, Step, pages_for


def known_tokens(program: Program) -> int:
    """Return how many token ids every embedding table has a row for."""
    tables = [p.tensors[op.inputs[0]] for p in program.plans for op in p.ops if op.name == "embed"]
    return min((table.shape[0] for table in tables), default=program.vocabulary)


def check_step(program: Program, plan: Plan, step: Step, vocabulary: int) -> None:
    """Raise RequestError unless the step fits; vocabulary: see `known_tokens`."""
    if not 1 <= step.count <= plan.max_tokens or not 0 <= step.outputs <= step.count:
        raise RequestError(f"a step of {step.count} tokens with {step.outputs} outputs")
    if step.outputs > plan.max_outputs:
        raise RequestError(f"{step.outputs} outputs asked for, at most {plan.max_outputs}")
    if program.pages is not None:
        _check_segments(program.pages, step)
    elif step.segments:
        raise RequestError("a step of several sequences for a cache of one")
    _check_positions(program.context, step)
    _check_source(program.source, step)
    low, high = int(step.tokens.min()), int(step.tokens.max())
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")


def _check_positions(context: int, step: Step) -> None:
    for part in step.segments or (step,):
        if part.start < 0 or part.kv_length > context:
            raise RequestError(
                f"positions {part.start}..{part.kv_length - 1} do not fit a context of "
                f"{context} tokens"
            )


def _check_source(positions: int, step: Step) -> None:
    if not min(positions, 1) <= step.source <= positions:
        raise RequestError(
            f"a source of {step.source} positions, expected {min(positions, 1)} to {positions}"
        )
    last = (step.first_output or 0) + step.outputs
    if step.first_output is not None and (step.segments or last > step.count):
        raise RequestError(f"{step.outputs} outputs from token {step.first_output} on")


def _check_segments(pages: PageShape, step: Step) -> None:
    if not 1 <= len(step.segments) <= pages.segments:
        raise RequestError(f"a step of {len(step.segments)} sequences, at most {pages.segments}")
    counts = [segment.count for segment in step.segments]
    outputs = [segment.outputs for segment in step.segments]
    if step.start != 0 or sum(counts) != step.count or sum(outputs) != step.outputs:
        raise RequestError(
            f"sequences of {sum(counts)} tokens with {sum(outputs)} outputs in a step of "
            f"{step.count} with {step.outputs}"
        )
    for segment in step.segments:
        _check_segment(pages, segment)
        if pages.windowed:
            _check_windows(pages, segment, step)


def _check_segment(pages: PageShape, segment: Segment) -> None:
    if segment.count < 1 or not 0 <= segment.outputs <= segment.count:
        raise RequestError(f"a sequence of {segment.count} tokens with {segment.outputs} outputs")
    table = segment.pages
    if len(table) * PAGE < segment.kv_length or len(table) > pages.table:
        raise RequestError(
            f"a table of {len(table)} pages for {segment.kv_length} positions, at most "
            f"{pages.table}"
        )
    if not 0 <= segment.slot < pages.slots:
        raise RequestError(f"a sequence in slot {segment.slot} of {pages.slots}")
    source, target = segment.states
    if pages.states and not (NO_STATE <= source < pages.states and 0 <= target < pages.states):
        raise RequestError(f"states of slots {source} and {target} of {pages.states}")
    low, high = int(table.min()), int(table.max())
    if low < 0 or high >= pages.pages:
        raise RequestError(f"page {low if low < 0 else high} of a cache of {pages.pages}")


def _check_windows(pages: PageShape, segment: Segment, step: Step) -> None:
    """Raise RequestError unless all pages that the segment sees in caches with a window lie
    there."""
    seen = segment.pages[pages.first_seen(segment.start) : pages_for(segment.kv_length)]
    shared = seen[seen >= pages.ringed] - pages.ringed
    if not len(shared):
        return
    if step.windows is None or len(step.windows) != pages.shared:
        found = 0 if step.windows is None else len(step.windows)
        raise RequestError(f"places of {found} pages in caches with a window, not {pages.shared}")
    places = step.windows[shared]
    low, high = int(places.min()), int(places.max())
    if low < 0 or high >= pages.windowed:
        raise RequestError(
            f"place {low if low < 0 else high} of a page in a cache with a window, which has "
            f"{pages.windowed}"
        )
