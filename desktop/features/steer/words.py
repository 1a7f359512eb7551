"""Interventions in words: what an answer's record says of them, and the rows of a list. A kind that
has no words of its own here is called as in its record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeGuard

from msgspec import Struct, field

from llm_lite.core.messages import Interventions
from llm_lite.core.messages.interventions import Change, Scale
from llm_lite.desktop.language.translate import mark, number, tr, trn

KINDS = (mark("scale"), mark("shift"), mark("choose"), mark("replace"))
_PLACE = frozenset({"site", "unit", "positions"})  # the fields that all kinds have
SHOWN_POSITIONS = 4


def kind_of(change: Change) -> str:
    """Return the kind of a change, by the tag of its record."""
    return str(change.__struct_config__.tag)


def in_words(interventions: Interventions) -> str:
    """Return what is changed, as "3 heads off, 1 direction added"; "" for nothing."""
    return _in_words(interventions, number()) if interventions else ""


@lru_cache(64)  # those in force, and the head of each answer, are drawn in every frame
def _in_words(interventions: Interventions, language: int) -> str:
    heads, layers, experts = _Gains(), _Gains(), set[tuple[str, int]]()
    others = Counter[str]()
    for change in interventions.changes:
        unit = change.unit
        if unit is not None and change.site.endswith(".route"):
            experts.add((change.site, unit))
        elif not _weighs_heads(change):
            others[kind_of(change)] += 1
        elif unit is None:
            layers.add(change, -1)
        else:
            heads.add(change, unit)
    words = [
        (trn("{n:,} head off", "{n:,} heads off", len(heads.off)), heads.off),
        (trn("{n:,} head weighed", "{n:,} heads weighed", len(heads.weighed)), heads.weighed),
        (trn("{n:,} layer's heads off", "{n:,} layers' heads off", len(layers.off)), layers.off),
        (
            trn("{n:,} layer's heads weighed", "{n:,} layers' heads weighed", len(layers.weighed)),
            layers.weighed,
        ),
        (trn("{n:,} expert switched", "{n:,} experts switched", len(experts)), experts),
    ]
    counted = (one.format(n=len(units)) for one, units in words if units)
    return ", ".join([*counted, *_other_words(others)])


class _Gains(Struct):
    """The heads, or layers of heads, that are off, and those that are weighed."""

    off: set[tuple[str, int]] = field(default_factory=set)
    changed: set[tuple[str, int]] = field(default_factory=set)

    @property
    def weighed(self) -> set[tuple[str, int]]:
        return self.changed - self.off  # gains of a head are multiplied

    def add(self, change: Scale, unit: int) -> None:
        self.changed.add((change.site, unit))
        if change.factor == 0:
            self.off.add((change.site, unit))


def _other_words(counts: Counter[str]) -> Iterator[str]:
    """Yield how many changes there are of each kind."""
    for kind, count in counts.items():
        if kind == "shift":
            yield trn("{n:,} direction added", "{n:,} directions added", count).format(n=count)
        else:
            words = trn("{n:,} change: {kind}", "{n:,} changes: {kind}", count)
            yield words.format(n=count, kind=tr(kind))


def _weighs_heads(change: Change) -> TypeGuard[Scale]:
    return isinstance(change, Scale) and change.site.endswith("attention.heads")


def row_words(change: Change) -> tuple[str, str]:
    """Return where a change acts, and its kind with its size."""
    where = change.site
    if change.unit is not None:
        where += "  ·  " + tr("unit {n}").format(n=change.unit)
    if change.positions is not None:
        shown = ", ".join(map(str, change.positions[:SHOWN_POSITIONS]))
        more = " …" if len(change.positions) > SHOWN_POSITIONS else ""
        where += "  ·  " + tr("positions {list}").format(list=shown + more)
    sizes = (_size(name, getattr(change, name)) for name in change.__struct_fields__)
    return where, "  ·  ".join([tr(kind_of(change)), *filter(None, sizes)])


def _size(name: str, value: Any) -> str:
    """Return a field as a number or a word; of vectors, how long they are."""
    if name in _PLACE or value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        length = math.sqrt(sum(one * one for one in _numbers(value)))
        return tr("length {length}").format(length=f"{length:.3g}")
    return tr(value) if isinstance(value, str) else str(value)


def _numbers(values: Iterable[Any]) -> Iterator[float]:
    for one in values:
        yield from _numbers(one) if isinstance(one, tuple) else (one,)
