"""Choose: an expert that every token chooses, or none while there are others."""

from __future__ import annotations

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.gains import CHOICES
from llm_lite.core.messages.interventions import Choose
from llm_lite.core.questions.interventions.kind import Kind, LiveState, Place


def _check(change: Choose, place: Place) -> None:
    if not place.chooses_experts:
        raise RequestError(
            f"{place.at}: {place.site.name} is no choice of experts, as "
            "layers.0.feed_forward.route is"
        )


def _live(change: Choose, place: Place, state: LiveState) -> None:
    row = state.gains[state.head_rows + place.layer]
    units = range(place.units) if change.unit is None else (change.unit,)
    for unit in units:
        row[place.units + unit] = CHOICES[change.choice]


CHOOSE = Kind(Choose, _check, None, _live)
