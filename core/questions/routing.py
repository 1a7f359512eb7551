"""The experts of a mixture that each token chose in each layer, and what they weighed, as the steps
of the sequence kept it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import ReadRouting, RoutingRead
from llm_lite.core.plan.expert_layers import ExpertLayer, expert_layers
from llm_lite.core.plan.plan import Plan
from llm_lite.core.questions.question import Parts, Question
from llm_lite.core.questions.replay import Replay

F32 = NDArray[np.float32]
Kept = Sequence[tuple[ExpertLayer, tuple[str, str]]]  # a layer, and its states by name
CHOICES = "the choices of experts"
NOT_KEPT = (
    "the choices of experts are not kept: the memory budget of queries, with which they are kept, "
    "is too small"
)


def run(request: ReadRouting, replay: Replay) -> Parts[RoutingRead]:
    """Return the choices of the tokens from `request.first` on, or from the first that is kept."""
    yield from ()
    plan = replay.executor.program.plans[0]
    kept = kept_layers(plan)
    if not 0 <= request.first <= replay.length:
        raise RequestError(
            f"position {request.first} is not in the cache, which holds {replay.length} tokens"
        )
    tensors = {tensor.name: tensor for tensor in plan.tensors}
    positions = range(max(request.first, min(replay.rows.start, replay.length)), replay.length)

    def values(name: str) -> F32:
        return replay.checked(replay.kept(tensors[name], positions), CHOICES)

    return routing_of(kept, positions, replay.epoch, values)


def kept_layers(plan: Plan) -> Kept:
    """Return the layers with experts, and the states that keep their choices. RequestError if there
    are none, or nothing is kept of what they choose."""
    layers = expert_layers(plan)
    if not layers:
        raise RequestError("the model has no experts: every token passes all of its weights")
    kept = [(layer, layer.kept) for layer in layers if layer.kept is not None]
    if len(kept) < len(layers):
        raise RequestError(NOT_KEPT)
    return kept


def routing_of(
    kept: Kept, positions: range, epoch: int, values: Callable[[str], F32]
) -> RoutingRead:
    """Return the choices at some positions; `values` returns float32 [positions, chosen] of a state
    by its name."""
    experts = np.stack([values(name) for _, (name, _) in kept], axis=1)
    shares = np.stack([values(name) for _, (_, name) in kept], axis=1)
    first, _ = kept[0]
    return RoutingRead(
        positions.start,
        epoch,
        first.experts,
        first.chosen,
        tuple(layer.layer for layer, _ in kept),
        experts.astype("<u2").tobytes(),
        shares.astype("<f4").tobytes(),
    )


ROUTING = Question(
    "experts",
    ReadRouting,
    RoutingRead,
    run,
    "which experts its tokens choose",
    ReadRouting(),
    Routing.of,
    newest_only=True,
    reads_rows=True,
)
