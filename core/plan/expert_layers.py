"""The layers of a mixture of experts, and what a step keeps of their choices: found in a plan's
ops, for any model."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.plan.plan import Plan, Program

# State f32 [slots * layers, 2 * experts], by layer the switches of the op `route`; all 1: untouched
EXPERT_SWITCHES = "expert_switches"


class ExpertLayer(Struct, frozen=True):
    """A layer whose router chooses among experts for each token."""

    layer: int
    experts: int
    chosen: int  # for each token
    # States f32 [R, chosen], position p in row p mod R: who was chosen, and what each weighed.
    # None: not kept
    kept: tuple[str, str] | None = None


def expert_layers(plan: Plan) -> tuple[ExpertLayer, ...]:
    """Return the layers with experts in the order of the layers; () for a dense model."""
    stored = {
        source: plan.tensors[target].name
        for op in plan.ops
        if op.name == "store"
        for source, target in zip(op.inputs, op.outputs, strict=True)
    }
    found = []
    for index, op in enumerate(plan.ops):
        if op.name != "route":
            continue
        layer = sum(end < index for end in plan.layer_ends)
        kept = tuple(stored[output] for output in op.outputs if output in stored)
        logits, chosen = plan.tensors[op.inputs[0]], plan.tensors[op.outputs[0]]
        found.append(
            ExpertLayer(
                layer,
                logits.shape[1],
                chosen.shape[1],
                (kept[0], kept[1]) if len(kept) == 2 else None,
            )
        )
    return tuple(found)


def expert_ranges(plan: Plan) -> tuple[range, ...]:
    """Return the ops that the experts of each layer are, from the order of their rows to the sum of
    what they find; () for a dense model."""
    firsts = [i for i, op in enumerate(plan.ops) if op.name == "expert_places"]
    lasts = [i for i, op in enumerate(plan.ops) if op.name == "expert_sum"]
    return tuple(range(a, b + 1) for a, b in zip(firsts, lasts, strict=True))


def expert_weights(program: Program) -> frozenset[str]:
    """Return the names of the matrices of experts: each has those of all experts of a layer."""
    return frozenset(
        plan.tensors[op.inputs[1]].name
        for plan in program.plans
        for op in plan.ops
        if op.name == "expert_matmul"
    )
