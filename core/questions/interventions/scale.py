"""Scale: what a site makes is multiplied; 0 is an ablation."""

from __future__ import annotations

import numpy as np

from llm_lite.core.messages.interventions import Scale
from llm_lite.core.questions.interventions.kind import Kind, Place, SiteValues, check_finite


def _check(change: Scale, place: Place) -> None:
    check_finite(f"{place.at}.factor", (change.factor,))


def _apply(change: Scale, place: Place, found: SiteValues) -> None:
    rows, factor = found.rows(change.positions), np.float32(change.factor)
    if found.experts is not None:  # the shares of the chosen
        mine = rows[:, None] & (True if change.unit is None else found.experts == change.unit)
        found.values[mine] *= factor
    else:
        found.values[rows, place.slice_of(change.unit)] *= factor


SCALE = Kind(Scale, _check, _apply)
