"""The program's own settings: looks and layout."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.program import ResetLayout, SetFontSize, SetTheme
from llm_lite.desktop.commands.hints import with_keys
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import Appearance, AppState
from llm_lite.desktop.views.palette.shortcuts import draw_list
from llm_lite.desktop.widgets.controls import chooser, slider
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text

THEMES: tuple[tuple[Appearance, str], ...] = (
    ("system", mark("System")),
    ("dark", mark("Dark")),
    ("light", mark("Light")),
)
KEYS_HEIGHT = 44.0  # spacing units


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    text(ui, "Theme", style="small")
    themes = [(name, tr(label)) for name, label in THEMES]
    theme = chooser(ui, "settings.theme", themes, state.appearance)
    if theme != state.appearance:
        actions.append(SetTheme(theme))
    actions += _draw_font_size(state, ui)
    imgui.separator()
    text(ui, with_keys(tr("Keyboard shortcuts"), "shortcuts"), style="small")
    most = max(ui.u(10), imgui.get_main_viewport().size.y - ui.u(84))
    draw_list(ui, "settings.keys", min(ui.u(KEYS_HEIGHT), most))
    imgui.separator()
    hint = "Puts the panels back where they were at first"
    if button(ui, "settings.reset_layout", "Reset the layout", hint=hint):
        actions.append(ResetLayout())
    return actions


def _draw_font_size(state: AppState, ui: Ui) -> list[Action]:
    """The size takes effect when the slider is let go: it would move under the pointer."""
    pending = ui.memory.get("font_size", state.font_size)
    size = slider(
        ui, "settings.font_size", "Text size", pending, (10, 26), whole=True,
        shown=f"{pending:.0f} px",
    )  # fmt: skip
    if imgui.is_item_active():
        ui.memory["font_size"] = size
        return []
    if ui.memory.pop("font_size", None) is not None and size != state.font_size:
        return [SetFontSize(size)]
    return []
