"""Actions on the window's layout: choose one, show and hide its side panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.records import asdict, replace
from llm_lite.desktop.features.history.model import ShowHistory
from llm_lite.desktop.features.layouts.state import (
    LAYOUTS,
    KeptSides,
    LayoutName,
    Layouts,
    Sides,
    Sizes,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import ShowRuns, show_runs


class UseLayout(Action, frozen=True):
    name: LayoutName


class ShowInspector(Action, frozen=True):
    shown: bool


class KeepSizes(Action, frozen=True):
    """The side panels of a layout are as wide as this now."""

    name: LayoutName
    sizes: Sizes


def _use_layout(action: UseLayout, state: AppState, now: float) -> Result:
    if action.name == "compare":
        state, _ = show_runs(ShowRuns(True), state, now)
    return replace(state, layouts=state.layouts.to(action.name)), ()


def follow_pages(action: object, before: AppState, result: Result, now: float) -> Result:
    """Take the layout of the two runs when they are shown, and the one before when they are not;
    show the list with the history."""
    state, commands = result
    layouts = state.layouts
    if isinstance(action, ShowHistory):
        layouts = layouts.with_list(action.shown)
    elif isinstance(action, ShowRuns) and action.shown:
        layouts = layouts.to("compare")
    elif isinstance(action, ShowRuns):
        layouts = layouts.to(layouts.before if layouts.name == "compare" else layouts.name)
    return (replace(state, layouts=layouts), commands) if layouts is not state.layouts else result


def _show_inspector(action: ShowInspector, state: AppState, now: float) -> Result:
    return replace(state, layouts=state.layouts.with_inspector(action.shown)), ()


def _keep_sizes(action: KeepSizes, state: AppState, now: float) -> Result:
    layouts = state.layouts
    sides = replace(layouts.of(action.name), sizes=action.sizes)
    return replace(state, layouts=layouts.with_sides(action.name, sides)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    UseLayout: _use_layout,
    ShowInspector: _show_inspector,
    KeepSizes: _keep_sizes,
}


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    """Return the layouts as the settings keep them. A comparison is not what a person wants to
    begin with: the layout before it is kept."""
    layouts = state.layouts
    name = layouts.before if layouts.name == "compare" else layouts.name
    kept: dict[str, Any] = {"layout_name": name}
    for one in LAYOUTS:
        sides = layouts.of(one)
        kept[one] = KeptSides(sides.list, sides.inspector, **asdict(sides.sizes))
    return kept


def restore(settings: Settings, state: AppState) -> AppState:
    found = Layouts(settings.layout_name, settings.layout_name)
    for one in LAYOUTS:
        kept: KeptSides = getattr(settings, one)
        sizes = Sizes(**{name: getattr(kept, name) for name in Sizes.__struct_fields__})
        found = found.with_sides(one, Sides(kept.list, kept.inspector, sizes))
    return replace(state, layouts=found)
