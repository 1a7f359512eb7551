"""Gains of heads and experts as interventions, and interventions as the gains that a grid of heads
shows. Rows of gains are those of `ModelInfo.gain_sites`: a number for each head, or for each expert
a factor of its share, and behind these whether it is chosen (`CHOICES`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from llm_lite.core.messages.interventions import (
    NO_CHANGES,
    Change,
    Choose,
    Gains,
    Interventions,
    Scale,
)
from llm_lite.core.messages.models import ModelInfo

AS_ROUTED = 1.0  # an expert that is chosen where its router says so
CHOICES: Mapping[Literal["always", "last"], float] = MappingProxyType({"always": 2.0, "last": 0.0})
_CHOICE_OF = {value: name for name, value in CHOICES.items()}


def gains_of(interventions: Interventions, model: ModelInfo) -> Gains:
    """Return the gains that interventions are of the heads and experts of a model; other changes
    are none."""
    rows: list[Sequence[float]] = [(1.0,) * width for width in model.gain_widths]
    index = {site: row for row, site in enumerate(model.gain_sites) if site}
    for change in interventions.changes:
        number = index.get(change.site)
        if number is None or change.positions is not None:
            continue
        row, of_experts = list(rows[number]), number >= model.gain_rows
        count = model.experts if of_experts else len(row)
        units = range(count) if change.unit is None else (change.unit,)
        for unit in units:
            if unit >= count:
                continue
            if isinstance(change, Scale):
                row[unit] *= change.factor
            elif isinstance(change, Choose) and of_experts:
                row[count + unit] = CHOICES[change.choice]
        rows[number] = row
    return tuple(map(tuple, rows))


def with_gains(interventions: Interventions, gains: Gains, model: ModelInfo) -> Interventions:
    """Return interventions with these gains of heads and experts in the place of their own."""
    return of_model(model, (*others(interventions, model), *changes_of(gains, model)))


def others(interventions: Interventions, model: ModelInfo) -> tuple[Change, ...]:
    """Return the changes that are no gains of heads or experts."""
    sites = frozenset(filter(None, model.gain_sites))
    return tuple(
        change
        for change in interventions.changes
        if change.site not in sites
        or change.positions is not None
        or not isinstance(change, Scale | Choose)
    )


def changes_of(gains: Gains, model: ModelInfo) -> Iterator[Change]:
    """Yield what is other than 1 in gains, as changes."""
    for number, (site, row) in enumerate(zip(model.gain_sites, gains, strict=True)):
        if site:
            yield from _of_row(site, row, model.experts if number >= model.gain_rows else len(row))


def fit_heads(interventions: Interventions, model: ModelInfo) -> bool:
    """Return whether all changes are gains of heads or experts that a model has."""
    widths = dict(zip(model.gain_sites, model.gain_widths, strict=True))
    return not others(interventions, model) and all(
        change.unit is None or change.unit < widths[change.site] for change in interventions.changes
    )


def of_model(model: ModelInfo, changes: Sequence[Change]) -> Interventions:
    """Return interventions that are made for a model."""
    return Interventions(tuple(changes), model.name) if changes else NO_CHANGES


def from_old_gains(gains: Gains | None) -> Interventions:
    """Return gains as interventions, as older records have them, which say of their model no more
    than these: a row of heads for each layer, and behind them rows of another width for experts."""
    if not gains or not gains[0]:
        return NO_CHANGES
    layers = next((n for n, row in enumerate(gains) if len(row) != len(gains[0])), len(gains))
    changes: list[Change] = []
    for number, row in enumerate(gains):
        if number < layers:
            changes += _of_row(f"layers.{number}.attention.heads", row, len(row))
        else:
            site = f"layers.{number - layers}.feed_forward.route"
            changes += _of_row(site, row, len(row) // 2)
    return Interventions(tuple(changes))


def _of_row(site: str, row: Sequence[float], count: int) -> Iterator[Change]:
    """Yield the changes of a row, whose first `count` numbers are factors."""
    if row.count(1.0) == len(row):  # most rows are plain
        return
    for unit, gain in enumerate(row[:count]):
        if gain != 1.0:
            yield Scale(site, gain, unit)
    for unit, value in enumerate(row[count:]):
        if value != AS_ROUTED:
            yield Choose(site, _CHOICE_OF.get(value, "always" if value > 1 else "last"), unit)
