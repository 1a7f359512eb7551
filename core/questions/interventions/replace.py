"""Replace: rows in the place of what a site makes, as those of another run are patched in."""

from __future__ import annotations

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.interventions import Replace
from llm_lite.core.questions.interventions.kind import Kind, Place, SiteValues


def _check(change: Replace, place: Place) -> None:
    if len(change.rows) != len(change.positions):
        raise RequestError(
            f"{place.at}.rows: expected one for each of {len(change.positions)} positions, found "
            f"{len(change.rows)}"
        )
    for number, row in enumerate(change.rows):
        place.check_vector(f"rows[{number}]", row, change.unit)


def _apply(change: Replace, place: Place, found: SiteValues) -> None:
    columns = place.slice_of(change.unit)
    for row, position in enumerate(found.positions.tolist()):
        if position in change.positions:
            values = change.rows[change.positions.index(position)]
            found.values[row, columns] = np.array(values, np.float32)


REPLACE = Kind(Replace, _check, _apply)
