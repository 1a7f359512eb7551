"""The narrow left rail: what does not belong to one conversation, each as a popover beside it."""

from __future__ import annotations

from collections.abc import Callable

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.chatting import NewChat
from llm_lite.desktop.actions.history import ShowHistory
from llm_lite.desktop.actions.lesson.following import ShowLesson
from llm_lite.desktop.actions.library.showing import ShowLibrary
from llm_lite.desktop.actions.program import SetTheme
from llm_lite.desktop.commands.hints import with_keys
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.cache import memory
from llm_lite.desktop.views.chat import system_prompt
from llm_lite.desktop.views.encoding.no_writing import draw_reason
from llm_lite.desktop.views.program import models, preferences
from llm_lite.desktop.views.sampling import sampler
from llm_lite.desktop.views.serving import panel as serving_panel
from llm_lite.desktop.views.tools import panel as tools_panel
from llm_lite.desktop.widgets.icons import (
    ICON_ARCHIVE,
    ICON_LESSON,
    ICON_MEMORY,
    ICON_MODELS,
    ICON_MOON,
    ICON_NEW_CHAT,
    ICON_PROMPT,
    ICON_SEARCH,
    ICON_SERVE,
    ICON_SETTINGS,
    ICON_SIDEBAR,
    ICON_SLIDERS,
    ICON_SUN,
    ICON_TERMINAL,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, popover


@dataclass(frozen=True, slots=True)
class Panel:
    """A popover of the rail: `width` in spacing units."""

    name: str
    title: str
    icon: str
    hint: str
    width: float
    draw: Callable[[AppState, Ui], list[Action]]


PROMPT, MEMORY = mark("System prompt"), mark("Memory of the conversation")
TOOLS, SERVE = mark("Tools"), mark("Serve this model")
PANELS = (
    Panel("models", mark("Models"), ICON_MODELS, mark("Models"), 92, models.draw),
    Panel("sampler", mark("Sampling"), ICON_SLIDERS, mark("Sampling"), 76, sampler.draw),
    Panel("system_prompt", PROMPT, ICON_PROMPT, PROMPT, 92, system_prompt.draw),
    Panel("tools", TOOLS, ICON_TERMINAL, TOOLS, 100, tools_panel.draw),
    Panel("serving", SERVE, ICON_SERVE, SERVE, 100, serving_panel.draw),
    Panel("memory", mark("Memory"), ICON_MEMORY, MEMORY, 88, memory.draw),
    Panel("settings", mark("Settings"), ICON_SETTINGS, mark("Settings"), 96, preferences.draw),
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    """The rail fills the current window."""
    actions: list[Action] = []
    side = _side(ui)
    x = (ui.rail_width - side) / 2
    tops: dict[str, float] = {}
    imgui.set_cursor_pos(ImVec2(x, ui.u(2)))
    words = tr("Empty the page") if state.writes_targets else tr("New chat")
    hint = with_keys(words, "new_chat")
    if icon_button(ui, "rail.new_chat", ICON_NEW_CHAT, hint, side=side, style="title"):
        actions.append(NewChat())
    imgui.set_cursor_pos_x(x)
    shown = ui.shows_list
    words = tr("Hide the conversations") if shown else tr("Show the conversations")
    hint = with_keys(words, "list")
    if icon_button(ui, "rail.conversations", ICON_SIDEBAR, hint, side=side, style="title"):
        if state.lesson.shown and shown:
            actions.append(ShowLesson(False))
        else:
            back = state.library.shown and shown
            actions.append(ShowLibrary(False) if back else ShowHistory(not shown))
    imgui.set_cursor_pos_x(x)
    hint = with_keys(tr("Find anything"), "palette")
    if icon_button(ui, "rail.palette", ICON_SEARCH, hint, side=side, style="title"):
        ui.ask("palette")
    imgui.set_cursor_pos_x(x)
    on, hint = state.library.shown, with_keys(tr("Manage models"), "manage_models")
    if icon_button(ui, "rail.library", ICON_ARCHIVE, hint, side=side, active=on, style="title"):
        actions.append(ShowLibrary(not on))
    imgui.set_cursor_pos_x(x)
    on, hint = (
        state.lesson.shown,
        with_keys(tr("Lesson: how a model writes its next word"), "lesson"),
    )
    if icon_button(ui, "rail.lesson", ICON_LESSON, hint, side=side, active=on, style="title"):
        actions.append(ShowLesson(not on))
    for panel in PANELS[:-1]:
        imgui.set_cursor_pos_x(x)
        tops[panel.name] = _panel_button(ui, panel, side)
    gap = ui.u(2)
    imgui.set_cursor_pos(ImVec2(x, imgui.get_window_height() - side * 2 - gap * 2))
    icon, other = (ICON_SUN, "light") if state.theme == "dark" else (ICON_MOON, "dark")
    hint = tr("Use the light theme") if other == "light" else tr("Use the dark theme")
    if icon_button(ui, "rail.theme", icon, hint, side=side, style="title"):
        actions.append(SetTheme("light" if other == "light" else "dark"))
    imgui.set_cursor_pos_x(x)
    tops["settings"] = _panel_button(ui, PANELS[-1], side)
    for panel in PANELS:
        actions += _draw_panel(state, ui, panel, tops[panel.name])
    return actions


def _side(ui: Ui) -> float:
    """Of a button, in pixels: all of them fit the window, in the largest text too."""
    count, spacing = len(PANELS) + 6, imgui.get_style().item_spacing.y
    room = imgui.get_window_height() - ui.u(2) * 4 - spacing * (count - 1)
    return float(min(ui.u(10), max(room // count, ui.u(3))))  # whole pixels, as items are placed


def _panel_button(ui: Ui, panel: Panel, side: float) -> float:
    top = imgui.get_cursor_screen_pos().y
    name = f"rail.{panel.name}"
    active = ui.memory.get("popover") == panel.name
    hint = with_keys(tr(panel.hint), panel.name)
    if icon_button(ui, name, panel.icon, hint, side=side, active=active, style="title"):
        ui.opened = panel.name
    return top


def _draw_panel(state: AppState, ui: Ui, panel: Panel, top: float) -> list[Action]:
    low = panel.name == "settings"
    corner = imgui.get_window_pos()
    bottom = corner.y + imgui.get_window_height() - ui.u(2)
    at = ImVec2(corner.x + ui.rail_width + ui.u(1), bottom if low else top)
    with popover(
        ui, panel.name, tr(panel.title), at, ui.u(panel.width), (0, 1) if low else (0, 0)
    ) as shown:
        if shown:
            ui.memory["popover"] = panel.name
            return [] if draw_reason(state, ui, panel.name) else panel.draw(state, ui)
    if ui.memory.get("popover") == panel.name:
        ui.memory["popover"] = ""
    return []
