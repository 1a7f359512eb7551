"""Interventions: what is changed of a model's computation, at which of its sites.

A site is a place of the model by name (`llm-lite sites MODEL` lists them). A change may concern one
unit of it alone: a head where a site is of heads, an expert where it is their choice, else a
column. What each kind does stands in core/questions/interventions/.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from llm_lite.core.records import about

Site = Annotated[str, about("Name or alias of a site, as layers.3.attention.heads.")]
Unit = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    about("A head, an expert or a column of the site; without it, all of them."),
]
Positions = Annotated[
    tuple[Annotated[int, Meta(ge=0)], ...] | None,
    about("Positions of tokens; without them, all."),
]
Vector = Annotated[tuple[float, ...], about("A number for each column of the site, or unit.")]


class Scale(Struct, frozen=True, tag_field="kind", tag="scale", forbid_unknown_fields=True):
    """Multiply what a site makes; of experts, the share of one."""

    site: Site
    factor: Annotated[float, about("0 switches the unit off.")]
    unit: Unit = None
    positions: Positions = None


class Shift(Struct, frozen=True, tag_field="kind", tag="shift", forbid_unknown_fields=True):
    """Add a vector to what a site makes of each token."""

    site: Site
    vector: Vector
    unit: Unit = None
    positions: Positions = None


class Replace(Struct, frozen=True, tag_field="kind", tag="replace", forbid_unknown_fields=True):
    """Put rows in the place of what a site makes, one for each position."""

    site: Site
    rows: Annotated[tuple[Vector, ...], about("[positions, columns of the site, or unit].")]
    positions: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...], about("The positions of the rows.")
    ]
    unit: Unit = None


class Choose(Struct, frozen=True, tag_field="kind", tag="choose", forbid_unknown_fields=True):
    """Have an expert chosen by every token, or only after all others."""

    site: Site
    choice: Annotated[Literal["always", "last"], about("Before all others, or after them.")]
    unit: Unit = None
    positions: Positions = None


Change: TypeAlias = (
    Scale  # multiplies
    | Shift  # adds
    | Choose  # of experts, by every token or by none
    | Replace  # puts in place
)


Gains = tuple[tuple[float, ...], ...]  # [layers][heads]; 1 leaves a head alone, 0 ablates it
Shifts = tuple[tuple[int, tuple[float, ...]], ...]  # layer, and what is added to what it leaves


class Interventions(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes, which act in the order of the sites; at one site, in this order."""

    changes: Annotated[tuple[Change, ...], about("What is changed.")] = ()
    model: Annotated[
        str, about("The name of the model that they were made for; without it, any.")
    ] = ""
    weights: Annotated[
        str,
        about(
            "What the weights that they were made for are known by, as `model.interventions(...)` "
            "of Python writes it; without it, any."
        ),
    ] = ""

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def key(self) -> str:
        """Return a digest that equal changes have, "" for none."""
        if not self.changes:
            return ""
        return blake2b(msgspec.json.encode(self.changes), digest_size=16).hexdigest()


NO_CHANGES = Interventions()


class LiveChanges(Struct, frozen=True):
    """Interventions as steps of a sequence have them while the model writes: the gains of heads and
    switches of experts, None for 1 everywhere, and shifts in the order of the layers."""

    gains: Gains | None = None
    shifts: Shifts = ()


UNCHANGED = LiveChanges()
