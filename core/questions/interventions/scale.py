"""Scale: what a site makes is multiplied; 0 is an ablation."""

from __future__ import annotations

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.interventions import Scale
from llm_lite.core.questions.interventions.kind import (
    Kind,
    LiveState,
    Place,
    SiteValues,
    check_finite,
)


def _check(change: Scale, place: Place) -> None:
    check_finite(f"{place.at}.factor", (change.factor,))


def _apply(change: Scale, place: Place, found: SiteValues) -> None:
    rows, factor = found.rows(change.positions), np.float32(change.factor)
    if found.experts is not None:  # the shares of the chosen
        mine = rows[:, None] & (True if change.unit is None else found.experts == change.unit)
        found.values[mine] *= factor
    else:
        found.values[rows, place.slice_of(change.unit)] *= factor


def _live(change: Scale, place: Place, state: LiveState) -> None:
    if place.op == "attention":
        row = state.gains[place.layer]
    elif place.chooses_experts:
        row = state.gains[state.head_rows + place.layer]
    else:
        raise RequestError(
            f"{place.at}: while the model writes only heads, as of layers.0.attention.heads, and "
            f"experts, as of layers.0.feed_forward.route, are scaled, not {place.site.name}"
        )
    units = range(place.units) if change.unit is None else (change.unit,)
    for unit in units:
        row[unit] *= change.factor


SCALE = Kind(Scale, _check, _apply, _live)
