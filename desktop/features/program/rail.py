"""The rail at the left edge: what does not belong to one conversation, each by icon and name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.cache import memory
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.chat.panels import draw_system_prompt
from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.encoder.reasons import draw_reason
from llm_lite.desktop.features.history.model import ShowHistory
from llm_lite.desktop.features.history.titles import SetTitles
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.library import models
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import (
    ResetLayout,
    SetFontSize,
    SetLanguage,
    SetSwitch,
    SetTheme,
)
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.program.switches import SWITCHES
from llm_lite.desktop.features.sampling import view as sampler
from llm_lite.desktop.features.serving import view as serving_panel
from llm_lite.desktop.features.tools import view as tools_panel
from llm_lite.desktop.language.catalogues import SYSTEM, languages, own_name
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.system_theme import Appearance
from llm_lite.desktop.widgets.controls import chooser, picker, slider, toggle
from llm_lite.desktop.widgets.icons import (
    ICON_COMMAND,
    ICON_KEYBOARD,
    ICON_LESSON,
    ICON_MEMORY,
    ICON_MODELS,
    ICON_MOON,
    ICON_NEW_CHAT,
    ICON_PROMPT,
    ICON_SERVE,
    ICON_SETTINGS,
    ICON_SIDEBAR,
    ICON_SLIDERS,
    ICON_SUN,
    ICON_TERMINAL,
    ICON_UNDO,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, icon_button, popover, text, tip

TITLES_HINT = mark(
    "When it has nothing to do after the first answer, the model names the conversation. A title "
    "that you gave is never replaced."
)
THEMES: tuple[tuple[Appearance, str], ...] = (
    ("system", mark("System")),
    ("dark", mark("Dark")),
    ("light", mark("Light")),
)


def draw_preferences(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    text(ui, tr("Theme"), style="small")
    theme = chooser(ui, "settings.theme", tr_labels(THEMES), state.appearance)
    if theme != state.appearance:
        actions.append(SetTheme(theme))
    actions += _draw_language(state, ui)
    actions += _draw_font_size(state, ui)
    hint = tr(TITLES_HINT)
    titles = toggle(ui, "settings.titles", tr("Generate titles"), state.history.titles, hint)
    if titles != state.history.titles:
        actions.append(SetTitles(titles))
    for name, row in SWITCHES.items():
        before = getattr(state, name)
        on = toggle(ui, f"settings.{name}", tr(row.title), before, tr(row.hint))
        if on != before:
            actions.append(SetSwitch(name, on))
    imgui.separator()
    hint = with_keys(tr("All keys of the program, to be searched"), "shortcuts")
    if button(ui, "settings.shortcuts", tr("Keyboard shortcuts"), ICON_KEYBOARD, hint):
        ui.opened = "shortcuts"
        imgui.close_current_popup()
    hint = tr("Puts all panels back to their default places")
    if button(ui, "settings.reset_layout", tr("Reset the layout"), ICON_UNDO, hint):
        actions.append(ResetLayout())
    return actions


class RailControls(Struct):
    popover: str = ""  # the panel that is open
    font_size: float | None = None  # logical pixels, while the slider is held


def _draw_language(state: AppState, ui: Ui) -> list[Action]:
    """Draw each language by its own name for itself, so that a way back is found from any of
    them."""
    text(ui, tr("Language"), style="small")
    options = [(SYSTEM, tr("System default")), *((code, own_name(code)) for code in languages())]
    width = imgui.get_content_region_avail().x
    language = picker(ui, "settings.language", options, state.language, width)
    return [SetLanguage(language)] if language != state.language else []


def _draw_font_size(state: AppState, ui: Ui) -> list[Action]:
    """The size takes effect when the slider is let go: it would move under the pointer."""
    controls = ui.local(RailControls)
    pending = state.font_size if controls.font_size is None else controls.font_size
    size = slider(
        ui, "settings.font_size", tr("Text size"), pending, (10, 26), whole=True,
        shown=f"{pending:.0f} px",
    )  # fmt: skip
    if imgui.is_item_active():
        controls.font_size = size
        return []
    was, controls.font_size = controls.font_size, None
    if was is not None and size != state.font_size:
        return [SetFontSize(size)]
    return []


class RailButton(Struct, frozen=True):
    """A button of the rail. `active`: what it shows is on the screen."""

    name: str
    icon: str
    label: str  # below the icon, translated
    hint: str
    active: bool = False
    group: int = 0  # a gap separates groups; the last one stands at the lower end


class Panel(Struct, frozen=True):
    """A popover: `width` in spacing units; `label` is its short name below the rail's icon,
    `opener` the button that it stands beside."""

    name: str
    title: str
    label: str
    icon: str
    width: float
    draw: Callable[[AppState, Ui], list[Action]]

    @property
    def opener(self) -> str:
        """The model in use is chosen below its name in the conversation's header."""
        return "chat.model" if self.name == "models" else f"rail.{self.name}"


PANELS = (
    Panel("models", mark("Model"), mark("Models"), ICON_MODELS, 92, models.draw),
    Panel("sampler", mark("Sampling"), mark("Sampling"), ICON_SLIDERS, 76, sampler.draw),
    Panel(
        "system_prompt", mark("System prompt"), mark("System"), ICON_PROMPT, 92, draw_system_prompt
    ),
    Panel("tools", mark("Tools"), mark("Tools"), ICON_TERMINAL, 100, tools_panel.draw),
    Panel("serving", mark("Serve this model"), mark("Serve"), ICON_SERVE, 100, serving_panel.draw),
    Panel("memory", mark("Context and KV cache"), mark("Memory"), ICON_MEMORY, 88, memory.draw),
    Panel("settings", mark("Settings"), mark("Settings"), ICON_SETTINGS, 96, draw_preferences),
)
LAST_GROUP = 3


def entries(state: AppState, ui: Ui) -> Iterator[RailButton]:
    """Yield all buttons, from the upper end to the lower."""
    words = tr("Clear the page") if state.writes_targets else tr("New chat")
    yield RailButton("new_chat", ICON_NEW_CHAT, tr("New chat"), with_keys(words, "new_chat"))
    shown = ui.shows_list
    words = tr("Hide the conversations") if shown else tr("Show the conversations")
    yield RailButton("conversations", ICON_SIDEBAR, tr("Chats"), with_keys(words, "list"))
    words = with_keys(tr("Command palette"), "palette")
    yield RailButton("palette", ICON_COMMAND, tr("Commands"), words)
    words = with_keys(tr("Manage models"), "manage_models")
    yield RailButton("library", ICON_MODELS, tr("Models"), words, state.library.shown, 1)
    words = with_keys(tr("Lesson: how a model writes its next word"), "lesson")
    yield RailButton("lesson", ICON_LESSON, tr("Lesson"), words, state.lesson.shown, 1)
    for panel in PANELS[1:-1]:
        yield _entry_of(ui, panel, 2)
    dark = state.theme == "dark"
    words = tr("Use the light theme") if dark else tr("Use the dark theme")
    yield RailButton("theme", ICON_SUN if dark else ICON_MOON, tr("Theme"), words, group=LAST_GROUP)
    yield _entry_of(ui, PANELS[-1], LAST_GROUP)


def _entry_of(ui: Ui, panel: Panel, group: int) -> RailButton:
    shown = ui.local(RailControls).popover == panel.name
    hint = with_keys(tr(panel.title), panel.name)
    return RailButton(panel.name, panel.icon, tr(panel.label), hint, shown, group)


def draw(state: AppState, ui: Ui) -> list[Action]:
    """Draw the rail, which fills the current window."""
    actions: list[Action] = []
    listed = list(entries(state, ui))
    gap, named = ui.u(2), ui.names_rail
    ends = sum(entry.group == LAST_GROUP for entry in listed)
    side = _side(ui, len(listed))
    height = ui.u(11.5) if named else side
    y, group = gap, listed[0].group
    for entry in listed:
        if entry.group != group:
            group, y = entry.group, y + gap
            if group == LAST_GROUP:
                y = max(y, imgui.get_window_height() - gap - ends * height)
        if _draw_entry(ui, entry, y, side, height, named):
            actions += _press(state, ui, entry)
        y += height
    for panel in PANELS:
        actions += _draw_panel(state, ui, panel)
    return actions


def _draw_entry(
    ui: Ui, entry: RailButton, y: float, side: float, height: float, named: bool
) -> bool:
    """Draw the icon, and its name below it where there is room; return whether it was pressed."""
    name = f"rail.{entry.name}"
    if not named:
        imgui.set_cursor_pos(ImVec2((ui.rail_width - side) / 2, y))
        style = icon_style(ui, side)
        return icon_button(
            ui, name, entry.icon, entry.hint, side=side, active=entry.active, style=style
        )
    inset = ui.u(0.5)
    width, tall = ui.rail_width - 2 * inset, height - ui.u(0.5)
    imgui.set_cursor_pos(ImVec2(inset, y))
    fill = "accent_soft" if entry.active else "-"
    with ui.colored(button=fill, button_hovered="hover", button_active="pressed"):
        pressed = imgui.button(f"##{name}", ImVec2(width, tall))
    ui.mark(name)
    lit = entry.active or imgui.is_item_hovered()
    tip(ui, entry.hint)
    at, paint = imgui.get_item_rect_min(), imgui.get_window_draw_list()
    color = ui.color("link" if entry.active else "text" if lit else "muted")
    icon, caption = ui.theme.size("title"), ui.theme.size("caption")
    top = at.y + (tall - icon - caption - ui.u(0.75)) / 2
    spot = ImVec2(round(at.x + (width - icon) / 2), round(top))
    paint.add_text(ui.fonts["regular"], icon, spot, color, entry.icon)
    with ui.font(style="caption"):
        words = fit(entry.label, width)
        left = round(at.x + (width - imgui.calc_text_size(words).x) / 2)
        paint.add_text(ImVec2(left, round(top + icon + ui.u(0.75))), color, words)
    return pressed


def _press(state: AppState, ui: Ui, entry: RailButton) -> list[Action]:
    match entry.name:
        case "new_chat":
            return [NewChat()]
        case "conversations":
            return [_toggle_list(state, ui)]
        case "palette":
            ui.request("palette")
        case "library":
            return [ShowLibrary(not state.library.shown)]
        case "lesson":
            return [ShowLesson(not state.lesson.shown)]
        case "theme":
            return [SetTheme("light" if state.theme == "dark" else "dark")]
        case panel:
            ui.opened = panel
    return []


def _toggle_list(state: AppState, ui: Ui) -> Action:
    """Return what shows or hides the list of conversations, or leaves the page that hides it."""
    if state.lesson.shown and ui.shows_list:
        return ShowLesson(False)
    if state.library.shown and ui.shows_list:
        return ShowLibrary(False)
    return ShowHistory(not ui.shows_list)


def _side(ui: Ui, count: int) -> float:
    """Return the side of a button without a name, in pixels: all fit the window, in the largest
    text too."""
    room = imgui.get_window_height() - ui.u(2) * (LAST_GROUP + 2)
    return float(min(ui.u(11), max(room // count, ui.u(3))))  # whole pixels, as items are placed


def icon_style(ui: Ui, side: float) -> str:
    """Return the largest size of text whose icons a button of this side holds."""
    styles = ("title", "body", "small")
    return next((style for style in styles if ui.theme.size(style) <= side), styles[-1])


def _draw_panel(state: AppState, ui: Ui, panel: Panel) -> list[Action]:
    at, pivot = _place(ui, panel)
    with popover(ui, panel.name, tr(panel.title), at, ui.u(panel.width), pivot) as shown:
        if shown:
            ui.local(RailControls).popover = panel.name
            return [] if draw_reason(state, ui, panel.name) else panel.draw(state, ui)
    if ui.local(RailControls).popover == panel.name:
        ui.local(RailControls).popover = ""
    return []


def _place(ui: Ui, panel: Panel) -> tuple[ImVec2, tuple[float, float]]:
    """Return where a panel opens: beside its button of the rail or below the one of the header, and
    where no header is shown, beside the button of the models."""
    if panel.opener not in ui.rects and panel.opener in ui.before:
        left, _, _, bottom = ui.before[panel.opener]
        return ImVec2(left, bottom + ui.u(1)), (0, 0)
    _, top, _, bottom = ui.rects.get(panel.opener, ui.rects["rail.library"])
    x = imgui.get_window_pos().x + ui.rail_width + ui.u(1)
    low = panel.name == "settings"
    return ImVec2(x, bottom if low else top), (0, 1) if low else (0, 0)
