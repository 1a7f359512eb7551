"""Commands of the window: layouts, panels, looks."""

from __future__ import annotations

from llm_lite.desktop.features.commands.command import Run, UserCommand
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.layouts.state import LayoutName
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import ClearLog, ResetLayout, SetFontSize, SetTheme
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark
from llm_lite.desktop.system_theme import Appearance
from llm_lite.desktop.widgets.ui import Ui

DEFAULT_FONT = 15.0  # logical pixels


def _use(name: LayoutName) -> Run:
    return lambda state, ui: [UseLayout(name)]


def _open(popover: str) -> Run:
    def run(state: AppState, ui: Ui) -> list[Action]:
        ui.show_popover(popover)
        return []

    return run


def _ask(what: str) -> Run:
    def run(state: AppState, ui: Ui) -> list[Action]:
        ui.ask(what)
        return []

    return run


def _set_theme(appearance: Appearance) -> Run:
    return lambda state, ui: [SetTheme(appearance)]


def _toggle_inspector(state: AppState, ui: Ui) -> list[Action]:
    return [ShowInspector(not state.layouts.shows_inspector)]


def _larger(by: float) -> Run:
    return lambda state, ui: [SetFontSize(state.font_size + by)]


LAYOUT = (
    UserCommand(
        "read", mark("Read: the conversations and the chat"), "layout", _use("read"), ("Ctrl+1",),
        words="layout",
    ),
    UserCommand(
        "inspect", mark("Inspect: the chat beside the inspector"), "layout", _use("inspect"),
        ("Ctrl+2",), words="layout",
    ),
    UserCommand(
        "compare", mark("Compare: the chat beside two runs"), "layout", _use("compare"),
        ("Ctrl+3",), words="layout a b runs",
    ),
    UserCommand(
        "inspector", mark("Show or hide the inspector"), "layout", _toggle_inspector,
        ("Ctrl+Shift+B",), words="panels sidebar",
    ),
    UserCommand("next_panel", mark("Next panel"), "layout", _ask("next_panel"), ("F6",)),
    UserCommand(
        "previous_panel", mark("Previous panel"), "layout", _ask("previous_panel"),
        ("Shift+F6",),
    ),
    UserCommand(
        "next_tab", mark("Next tab of the panel"), "layout", _ask("next_tab"), ("Ctrl+Tab",)
    ),
    UserCommand(
        "previous_tab", mark("Previous tab of the panel"), "layout", _ask("previous_tab"),
        ("Ctrl+Shift+Tab",),
    ),
    UserCommand(
        "reset_layout", mark("Reset the layout"), "layout", lambda s, u: [ResetLayout()],
        words="default panels",
    ),
)  # fmt: skip
PROGRAM = (
    UserCommand(
        "palette", mark("Command palette"), "program", _ask("palette"), ("Ctrl+K",),
        words="find anything search",
    ),
    UserCommand(
        "shortcuts", mark("Keyboard shortcuts"), "program", _open("shortcuts"), ("F1",),
        words="keys help",
    ),
    UserCommand(
        "settings", mark("Settings"), "program", _open("settings"), ("Ctrl+,",),
        words="preferences options",
    ),
    UserCommand(
        "theme_system", mark("Use the system's theme"), "program", _set_theme("system"),
        words="dark light appearance",
    ),
    UserCommand(
        "theme_dark",
        mark("Use the dark theme"),
        "program",
        _set_theme("dark"),
        words="appearance night",
    ),
    UserCommand(
        "theme_light", mark("Use the light theme"), "program", _set_theme("light"),
        words="appearance day",
    ),
    UserCommand(
        "larger", mark("Larger text"), "program", _larger(1),
        ("Ctrl++", "Ctrl+Shift+=", "Ctrl+Keypad+"), words="zoom font size",
    ),
    UserCommand(
        "smaller", mark("Smaller text"), "program", _larger(-1), ("Ctrl+-", "Ctrl+Keypad-"),
        words="zoom font size",
    ),
    UserCommand(
        "font_size", mark("Reset the text size"), "program",
        lambda s, u: [SetFontSize(DEFAULT_FONT)], ("Ctrl+0",), words="zoom font reset",
    ),
    UserCommand(
        "clear_log", mark("Clear the log"), "program", lambda s, u: [ClearLog()],
        when=lambda s, u: bool(s.log),
    ),
)  # fmt: skip
