"""The program's own settings: looks and layout."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.program import (
    ResetLayout,
    SetFontSize,
    SetLanguage,
    SetLessMotion,
    SetTheme,
)
from llm_lite.desktop.actions.resuming import SetTitles
from llm_lite.desktop.commands.hints import with_keys
from llm_lite.desktop.language.catalogues import SYSTEM, languages, own_name
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.state.state import Appearance, AppState
from llm_lite.desktop.widgets.controls import chooser, picker, slider, toggle
from llm_lite.desktop.widgets.icons import ICON_KEYBOARD, ICON_UNDO
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text

TITLES_HINT = mark(
    "When it has nothing to do after the first answer, the model names the conversation. A title "
    "that you gave is never replaced."
)
THEMES: tuple[tuple[Appearance, str], ...] = (
    ("system", mark("System")),
    ("dark", mark("Dark")),
    ("light", mark("Light")),
)
MOTION_HINT = mark("Pictures of the lesson that move show how they end at once.")


def draw(state: AppState, ui: Ui) -> list[Action]:
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
    less = toggle(ui, "settings.motion", tr("Reduce motion"), state.less_motion, tr(MOTION_HINT))
    if less != state.less_motion:
        actions.append(SetLessMotion(less))
    imgui.separator()
    hint = with_keys(tr("All keys of the program, to be searched"), "shortcuts")
    if button(ui, "settings.shortcuts", tr("Keyboard shortcuts"), ICON_KEYBOARD, hint):
        ui.opened = "shortcuts"
        imgui.close_current_popup()
    hint = tr("Puts all panels back to their default places")
    if button(ui, "settings.reset_layout", tr("Reset the layout"), ICON_UNDO, hint):
        actions.append(ResetLayout())
    return actions


def _draw_language(state: AppState, ui: Ui) -> list[Action]:
    """Each by the name that it gives itself, so that a way back is found from any of them."""
    text(ui, tr("Language"), style="small")
    options = [(SYSTEM, tr("System default")), *((code, own_name(code)) for code in languages())]
    width = imgui.get_content_region_avail().x
    language = picker(ui, "settings.language", options, state.language, width)
    return [SetLanguage(language)] if language != state.language else []


def _draw_font_size(state: AppState, ui: Ui) -> list[Action]:
    """The size takes effect when the slider is let go: it would move under the pointer."""
    pending = ui.memory.get("font_size", state.font_size)
    size = slider(
        ui, "settings.font_size", tr("Text size"), pending, (10, 26), whole=True,
        shown=f"{pending:.0f} px",
    )  # fmt: skip
    if imgui.is_item_active():
        ui.memory["font_size"] = size
        return []
    if ui.memory.pop("font_size", None) is not None and size != state.font_size:
        return [SetFontSize(size)]
    return []
