"""The profile of one step, op by op, and what it reads of memory; the account of an accelerator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.accelerator import Accounting
from llm_lite.core.exec.executor import Executor
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import OpTime, StepAccount, StepProfile
from llm_lite.core.metrics.bench import read_gb_s
from llm_lite.core.plain_text import one_line
from llm_lite.core.plan.plan import Kind, Plan, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.plan.traffic import op_read_bytes
from llm_lite.core.records import replace

Progress = Callable[[str, float], None]  # what, 0..1; may raise CancelledError
REPEAT, REPEAT_CHUNK = 9, 3  # runs; the fastest counts

UNREAD = 32  # positions of a source, where an encoder-decoder has read none: their values are zeros


def profile_step(runner: Runner, tokens: int, progress: Progress) -> StepProfile:
    """Measure a step of `tokens` tokens behind what the cache holds, which stays as it is; for an
    encoder-decoder a step of its decoder, which sees the source that was read.

    UnsupportedError where the device cannot tell.
    """
    executor = runner.executor
    start, step = _step_behind(runner, tokens)
    plan = executor.program.plan_for(step.count, step.outputs)
    progress("measuring memory", 0.0)
    memory = read_gb_s(runner)
    with runner.session.files.unchanged(), _kept_rows(executor, plan, step):
        executor.run(step)  # records, and wakes what sleeps
        whole, taken = _fastest_run(executor, plan, step, progress)
    ops = tuple(
        OpTime(op.name, op.label, seconds, op_read_bytes(plan, op, step))
        for op, seconds in zip(plan.ops, taken, strict=True)
    )
    return StepProfile(step.count, start, whole, ops, memory, runner.executor_info.device)


def account_step(
    runner: Runner, tokens: int, parameters: Sequence[tuple[str, float]]
) -> StepAccount:
    """Return what such a step costs on the accelerator, as it says, with these of its parameters
    changed. RequestError where it gives no account, or has no such parameter."""
    accelerator = runner.choice.accelerator
    if not isinstance(accelerator, Accounting):
        raise RequestError(f"{runner.executor_info.device} gives no account of its steps")
    _, step = _step_behind(runner, tokens)
    plan = runner.executor.program.plan_for(step.count, step.outputs)
    return account_of(accelerator, plan, step, dict(parameters))


def account_of(
    accelerator: Accounting, plan: Plan, step: Step, chosen: Mapping[str, float]
) -> StepAccount:
    """Return the account of a step, which is checked, as packages make it. RequestError for a
    parameter or a value that there is not, and for an account that is none."""
    try:
        found = accelerator.account(plan, step, chosen)
    except ValueError as error:
        raise RequestError(one_line(str(error))) from error
    numbers = [found.joules, found.macs_per_second, found.bytes_per_second]
    for op in found.ops:
        numbers += [op.seconds, op.busy, op.moving, op.moved_bytes, op.macs]
    bounds = all(0 < p.least < p.most and p.least <= p.value <= p.most for p in found.parameters)
    good = all(math.isfinite(number) and number >= 0 for number in numbers)
    if not (bounds and good and found.tokens > 0 and found.seconds > 0):
        raise RequestError(
            f"the account of {found.accelerator}: expected numbers from 0, some time, and "
            "parameters within bounds above 0"
        )
    return found


def _step_behind(runner: Runner, tokens: int) -> tuple[int, Step]:
    """Return a step of so many tokens, or as many as there may be, behind what the cache holds, and
    its first position."""
    program = runner.executor.program
    count = max(1, min(tokens, program.max_tokens, program.context))
    used = min(runner.session.context_used, program.context - count)
    start = runner.session.cache.longest_usable(used)
    source = runner.session.source or min(program.source, UNREAD)
    return start, replace(runner.session.step([1] * count, start), source=source)


def _fastest_run(
    executor: Executor, plan: Plan, step: Step, progress: Progress
) -> tuple[float, list[float]]:
    """Return the seconds of the step and of its operations in the fastest, least disturbed run:
    times of different runs would not add up."""
    runs, repeat = [], REPEAT if step.count == 1 else REPEAT_CHUNK
    for number in range(repeat):
        progress("measuring a step", 0.2 + 0.8 * number / repeat)
        runs.append(executor.measure(plan, step))
    return min(runs, key=lambda run: run[0])


@contextmanager
def _kept_rows(executor: Executor, plan: Plan, step: Step) -> Iterator[None]:
    """Restore the rows of state that a step writes.

    Position p lies in row p mod the rows of its tensor.
    """
    kept = []
    for tensor in plan.tensors:
        if tensor.kind is Kind.STATE and not tensor.fill:
            for first, count in _runs(tensor, step):
                kept.append((tensor.name, first, executor.read_state(tensor.name, first, count)))
    try:
        yield
    finally:
        for name, first, data in kept:
            executor.write_state(name, first, data)


def _runs(tensor: Tensor, step: Step) -> Iterator[tuple[int, int]]:
    """Yield first row and number of rows, whole before and behind the end of a ring."""
    rows = tensor.ring_rows
    first, count = step.first_position % rows, min(step.count, rows)
    before = min(count, rows - first)
    yield first, before
    if count > before:
        yield 0, count - before
