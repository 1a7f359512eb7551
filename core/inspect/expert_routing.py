"""Reads which experts of a mixture each token chose in each layer, and what they weighed, as the
steps of the chat or of a response kept it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.kv_cache.contents import values_of
from llm_lite.core.messages import ReadRouting, RoutingRead
from llm_lite.core.plan.expert_layers import ExpertLayer, expert_layers
from llm_lite.core.plan.plan import Plan

F32 = NDArray[np.float32]
Kept = Sequence[tuple[ExpertLayer, tuple[str, str]]]  # a layer, and its states by name
CHOICES = "the choices of experts"
NOT_KEPT = (
    "the choices of experts are not kept: the memory budget of queries, with which they are kept, "
    "is too small"
)


def read_routing(asked: ReadRouting, session: InspectedSession) -> RoutingRead:
    """Return the choices of the tokens that a session holds, between two steps. RequestError where
    the model has no experts, or nothing is kept of their choices; NotFiniteError where shares are
    no numbers."""
    executor, committed = session.executor, session.committed
    plan = executor.program.plans[0]
    kept = kept_layers(plan)
    tensors = {tensor.name: tensor for tensor in plan.tensors}
    first = min(max(asked.first, committed.rows.start), committed.length)
    positions = range(first, committed.length)
    return routing_of(
        kept,
        positions,
        committed.epoch,
        lambda name: session.checked(values_of(executor, tensors[name], positions), CHOICES),
    )


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
