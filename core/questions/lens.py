"""The logit lens: what the model would say next, were it to end behind each layer.

The residual behind a layer goes through the model's own output norm and head (nostalgebraist 2020,
"interpreting GPT: the logit lens"). The token at the position runs once more, over the cache as it
stands.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import likeliest
from llm_lite.core.messages import Alternative, Inspect, LensResult, LensRow
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.question import Parts, Question, Where
from llm_lite.core.questions.replay import Replay
from llm_lite.core.questions.running import check_position, token_again

F32 = NDArray[np.float32]
MOST_TOKENS = 100  # likeliest ones of a layer


def run(request: Inspect, replay: Replay) -> Parts[LensResult]:
    if not 1 <= request.count <= MOST_TOKENS:
        raise RequestError(f"count: expected 1 to {MOST_TOKENS}, found {request.count}")
    found = yield from layer_logits(request.position, replay)
    yield "anywhere"
    rows = tuple(
        LensRow(
            layer,
            tuple(
                Alternative(token, replay.token_text(token), p)
                for token, p in likeliest(logits, request.count)
            ),
        )
        for layer, logits in enumerate(found)
    )
    return LensResult(request.position, rows)


def layer_logits(position: int, replay: Replay) -> Generator[Where, None, list[F32]]:
    """Return logits float32 [V] behind every layer: its residual through output norm and head.
    RequestError for a position that is not there, NotFiniteError where logits are no numbers."""
    found = list[F32]()

    def run_token(step: Step) -> None:
        executor = replay.executor
        plan, done, residuals = executor.program.plan_of(step), 0, []
        with replay.files.unchanged():
            for index in plan.layer_ends:
                executor.run_ops(plan, step, done, index + 1, STORES)
                done = index + 1
                behind = plan.tensors[plan.ops[index].outputs[0]]
                residuals.append(executor.read(plan, behind, step))
            for layer, residual in enumerate(residuals):
                logits = _through_head(replay, plan, step, residual)
                found.append(replay.checked(logits, f"layer {layer}'s logits"))

    check_position(replay, position)
    for _ in token_again(replay, position, run_token):
        yield "executor"
    return found


def _through_head(replay: Replay, plan: Plan, step: Step, residual: F32) -> F32:
    first = next(i for i, op in enumerate(plan.ops) if op.name == "output_rows")
    executor = replay.executor
    executor.write(plan, plan.tensors[plan.ops[first].inputs[0]], step, residual)
    executor.run_ops(plan, step, first, len(plan.ops))
    return executor.read(plan, plan.tensors[plan.logits], step)[0]


LENS = Question(
    "lens",
    Inspect,
    LensResult,
    run,
    "what its layers would say",
    Inspect(0),
)
