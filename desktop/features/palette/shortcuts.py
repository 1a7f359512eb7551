"""The panel of all keys, to be searched: drawn from the table of commands."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.commands.keys import shown as shown_keys
from llm_lite.desktop.features.commands.table import COMMANDS, GROUPS, PLACES, UserCommand
from llm_lite.desktop.features.palette.matching import also_called, fold, match
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.keycaps import draw_keys, keys_width
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, popover, wrapped

POPUP = "shortcuts"
QUERY = "shortcuts.query"
LONGEST = 200  # characters of a query
WIDTH, TOP = 116.0, 0.06  # in spacing units; share of the window above it
ABOVE_LIST = 26.0  # spacing units of title, search and padding


class ShortcutsInput(Struct):
    query: str = ""


def draw(state: AppState, ui: Ui) -> list[Action]:
    size = imgui.get_main_viewport().size
    width = min(ui.u(WIDTH), size.x - ui.u(8))
    at = ImVec2((size.x - width) / 2, max(ui.u(2), size.y * TOP))
    above = at.y + ui.u(ABOVE_LIST)
    with popover(ui, POPUP, tr("Keyboard shortcuts"), at, width) as shown:
        if shown:
            if imgui.is_window_appearing():
                imgui.set_keyboard_focus_here()
            _draw_list(ui, max(size.y - ui.status_height - above, ui.u(20)))
    return []


def _draw_list(ui: Ui, height: float) -> None:
    """Draw a search, and below it keys in groups, in `height` pixels."""
    imgui.set_next_item_width(-1)
    kept = ui.local(ShortcutsInput)
    hint = tr("Search the shortcuts")
    _, query = imgui.input_text_with_hint(f"##{QUERY}", hint, kept.query)
    ui.mark(QUERY)
    kept.query = query = query[:LONGEST]
    imgui.begin_child(f"{POPUP}.list", ImVec2(0, height), 0, imgui.WindowFlags_.no_saved_settings)
    found = matching(fold(query).strip())
    if not found:
        wrapped(ui, tr("No shortcut found."))
    heading = ""
    for command in found:
        group = tr(PLACES[command.place]) if command.place else tr(GROUPS[command.group])
        if group != heading:
            heading = group
            _draw_heading(ui, heading)
        _draw_row(ui, f"{POPUP}.{command.name}", command)
    imgui.end_child()


def matching(query: str) -> list[UserCommand]:
    """List commands with keys that match, in groups."""
    keyed = [command for command in COMMANDS if command.keys]
    if not query:
        return keyed
    return [command for command in keyed if _fits(query, command)]


def _fits(query: str, command: UserCommand) -> bool:
    keys = " ".join(fold(shown_keys(key)) for key in command.keys)
    words = f"{also_called(command.title, command.words)} {keys} {keys.replace('+', ' ')}"
    return match(query, tr(command.title), words) is not None


def _draw_heading(ui: Ui, words: str) -> None:
    at, small, height = imgui.get_cursor_screen_pos(), ui.theme.size("small"), ui.u(8)
    spot = ImVec2(at.x, round(at.y + height - small - ui.u(0.75)))
    draw = imgui.get_window_draw_list()
    draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), words)
    with ui.styled(item_spacing=(0.0, 0.0)):
        imgui.dummy(ImVec2(1, height))


def _draw_row(ui: Ui, name: str, command: UserCommand) -> None:
    at, line = imgui.get_cursor_screen_pos(), ui.u(7)
    width = imgui.get_content_region_avail().x - ui.u(1)
    draw, small, x = imgui.get_window_draw_list(), ui.theme.size("small"), at.x + width
    shown = [shown_keys(key) for key in command.keys if "Keypad" not in key and "=" not in key]
    for number, keys in enumerate(reversed(shown)):
        if number:
            with ui.font(style="small"):
                word = tr("or")
                x -= imgui.calc_text_size(word).x + ui.u(1.5)
                y = round(at.y + (line - small) / 2)
                draw.add_text(ImVec2(x, y), ui.color("muted"), word)
                x -= ui.u(1.5)
        x -= keys_width(ui, keys)
        draw_keys(ui, keys, ImVec2(x, at.y), line)
    with ui.font(style="small"):
        words = fit(tr(command.title), x - at.x - ui.u(2))
        draw.add_text(ImVec2(at.x, round(at.y + (line - small) / 2)), ui.color("text"), words)
    with ui.styled(item_spacing=(0.0, 0.0)):
        imgui.dummy(ImVec2(max(width, 1.0), line))
    ui.mark(name)
