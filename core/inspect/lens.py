"""Runs a position of the cache again for the logit lens, without leaving a trace in the cache.

The token at the position runs once more, over the cache as it stands, through all ops but those
that store. Not while a step runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.messages import Gains
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step

F32 = NDArray[np.float32]

_STORES = ("store",)  # ops left out, so that nothing kept is written again


def logits_after(
    session: InspectedSession,
    position: int,
    gains: Gains | None = None,
    should_stop: StopCheck | None = None,
) -> F32:
    """Return logits float32 [V] of what follows the position, with the gains in force or others.

    As of `lens` and `divergence`: NotFiniteError where they are no numbers, CancelledError once
    `should_stop` says so while tokens before run again, as recurrent states need it.
    """
    plan, step = _again(session, position, should_stop)
    if gains is not None:
        session.write_gains(gains)
    try:
        with session.files.unchanged():
            session.executor.run_ops(plan, step, 0, len(plan.ops), _STORES)
            logits = session.executor.read(plan, plan.tensors[plan.logits], step)[0]
    finally:
        if gains is not None:
            session.write_gains(session.gains)
    return session.checked(logits, f"the logits of token {position}")


def divergence(session: InspectedSession, should_stop: StopCheck | None = None) -> float:
    """Return KL(all gains 1 || gains in force) in nats, of the token after the last position."""
    last = session.context_used - 1
    ones = tuple((1.0,) * len(row) for row in session.gains)
    p, q = (
        _log_softmax(logits_after(session, last, gains, should_stop))
        for gains in (ones, session.gains)
    )
    return max(0.0, float((np.exp(p) * (p - q)).sum()))  # of finite logits, never NaN


def lens(
    session: InspectedSession, position: int, should_stop: StopCheck | None = None
) -> list[tuple[int, F32]]:
    """Return (layer, logits float32 [V]) behind every layer: its residual through output norm and
    head."""
    _, step = _again(session, position, should_stop)
    return lens_of(TokenAgain(session.executor, session.files, step, session.checked))


class TokenAgain(Struct, frozen=True):
    """A token that the cache holds, in a step of its own, on the executor that has the cache."""

    executor: Executor
    files: MappedFiles
    step: Step
    checked: Callable[[F32, str], F32]  # as of `InspectedSession`


def lens_of(token: TokenAgain) -> list[tuple[int, F32]]:
    """Return the lens as `lens` does, for a sequence that shares the cache with others."""
    with token.files.unchanged():
        run, residuals, done = token.executor.run_ops, [], 0
        plan, step = token.executor.program.plan_for(1, 1), token.step
        for layer, index in enumerate(plan.layer_ends):
            run(plan, step, done, index + 1, _STORES)
            done = index + 1
            residual = plan.tensors[plan.ops[index].outputs[0]]
            residuals.append((layer, token.executor.read(plan, residual, step)))
        return [
            (layer, token.checked(_through_head(token, plan, values), f"layer {layer}'s logits"))
            for layer, values in residuals
        ]


def _through_head(token: TokenAgain, plan: Plan, residual: F32) -> F32:
    first = next(i for i, op in enumerate(plan.ops) if op.name == "output_rows")
    executor, step = token.executor, token.step
    executor.write(plan, plan.tensors[plan.ops[first].inputs[0]], step, residual)
    executor.run_ops(plan, step, first, len(plan.ops))
    return executor.read(plan, plan.tensors[plan.logits], step)[0]


def _again(
    session: InspectedSession, position: int, should_stop: StopCheck | None
) -> tuple[Plan, Step]:
    tokens = session.tokens()
    if not 0 <= position < len(tokens):
        raise RequestError(f"position {position} is not in the cache, which holds {len(tokens)}")
    step = session.step([tokens[position]], position, 1, should_stop)
    return session.executor.program.plan_for(1, 1), step


def _log_softmax(logits: F32) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max()
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result
