"""Shift: a vector is added to what a site makes of each token, as steering vectors are."""

from __future__ import annotations

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.interventions import Shift
from llm_lite.core.questions.interventions.kind import Kind, LiveState, Place, SiteValues


def _check(change: Shift, place: Place) -> None:
    place.check_vector("vector", change.vector, change.unit)


def _apply(change: Shift, place: Place, found: SiteValues) -> None:
    vector = np.array(change.vector, np.float32)
    found.values[found.rows(change.positions), place.slice_of(change.unit)] += vector


def _live(change: Shift, place: Place, state: LiveState) -> None:
    if place.ends_layer is None:
        raise RequestError(
            f"{place.at}: while the model writes only what layers leave is shifted, as "
            f"{state.end}, not {place.site.name}"
        )
    vector = state.shifts.setdefault(place.ends_layer, [0.0] * place.site.columns)
    first = place.slice_of(change.unit).start
    for column, value in enumerate(change.vector, first):
        vector[column] += value


SHIFT = Kind(Shift, _check, _apply, _live)
