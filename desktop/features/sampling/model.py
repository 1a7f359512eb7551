"""The sampling options in force: what a person set, else what the model advises, else the defaults.

Settings that the command line asked for hold until a person changes them. Only what a person chose
is kept for the next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llm_lite.core.messages import Command, SamplingDefault, SamplingOptions, in_force
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState

PARTS = ("sampling", "options")  # that options of the command line are of


def differing(one: SamplingOptions, other: SamplingOptions) -> frozenset[str]:
    return frozenset(n for n in OPTIONS if getattr(one, n) != getattr(other, n))


def advice(state: AppState) -> tuple[SamplingDefault, ...]:
    """Return what the model in use advises for options that the person has not set: neither to
    another value than the program's default, nor to that one on purpose."""
    if state.model is None:
        return ()
    mine = state.sampling_chosen | differing(state.sampling, SamplingOptions())
    chosen = {name: getattr(state.sampling, name) for name in mine}
    return in_force(state.model.sampling_defaults, chosen)


def sampler(state: AppState) -> SamplingOptions:
    """Return the options by which answers are chosen now."""
    advised: dict[str, Any] = {default.name: default.value for default in advice(state)}
    return replace(state.sampling, **advised)


def with_asked(state: AppState, **asked: Any) -> AppState:
    """Set what in `asked`, by part, is not the default, and mark it as not to be kept."""
    unkept = set(state.unkept)
    for part, values in asked.items():
        default = type(values)()
        names = list(_other(values, default))
        chosen = {name: getattr(values, name) for name in names}
        state = replace(state, **{part: replace(getattr(state, part), **chosen)})
        unkept |= {f"{part}.{name}" for name in names}
    return replace(state, unkept=frozenset(unkept))


def note_choices(
    action: object, before: AppState, result: tuple[AppState, tuple[Command, ...]], now: float
) -> tuple[AppState, tuple[Command, ...]]:
    """Mark what an action has changed as the person's choice, which is kept, even if its value is
    again that of the start."""
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
    """Return the values of a part for the next start. What only the command line asked for has the
    value that was `kept` before."""
    names = [name for name in kept.__struct_fields__ if f"{part}.{name}" in state.unkept]
    return replace(getattr(state, part), **{name: getattr(kept, name) for name in names})


def _other(one: Any, other: Any) -> Iterable[str]:
    """Return the names of the fields in which two records of a kind differ."""
    return (n for n in one.__struct_fields__ if getattr(one, n) != getattr(other, n))


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    return {
        "sampling": to_keep(state, "sampling", settings.sampling),
        "sampling_chosen": tuple(sorted(state.sampling_chosen)),
    }


def restore(settings: Settings, state: AppState) -> AppState:
    chosen = frozenset(settings.sampling_chosen)
    return replace(state, sampling=settings.sampling, sampling_chosen=chosen)
