"""The layers that have a recurrent state with heads: found in a plan's ops, whatever the model."""

from __future__ import annotations

from llm_lite.core.plan.plan import Plan


def state_layers(plan: Plan) -> dict[int, int]:
    """Return by layer that has a delta rule its index among the plan's ops; other layers attend, or
    their state is that of a convolution alone."""
    found, layer = {}, 0
    for index, op in enumerate(plan.ops):
        if op.name == "delta_rule":
            found[layer] = index
        if index in plan.layer_ends:
            layer += 1
    return found
