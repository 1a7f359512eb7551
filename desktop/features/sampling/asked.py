"""Settings that the command line asked for: they hold until a person changes them, and only what a
person chose is kept for the next start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState

PARTS = ("sampling", "options")  # that options of the command line are of


def with_asked(state: AppState, **asked: Any) -> AppState:
    """`state` with what of `asked`, by part, is not the default; it is not kept."""
    unkept = set(state.unkept)
    for part, values in asked.items():
        default = type(values)()
        names = list(_other(values, default))
        chosen = {name: getattr(values, name) for name in names}
        state = replace(state, **{part: replace(getattr(state, part), **chosen)})
        unkept |= {f"{part}.{name}" for name in names}
    return replace(state, unkept=frozenset(unkept))


def note_choices(action: object, before: AppState, result: Result, now: float) -> Result:
    """Take what an action has changed for a person's choice, also when it is put back to what it
    was at start."""
    after, commands = result
    if not after.unkept:
        return result
    changed = {
        f"{part}.{name}"
        for part in PARTS
        if getattr(before, part) is not getattr(after, part)
        for name in _other(getattr(before, part), getattr(after, part))
    }
    if not changed & after.unkept:
        return result
    return replace(after, unkept=after.unkept - changed), commands


def to_keep(state: AppState, part: str, kept: Any) -> Any:
    """The values of a part for the next start; of what only the command line asked for, those that
    were `kept` before."""
    names = [name for name in kept.__struct_fields__ if f"{part}.{name}" in state.unkept]
    return replace(getattr(state, part), **{name: getattr(kept, name) for name in names})


def _other(one: Any, other: Any) -> Iterable[str]:
    """Names of the fields in which two records of a kind differ."""
    return (n for n in one.__struct_fields__ if getattr(one, n) != getattr(other, n))
