"""Runs tokens of a sequence once more, where that takes recurrent states in the middle of it: from
the last state that is held before, through all ops but those that store.

A part of the tokens runs at once, and between parts other steps may run: the state waits on the
host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llm_lite.core.errors import RequestError
from llm_lite.core.kv_cache.states import State
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.replay import PART, Replay


def parts_again(
    replay: Replay,
    first: int,
    end: int,
    run: Callable[[int, State | None, Step], None],
    together: int = PART,
) -> Iterator[None]:
    """Run tokens first..end-1 once more, `together` at once, and those before that it takes; yield
    after each part but the last. `run` is called for each part with its first position, the state
    before it and its step, of tokens before `first` or of those from there on."""
    at, state = replay.nearest(first, end)
    while at < end:
        stop = min(at + PART, first) if at < first else min(at + together, end)

        def part(step: Step, at: int = at, state: State | None = state) -> None:
            run(at, state, step)

        state = replay.run(at, stop, state, part)
        at = stop
        if at < end:
            yield


def token_again(
    replay: Replay, position: int, run: Callable[[Step], None], *, plain: bool = False
) -> Iterator[None]:
    """Call `run` with the step of one token, behind those before it that must run again first;
    yield after each part but the last. This step is `plain`, or under the interventions in
    force."""

    def to_the_end_of_layers(step: Step) -> None:
        plan = replay.executor.program.plan_of(step)
        with replay.files.unchanged():
            replay.executor.run_ops(plan, step, 0, plan.layer_ends[-1] + 1, STORES)

    check_position(replay, position)
    at, state = replay.nearest(position, position + 1)
    while at < position:
        stop = min(at + PART, position)
        state = replay.run(at, stop, state, to_the_end_of_layers)
        at = stop
        yield
    replay.run(position, position + 1, state, run, plain=plain)


def check_position(replay: Replay, position: int) -> None:
    """Raise RequestError where the position is not in the cache."""
    if not 0 <= position < replay.length:
        raise RequestError(
            f"position {position} is not in the cache, which holds {replay.length} tokens"
        )
