"""A panel that says why a conversation that was opened is not in sight, with the ways to one that
shows it."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.history.model import DismissUnshown
from llm_lite.desktop.features.history.rows import UNTITLED
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, popover, primary_button, wrapped

PANEL = "history.unshown"
TITLE = mark("A model that chats is needed")
ENCODER = mark(
    "“{title}” is open, but {model} is an encoder, whose page stands in its place. It is shown as "
    "soon as a model that chats is loaded."
)
TRANSLATOR = mark(
    "“{title}” is open, but {model} is an encoder-decoder, whose page stands in its place. It is "
    "shown as soon as a model that chats is loaded."
)


# The field of a page takes the keyboard when another conversation comes, which closes panels.
SETTLES = 3  # frames


class UnshownPanel(Struct):
    waited: int = 0  # frames
    open: bool = False


def draw(state: AppState, ui: Ui) -> list[Action]:
    wanted, panel = state.history.unshown and state.model is not None, ui.local(UnshownPanel)
    if not panel.open:
        panel.waited = panel.waited + 1 if wanted else 0
        if not wanted:
            return []
        if panel.waited <= SETTLES:
            ui.redraw_in(0.0)
            return []
        ui.opened = PANEL
    with popover(ui, PANEL, tr(TITLE), _place(ui), ui.u(96)) as shown:
        if not shown:
            closed, panel.open = panel.open, False
            return [DismissUnshown()] if closed and wanted else []
        panel.open, panel.waited = True, 0
        if not wanted:
            imgui.close_current_popup()
            return []
        return _draw_ways(state, ui)


def _draw_ways(state: AppState, ui: Ui) -> list[Action]:
    """Draw what is needed, and the ways to it."""
    assert state.model is not None
    row = next((row for row in state.history.rows if row.id == state.history.open), None)
    title = row.title if row and row.title else tr(UNTITLED)
    words = tr(ENCODER if state.encodes else TRANSLATOR)
    wrapped(ui, words.format(title=title, model=state.model.name))
    able = state.load is None
    loads = primary_button(ui, f"{PANEL}.load", tr("Load the default model"), enabled=able)
    imgui.same_line()
    chooses = button(ui, f"{PANEL}.choose", tr("Choose a model"))
    if loads or chooses:
        imgui.close_current_popup()
    if chooses:
        ui.show_popover("models")
    return [DismissUnshown(), *([OpenModel(None)] if loads else [])] if loads or chooses else []


def _place(ui: Ui) -> ImVec2:
    """Return the place of the panel: beside the list, or in the middle where that is hidden."""
    screen = imgui.get_main_viewport().size
    low = ui.rects.get("history.search") or ui.before.get("history.search")
    return ImVec2(low[2] + ui.u(12), low[3]) if low else ImVec2(screen.x / 3, screen.y / 4)
