"""A row of the table of interventions, and the place of a model that a change acts at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Plan
from llm_lite.core.questions.sites import Site

F32 = NDArray[np.float32]


class Place(Struct, frozen=True):
    """A site, and the units that it consists of: `units` of `columns` numbers each. Of a choice of
    experts a unit is an expert, which the values of a token name."""

    at: str  # of the change, in sentences: "interventions[0]"
    site: Site
    units: int
    columns: int
    unit_name: str  # "head", "expert", "column"
    op: str  # that makes it
    layer: int  # of what it scales while the model writes
    ends_layer: int | None = None  # the layer whose end the site is

    @property
    def chooses_experts(self) -> bool:
        return self.unit_name == "expert"

    def slice_of(self, unit: int | None) -> slice:
        """Return the columns of a unit, or all."""
        if unit is None:
            return slice(0, self.site.columns)
        return slice(unit * self.columns, (unit + 1) * self.columns)

    def check_vector(self, what: str, vector: tuple[float, ...], unit: int | None) -> None:
        """Raise RequestError unless a vector has a finite number for each column."""
        if self.chooses_experts:
            raise RequestError(
                f"{self.at}: {self.site.name} is a choice of experts, whose shares can only be "
                "scaled"
            )
        expected = self.site.columns if unit is None else self.columns
        if len(vector) != expected:
            of = self.site.name if unit is None else f"{self.unit_name} {unit} of {self.site.name}"
            raise RequestError(
                f"{self.at}.{what}: expected {expected:,} numbers, the columns of {of}, "
                f"found {len(vector):,}"
            )
        check_finite(f"{self.at}.{what}", vector)


def check_finite(at: str, values: tuple[float, ...]) -> None:
    """Raise RequestError unless all are numbers that float32 has."""
    if not all(abs(value) <= 3e38 for value in values):  # NaN fails
        raise RequestError(f"{at}: expected finite numbers")


class SiteValues(Struct, frozen=True):
    """A site makes `values` [n, columns] in a step, which changes are written to, of tokens at
    `positions` [n]. `experts` [n, chosen] says whose the columns are where it is a choice of
    experts."""

    values: F32
    positions: NDArray[np.int64]
    experts: F32 | None = None

    def rows(self, positions: tuple[int, ...] | None) -> NDArray[np.bool_]:
        """Return which rows are of these positions, or of any."""
        if positions is None:
            return np.ones(len(self.positions), np.bool_)
        return np.isin(self.positions, positions)


class LiveState(Struct, frozen=True):
    """The changes that all steps have while a model writes: `gains` in rows for the heads of each
    layer, and behind `head_rows` of them for the experts; `shifts` by layer, of what it leaves.
    `end`: the site that the first layer leaves, for sentences."""

    gains: list[list[float]]
    head_rows: int
    shifts: dict[int, list[float]]
    end: str


class Kind(Struct, frozen=True):
    """A kind of intervention.

    `check(change, place)` raises RequestError where the change does not fit the place. `apply`
    changes the values of a site in a step; None: it acts only while the model writes. `live` adds
    what the change is to the state of all steps; RequestError where it cannot act there. None: only
    tokens that run again are changed.
    """

    record: type[Any]
    check: Callable[[Any, Place], None]
    apply: Callable[[Any, Place, SiteValues], None] | None = None
    live: Callable[[Any, Place, LiveState], None] | None = None


def place_of(plan: Plan, site: Site, at: str) -> Place:
    """Return the place that a site is."""
    op = plan.ops[site.index]
    if op.name == "route":
        experts = plan.tensors[op.inputs[0]].shape[1]
        return Place(at, site, experts, 1, "expert", op.name, int(op.params["layer"]))
    layer = int(op.params.get("layer", 0))
    ends = plan.layer_ends.index(site.index) if site.index in plan.layer_ends else None
    width = int(op.params.get("head_dim", 0) or op.params.get("value_dim", 0))
    if width and site.columns % width == 0:
        return Place(at, site, site.columns // width, width, "head", op.name, layer, ends)
    return Place(at, site, site.columns, 1, "column", op.name, layer, ends)
