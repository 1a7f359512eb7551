"""The table of interventions. Another kind is a record of core/messages/interventions.py, a file
beside this, and a row here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages.interventions import Change, Interventions
from llm_lite.core.plan.plan import Plan
from llm_lite.core.questions.interventions.choose import CHOOSE
from llm_lite.core.questions.interventions.kind import Kind, Place, SiteValues, place_of
from llm_lite.core.questions.interventions.replace import REPLACE
from llm_lite.core.questions.interventions.scale import SCALE
from llm_lite.core.questions.interventions.shift import SHIFT
from llm_lite.core.questions.sites import Site, Stack, named_among, sites_of

UNKNOWN = LoadedModel()
KINDS = (
    SCALE,
    SHIFT,
    CHOOSE,
    REPLACE,
)
BY_RECORD: Mapping[type[Change], Kind] = MappingProxyType({one.record: one for one in KINDS})


class PlacedChange(Struct, frozen=True):
    """A change that fits the place of a plan that it acts at."""

    change: Change
    place: Place

    @property
    def positions(self) -> tuple[int, ...] | None:
        return self.change.positions

    def apply(self, found: SiteValues) -> None:
        """Change what the site makes in a step."""
        apply = BY_RECORD[type(self.change)].apply
        assert apply is not None, "`placed` refuses it for tokens that run again"
        apply(self.change, self.place, found)


class PlacedText(Struct, frozen=True):
    """A text of `length` tokens, where that is known, and the plan that runs it with the sites that
    it has; of an encoder-decoder there are two."""

    plan: Plan
    sites: tuple[Site, ...]
    length: int | None = None


def placed(
    interventions: Interventions,
    plan: Plan,
    length: int | None = None,
    model: LoadedModel = UNKNOWN,
    stack: Stack = "",
) -> tuple[PlacedChange, ...]:
    """Return the changes with their places in the one plan of a model, as of `placed_in`; `stack`
    is what the plan is of an encoder-decoder."""
    return placed_in(interventions, [PlacedText(plan, sites_of(plan, stack), length)], model)


def placed_in(
    interventions: Interventions, texts: Sequence[PlacedText], model: LoadedModel = UNKNOWN
) -> tuple[PlacedChange, ...]:
    """Return the changes with their places in the texts that a model runs again, or in its plans,
    without lengths, where they act while it writes. RequestError where they were made for another
    model, or one does not fit."""
    _check_model(interventions, model)
    changes = interventions.changes
    owners = {site.name: text for text in texts for site in text.sites}
    every = [site for text in texts for site in text.sites]
    sites = named_among(every, {change.site for change in changes})
    found = []
    for number, change in enumerate(changes):
        site = sites[change.site]
        text = owners[site.name]
        place = place_of(text.plan, site, f"interventions[{number}]")
        if change.unit is not None and not 0 <= change.unit < place.units:
            raise RequestError(
                f"{place.at}.unit: {place.site.name} has {place.unit_name}s 0 to "
                f"{place.units - 1:,}, found {change.unit:,}"
            )
        kind = BY_RECORD[type(change)]
        kind.check(change, place)
        if text.length is not None:
            if kind.apply is None:
                raise RequestError(
                    f"{place.at}: experts are chosen while the model writes, and not where tokens "
                    "run again, as by patch and activations"
                )
            _check_positions(place, change.positions or (), text.length)
        found.append(PlacedChange(change, place))
    return tuple(found)


def _check_model(interventions: Interventions, model: LoadedModel) -> None:
    name, weights = interventions.model, interventions.weights
    if name and model.name and name != model.name:
        raise RequestError(
            f"interventions: they were made for {name[:80]}, and the model is {model.name}"
        )
    if weights and model.file is not None and weights != model.file.identity:
        raise RequestError(
            f"interventions: they were made for weights {weights[:12]} of {name or model.name}, "
            f"and the model's are {model.file.identity[:12]}: make them again, or leave out "
            "`weights` where that does not matter"
        )


def _check_positions(place: Place, positions: Sequence[int], length: int) -> None:
    beyond = next((one for one in positions if not 0 <= one < length), None)
    if beyond is not None:
        raise RequestError(
            f"{place.at}.positions: expected 0 to {length - 1}, the tokens of the text, found "
            f"{beyond:,}"
        )
