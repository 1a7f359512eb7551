"""The page of models, instead of the conversation: three tabs, and the way back."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.commands.fields import open_address
from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.library import finding, local, queue
from llm_lite.desktop.features.library.model import ListModels, ShowLibrary
from llm_lite.desktop.features.library.state import LibraryState, LibraryTab
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_LINK, ICON_REGENERATE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, text, tip

TABS_WIDTH = 96.0  # spacing units
BUSY = ("waiting", "running", "paused")


class OpenPopup(Struct):
    shown: bool = False  # a popup, in the frame before


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_header(state, ui)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    match state.library.tab:
        case "local":
            actions += local.draw(state, ui)
        case "find":
            actions += finding.draw(state, ui)
        case "queue":
            actions += queue.draw(state, ui)
    if _escaped(ui):
        actions.append(ShowLibrary(False))
    return actions


def _escaped(ui: Ui) -> bool:
    """Return whether Esc closes the page. It closes a popup in the page first, and ends typing in a
    field."""
    # Dear ImGui may have closed a panel before this frame is drawn: that of the last one counts.
    popup = ui.local(OpenPopup)
    was_open, popup.shown = popup.shown, imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
    if not imgui.is_key_pressed(imgui.Key.escape, False):
        return False
    typing = imgui.get_io().want_text_input or imgui.is_any_item_active()
    return not (typing or popup.shown or was_open)


def _draw_header(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    side, library = ui.u(7.5), state.library
    top = imgui.get_cursor_pos_y()
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("title")) / 2)
    text(ui, tr("Models"), style="title", bold=True)
    imgui.same_line(0, ui.u(5))
    imgui.set_cursor_pos_y(top)
    room = imgui.get_content_region_avail().x - 3 * side - ui.u(5)
    imgui.begin_child("library.tabs", ImVec2(min(ui.u(TABS_WIDTH), room), side), FLAT)
    tab = chooser(ui, "library.tab", _tabs(library), library.tab)
    imgui.end_child()
    if tab != library.tab:
        actions.append(ShowLibrary(True, tab))
    _draw_disk(ui, library, room - ui.u(TABS_WIDTH), side, top)
    imgui.same_line(ui.right(3 * side + ui.u(2)))
    imgui.set_cursor_pos_y(top)
    hint = tr("Connect to a server")
    if icon_button(ui, "library.connect", ICON_LINK, hint, side=side, active=state.elsewhere):
        open_address(ui)
    imgui.same_line(0, ui.u(1))
    imgui.set_cursor_pos_y(top)
    hint = tr("Look again for models on this machine")
    if icon_button(ui, "library.refresh", ICON_REGENERATE, hint, side=side, active=library.listing):
        actions.append(ListModels())
    imgui.same_line(0, ui.u(1))
    imgui.set_cursor_pos_y(top)
    hint = with_keys(tr("Back to the conversation"), "close")
    if icon_button(ui, "library.close", ICON_CLOSE, hint, side=side):
        actions.append(ShowLibrary(False))
    return actions


def _tabs(library: LibraryState) -> list[tuple[LibraryTab, str]]:
    there = tr("On this machine")
    if library.local is not None:
        there = tr("{name} ({n:,})").format(name=there, n=len(library.local))
    waiting = sum(j.current is not None and j.current.state in BUSY for j in library.jobs)
    work = tr("Queue")
    if waiting:
        work = tr("{name} ({n:,})").format(name=work, n=waiting)
    return [("local", there), ("find", tr("Find")), ("queue", work)]


def _draw_disk(ui: Ui, library: LibraryState, room: float, side: float, top: float) -> None:
    """Draw how much is free on the disk, where there is room for it."""
    if library.disk_free is None:
        return
    words = tr("{size} free on disk").format(size=size(library.disk_free))
    with ui.font(style="small"):
        width = imgui.calc_text_size(words).x
    if width > room - ui.u(6):
        return
    imgui.same_line(ui.right(width + 3 * side + ui.u(5)))
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("small")) / 2)
    text(ui, words, "muted", "small")
    tip(ui, tr("Where this program keeps the models that it makes."))
