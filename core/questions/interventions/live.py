"""Interventions while the model writes: as the gains, switches and shifts that steps have."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.inspected import gains_shapes
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages.interventions import Gains, Interventions, LiveChanges
from llm_lite.core.plan.attention_layers import HEAD_GAINS
from llm_lite.core.plan.plan import Program
from llm_lite.core.questions.interventions.kind import LiveState
from llm_lite.core.questions.interventions.table import (
    BY_RECORD,
    UNKNOWN,
    PlacedChange,
    PlacedText,
    placed_in,
)
from llm_lite.core.questions.sites import Stack, sites_of
from llm_lite.core.records import replace


def live_changes(
    interventions: Interventions,
    program: Program,
    gains: Gains | None = None,
    model: LoadedModel = UNKNOWN,
    stack: Stack = "",
) -> LiveChanges:
    """Return how interventions act on every token of a sequence, on top of `gains`, None for 1
    everywhere. `stack` is what the program is of an encoder-decoder. RequestError for one that does
    not fit the model, or cannot act while it writes."""
    if not interventions:
        return LiveChanges(gains)
    found = placed_in(interventions, [_text(program, stack)], model)
    return _live(found, program, gains, None)


def live_of(runner: AnyRunner, interventions: Interventions) -> tuple[LiveChanges, Interventions]:
    """Return how interventions act while a loaded model writes, and the same interventions with the
    names that its sites have here. RequestError as of `live_changes`."""
    program, encoder = runner.executor.program, None
    if isinstance(runner, Runner) and runner.source_encoder is not None:
        encoder = runner.source_encoder.executor.program
    texts = (
        [_text(program)]
        if encoder is None
        else [_text(encoder, "encoder"), _text(program, "decoder")]
    )
    model = LoadedModel(runner.model_info.name, runner.model_file)
    found = placed_in(interventions, texts, model)
    changes = _live(found, program, None, encoder)
    named = tuple(replace(one.change, site=one.place.site.name) for one in found)
    if changes.shifts and not isinstance(runner, Runner):
        at = next(one.place for one in found if one.place.ends_layer is not None).at
        raise RequestError(f"{at}: {runner.model_info.name} is an encoder, which is not shifted")
    return changes, replace(interventions, changes=named)


def intervene(
    runner: AnyRunner, interventions: Interventions, *, throughout: bool = False
) -> Interventions:
    """Have interventions act from the next step on in the place of all others; return them with the
    names that their sites have here. With `throughout`, tokens of the cache that were computed
    under others are forgotten. RequestError for what cannot act while the model writes; all is as
    before then."""
    changes, named = live_of(runner, interventions)
    ones: Gains = tuple((1.0,) * len(row) for row in runner.gains)
    gains = ones if changes.gains is None else changes.gains
    if isinstance(runner, Runner):
        runner.set_gains(gains, changes.shifts, throughout=throughout)
    else:
        runner.set_gains(gains)
    return named


def _text(program: Program, stack: Stack = "") -> PlacedText:
    return PlacedText(program.plans[0], sites_of(program.plans[0], stack))


def _live(
    found: Sequence[PlacedChange],
    program: Program,
    gains: Gains | None,
    encoder: Program | None,
) -> LiveChanges:
    widths = [columns for rows, columns in _rows(program)]
    mine = len(widths)
    widths += [columns for rows, columns in _rows(encoder)] if encoder is not None else []
    own = [list(row) for row in gains] if gains else [[1.0] * columns for columns in widths]
    state = _state(program, own[:mine])
    of_source = state if encoder is None else _state(encoder, own[mine:])
    for change in found:
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
        is_of_source = encoder is not None and change.place.site.of_source
        kind.live(change.change, change.place, of_source if is_of_source else state)
        if is_of_source and of_source.shifts:
            raise RequestError(
                f"{change.place.at}: {change.place.site.name} is of an encoder, which is not "
                "shifted"
            )
    shifts = tuple(
        (layer, tuple(vector)) for layer, vector in sorted(state.shifts.items()) if any(vector)
    )
    is_plain = all(gain == 1.0 for row in own for gain in row)
    return LiveChanges(None if is_plain else tuple(map(tuple, own)), shifts)


def _rows(program: Program) -> list[tuple[int, int]]:
    """Return a row of gains each, and how many numbers it has."""
    shapes = gains_shapes(program)
    return [(row, columns) for count, columns in shapes.values() for row in range(count)]


def _state(program: Program, gains: list[list[float]]) -> LiveState:
    plan, (heads, _) = program.plans[0], gains_shapes(program)[HEAD_GAINS]
    return LiveState(gains, heads, {}, plan.ops[plan.layer_ends[0]].label)
