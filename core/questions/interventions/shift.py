"""Shift: a vector is added to what a site makes of each token, as steering vectors are."""

from __future__ import annotations

import numpy as np

from llm_lite.core.messages.interventions import Shift
from llm_lite.core.questions.interventions.kind import Kind, Place, SiteValues


def _check(change: Shift, place: Place) -> None:
    place.check_vector("vector", change.vector, change.unit)


def _apply(change: Shift, place: Place, found: SiteValues) -> None:
    vector = np.array(change.vector, np.float32)
    found.values[found.rows(change.positions), place.slice_of(change.unit)] += vector


SHIFT = Kind(Shift, _check, _apply)
