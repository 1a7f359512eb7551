"""The effect of interventions on the next token: how far its distribution moves."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import EffectRead, ReadEffect
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.question import Parts, Question, RemoteText, Where
from llm_lite.core.questions.replay import Replay
from llm_lite.core.questions.running import token_again

F32 = NDArray[np.float32]


def run(request: ReadEffect, replay: Replay) -> Parts[EffectRead]:
    """Return KL(no interventions || those in force) in nats, of the token after the last
    position."""
    if not replay.length:
        raise RequestError("there is nothing to compare: the cache is empty")
    last = replay.length - 1
    p = log_softmax((yield from logits_after(last, replay, plain=True)))
    yield "executor"
    q = log_softmax((yield from logits_after(last, replay)))
    return EffectRead(max(0.0, float((np.exp(p) * (p - q)).sum())))  # of finite logits, never NaN


def logits_after(
    position: int, replay: Replay, *, plain: bool = False
) -> Generator[Where, None, F32]:
    """Return logits float32 [V] of what follows a position, its step `plain` or under the
    interventions in force. RequestError for a position that is not there, NotFiniteError where
    logits are no numbers."""
    found = list[F32]()

    def run_token(step: Step) -> None:
        executor = replay.executor
        plan = executor.program.plan_of(step)
        with replay.files.unchanged():
            executor.run_ops(plan, step, 0, len(plan.ops), STORES)
            found.append(executor.read(plan, plan.tensors[plan.logits], step)[0])

    for _ in token_again(replay, position, run_token, plain=plain):
        yield "executor"
    return replay.checked(found[0], f"the logits of token {position}")


def log_softmax(logits: F32) -> NDArray[np.float64]:
    """Return log probabilities [V] of logits float32 [V]."""
    shifted = logits.astype(np.float64) - logits.max()
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result


def check_answer(request: ReadEffect, answer: EffectRead, text: RemoteText) -> None:
    """Raise ValueError unless it is a divergence."""
    if not 0 <= answer.kl < math.inf:
        raise ValueError(f"kl: expected a number from 0 on, found {answer.kl}")


EFFECT = Question(
    "effect",
    ReadEffect,
    EffectRead,
    run,
    "what interventions change of the next token",
    ReadEffect(),
    check=check_answer,
)
