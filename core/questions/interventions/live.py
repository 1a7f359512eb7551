"""Interventions while the model writes: as the gains, switches and shifts that steps have."""

from __future__ import annotations

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.inspected import gains_shapes
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages.interventions import Gains, Interventions, LiveChanges
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.plan import Program
from llm_lite.core.questions.interventions.kind import LiveState
from llm_lite.core.questions.interventions.table import BY_RECORD, UNKNOWN, placed
from llm_lite.core.questions.sites import Stack


def live_changes(
    interventions: Interventions,
    program: Program,
    gains: Gains | None = None,
    model: LoadedModel = UNKNOWN,
    stack: Stack = "",
) -> LiveChanges:
    """Return how interventions act on every token of a sequence, on top of `gains`, None for 1
    everywhere. `stack` is what the program is of an encoder-decoder. RequestError for one
    that does not fit the model, or cannot act while it writes."""
    if not interventions:
        return LiveChanges(gains)
    shapes = gains_shapes(program)
    heads, _ = shapes[HEAD_GAINS]
    rows = [[1.0] * columns for count, columns in shapes.values() for _ in range(count)]
    plan = program.plans[0]
    own, end = [list(row) for row in gains] if gains else rows, plan.ops[plan.layer_ends[0]].label
    state = LiveState(own, heads, {}, end)
    for change in placed(interventions, plan, model=model, stack=stack):
        kind = BY_RECORD[type(change.change)]
        if kind.live is None:
            raise RequestError(
                f"{change.place.at}: rows are put in place where tokens run again, as by patch and "
                "activations, and not while the model writes"
            )
        if change.positions is not None:
            raise RequestError(
                f"{change.place.at}.positions: expected none, as a change acts on all tokens while "
                "the model writes"
            )
        kind.live(change.change, change.place, state)
    shifts = tuple(
        (layer, tuple(vector)) for layer, vector in sorted(state.shifts.items()) if any(vector)
    )
    is_plain = all(gain == 1.0 for row in state.gains for gain in row)
    return LiveChanges(None if is_plain else tuple(map(tuple, state.gains)), shifts)
