"""Actions on the model, the settings and the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from llm_lite.core.messages import (
    Cancel,
    Command,
    EngineOptions,
    ExportMaps,
    LoadModel,
    Reconfigure,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import FigureName
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.notices import ReportDefect, notify, report
from llm_lite.desktop.features.program.requests import Result, end_reading, under_way
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import MAX_FONT, MIN_FONT, AppState, Load
from llm_lite.desktop.features.program.switches import switched
from llm_lite.desktop.features.remote.model import disconnected
from llm_lite.desktop.features.sampling.model import to_keep
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.system_theme import Appearance, ThemeName


class SetOptions(Action, frozen=True):
    options: EngineOptions


class OpenModel(Action, frozen=True):
    source: str | None


class AnswerMemory(Action, frozen=True):
    """Answer the question before a model is loaded for which memory is short. `options`: what to
    load it with; None: not at all."""

    options: EngineOptions | None


class CancelLoading(Action, frozen=True):
    pass


class SetTheme(Action, frozen=True):
    theme: Appearance


class TellSystemTheme(Action, frozen=True):
    """The system changed the theme of its own windows."""

    theme: ThemeName


class SetLanguage(Action, frozen=True):
    """A code of the catalogues, or "system"."""

    language: str


class SetSwitch(Action, frozen=True):
    """Turn a setting of `SWITCHES` on or off."""

    name: str
    on: bool


class SetFontSize(Action, frozen=True):
    size: float


class DismissNotice(Action, frozen=True):
    id: int


class ClearLog(Action, frozen=True):
    pass


class ExportAttention(Action, frozen=True):
    """Write a file: a picture of a view, which the program draws, or the numbers of the locked
    heads, which the engine writes."""

    view: FigureName
    kind: Literal["png", "npz"]
    path: str


class SaveText(HostAction, frozen=True):
    """Write a file that is not there yet; the program does it."""

    path: str
    text: str


class OpenLink(HostAction, frozen=True):
    """Show an address in the browser, as a person was asked; the program does it."""

    address: str


class ChooseFile(HostAction, frozen=True):
    """Ask the system for a file; the window does it, the state does not change."""


class ResetLayout(HostAction, frozen=True):
    """Put the docked views back where they were at first; the window does it."""


def set_options(action: SetOptions, state: AppState, now: float) -> Result:
    if action.options == state.options:
        return state, ()
    if state.load and not state.load.changes:
        problem = tr("Wait until the model is loaded, then change this.")
        return notify(state, "warning", problem, now), ()
    if state.elsewhere:
        problem = tr(
            "These settings apply to models on this machine. Disconnect first, then change them."
        )
        return notify(state, "warning", problem, now), ()
    if state.model is None:
        return replace(state, options=action.options), ()
    state, ended = end_reading(state)  # a running answer goes on: it is switched between tokens
    state, commands = reconfigure(state, action.options)
    return state, (*ended, *commands)


def reconfigure(state: AppState, options: EngineOptions) -> Result:
    """Run the model in use otherwise; what is still being prepared gives way."""
    path, asked = state.model.path if state.model else "", Reconfigure(options)
    in_use = state.load.in_use if state.load and state.load.changes else state.options
    return replace(state, options=options, load=Load(path, asked=asked, in_use=in_use)), (asked,)


def for_any_model(options: EngineOptions) -> EngineOptions:
    """Return the options without drafts that only the model in use can make."""
    speculate = "auto" if options.speculate == "slice" else options.speculate
    return replace(options, draft_model="", speculate=speculate)


def _open_model(action: OpenModel, state: AppState, now: float) -> Result:
    if state.load:
        return notify(state, "warning", tr("A model is already loading. Cancel it first."), now), ()
    first = (action.source or "") if state.first_source is None else state.first_source
    # What drafts is of the model in use, or of the one that was asked for at start.
    is_other = state.model is not None or first != (action.source or "")
    state, stop = end_reading(disconnected(state))
    stop = (*stop, *map(Cancel, under_way(state)))
    options = for_any_model(state.options) if is_other else state.options
    asked = LoadModel(action.source, options)
    load = Load(action.source or tr("the default model"), asked=asked)
    state = replace(state, load=load, options=options, first_source=first)
    return state, (*stop, asked)


def _cancel_loading(action: CancelLoading, state: AppState, now: float) -> Result:
    if state.load is None or state.load.cancelling:
        return state, ()
    commands = (Cancel(state.load.asked),) if state.load.asked is not None else ()
    return replace(state, load=replace(state.load, cancelling=True)), commands


def _set_theme(action: SetTheme, state: AppState, now: float) -> Result:
    shown = state.system_theme or "dark" if action.theme == "system" else action.theme
    return replace(state, appearance=action.theme, theme=shown), ()


def _note_system_theme(action: TellSystemTheme, state: AppState, now: float) -> Result:
    shown = action.theme if state.appearance == "system" else state.theme
    return replace(state, system_theme=action.theme, theme=shown), ()


def _set_language(action: SetLanguage, state: AppState, now: float) -> Result:
    return replace(state, language=action.language), ()


def _set_switch(action: SetSwitch, state: AppState, now: float) -> Result:
    changed: dict[str, Any] = {action.name: action.on}
    return replace(state, **changed), ()


def _set_font_size(action: SetFontSize, state: AppState, now: float) -> Result:
    return replace(state, font_size=min(MAX_FONT, max(MIN_FONT, action.size))), ()


def _dismiss_notice(action: DismissNotice, state: AppState, now: float) -> Result:
    return replace(state, notices=tuple(n for n in state.notices if n.id != action.id)), ()


def _clear_log(action: ClearLog, state: AppState, now: float) -> Result:
    return replace(state, log=()), ()


def _export_attention(action: ExportAttention, state: AppState, now: float) -> Result:
    if action.kind == "png":
        return state, ()
    return state, (ExportMaps(action.path, state.attention.locked, state.attention.part),)


def _answer_memory(action: AnswerMemory, state: AppState, now: float) -> Result:
    asked, state = state.memory_question, replace(state, memory_question=None)
    if asked is None or action.options is None:
        return state, ()
    if state.load:
        problem = tr("A model is already loading. Cancel it first.")
        return notify(state, "warning", problem, now), ()
    commands: tuple[Command, ...] = (LoadModel(asked.source, action.options),)
    if asked.in_use:
        state, commands = reconfigure(state, action.options)
    else:
        load = Load(asked.source or tr("the default model"), asked=commands[0])
        state = replace(state, load=load)
    # To load it all the same is said of this load only.
    return replace(state, options=replace(action.options, force=False)), commands


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetOptions: set_options,
    OpenModel: _open_model,
    AnswerMemory: _answer_memory,
    CancelLoading: _cancel_loading,
    SetTheme: _set_theme,
    TellSystemTheme: _note_system_theme,
    SetLanguage: _set_language,
    SetSwitch: _set_switch,
    SetFontSize: _set_font_size,
    DismissNotice: _dismiss_notice,
    ClearLog: _clear_log,
    ExportAttention: _export_attention,
    ReportDefect: report,
}


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    """Return switches, and the engine's options without what is of the model in use: a draft model,
    and drafts of its own slice, which few have."""
    options = replace(to_keep(state, "options", settings.options), draft_model="")
    if options.speculate == "slice":
        options = replace(options, speculate=settings.options.speculate)
    return {**switched(state), "options": options}


def restore(settings: Settings, state: AppState) -> AppState:
    return replace(state, **switched(settings), options=settings.options)
