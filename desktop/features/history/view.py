"""The panel of conversations: a search on top, and below it the list or the results."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.history import menu, rows
from llm_lite.desktop.features.history.model import (
    BeginRename,
    OpenConversation,
    SearchHistory,
    ShowHistoryPart,
)
from llm_lite.desktop.features.history.rows import UNTITLED, note
from llm_lite.desktop.features.history.state import FoundRow, HistoryPart, HistoryState
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import FLAT, is_entered, press_area
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_LEFT, ICON_CLOSE, ICON_MORE, ICON_SEARCH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, text, wrap_lines

LINES = 2
LEAD = 16  # characters before the first word that is marked


HISTORY_PARTS: dict[HistoryPart, str] = {
    "all": "",
    "archived": mark("Archived"),
    "deleted": mark("Deleted"),
}
NOTES: dict[HistoryPart, str] = {
    "all": mark(
        "Your conversations will be here. Each is saved on this machine while it is written."
    ),
    "archived": mark(
        "Nothing is archived. What you archive leaves the list, and is found by searches."
    ),
    "deleted": mark("Nothing is deleted. What you delete can be restored from here."),
}


class SearchField(Struct):
    focus: bool = False  # it is to have the keyboard
    active: bool = False  # a person types in it
    by_keys: bool = False  # it was reached by the keyboard


def focus_search(ui: Ui) -> None:
    """Give the keyboard to the search, in the next frame that draws it."""
    ui.local(SearchField).focus = True


def draw(state: AppState, ui: Ui) -> list[Action]:
    history = state.history
    with ui.styled(item_spacing=(ui.u(1), ui.u(1))):
        actions = _draw_head(history, ui)
        if history.part != "all" and not history.searching:
            actions += _draw_history_part(history, ui)
        if history.renaming is not None and not rows.lists(history, history.renaming):
            actions += rows.draw_rename(ui, history.renaming, rows.title_of(history))
        flags = imgui.WindowFlags_.no_saved_settings
        with ui.styled(window_padding=(0.0, 0.0), scrollbar_size=ui.u(2)):
            imgui.begin_child("history.rows", ImVec2(0, 0), FLAT, flags)
        if history.searching:
            actions += draw_found(state, ui)
        elif history.rows:
            actions += rows.draw(state, ui)
        elif history.read:
            imgui.dummy(ImVec2(0, ui.u(1)))
            rows.note(ui, tr(NOTES[history.part]))
        imgui.end_child()
    actions += menu.draw(state, ui)
    if history.renaming is not None and imgui.is_key_pressed(imgui.Key.escape, False):
        actions.append(BeginRename(None))
    return actions


def _draw_head(history: HistoryState, ui: Ui) -> list[Action]:
    """Draw the search, and the menu of the list as a whole."""
    actions: list[Action] = []
    side, field = ui.u(8), ui.local(SearchField)
    at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    width = room - side - ui.u(1)
    draw = imgui.get_window_draw_list()
    low, high = at, ImVec2(at.x + width, at.y + side)
    draw.add_rect_filled(low, high, ui.color("sunken"), ui.u(2))
    edge = "link" if field.by_keys else "border"
    draw.add_rect(low, high, ui.color(edge), ui.u(2), ui.u(0.25))
    small = ui.theme.size("small")
    spot = ImVec2(at.x + ui.u(2), at.y + (side - small) / 2)
    font = ui.fonts["regular"]
    draw.add_text(font, small, spot, ui.color("muted"), ICON_SEARCH)
    clear = ui.u(6) if history.query else 0.0
    left = ui.u(2) + small + ui.u(0.5)
    imgui.set_cursor_screen_pos(ImVec2(at.x + left, at.y))
    imgui.set_next_item_width(width - left - clear)
    if field.focus:
        field.focus = False
        imgui.set_keyboard_focus_here()
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)
    with (
        ui.colored(frame_bg="-", frame_bg_hovered="-", frame_bg_active="-", nav_cursor="-"),
        ui.font(style="small"),
        ui.styled(frame_padding=(ui.u(1), (side - small) / 2), frame_border_size=0.0),
    ):
        _, query = imgui.input_text("##history.search", history.query)
        ui.mark("history.search")
        field.by_keys = imgui.is_item_focused() and imgui.get_io().nav_active
    if not query and not history.query:
        hint = ImVec2(at.x + left + ui.u(1), spot.y)
        draw.add_text(font, small, hint, ui.color("faint"), tr("Search"))
    was_active, field.active = field.active, imgui.is_item_active()
    if clear:
        imgui.set_cursor_screen_pos(ImVec2(high.x - clear - ui.u(0.5), at.y + ui.u(1)))
        if icon_button(ui, "history.clear", ICON_CLOSE, tr("Clear"), side=clear, style="small"):
            query = ""
    if escaped and was_active:
        query = ""
    if is_entered() and was_active and history.found and history.found_for == query:
        first = history.found[0]
        actions.append(OpenConversation(first.conversation, first.message))
    if query != history.query:
        actions.append(SearchHistory(query))
    imgui.set_cursor_screen_pos(ImVec2(high.x + ui.u(1), at.y))
    if icon_button(ui, "history.more", ICON_MORE, tr("Archived, deleted, import"), side=side):
        ui.opened = menu.LIST
    return actions


def _draw_history_part(history: HistoryState, ui: Ui) -> list[Action]:
    """Draw the name of a list of archived or deleted conversations, and the way back."""
    side = ui.u(7)
    back = icon_button(
        ui, "history.back", ICON_CHEVRON_LEFT, tr("Back to the list"), side=side, style="small"
    )
    imgui.same_line(0, ui.u(1))
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + (side - ui.theme.size("small")) / 2)
    text(ui, tr(HISTORY_PARTS[history.part]), style="small", bold=True)
    return [ShowHistoryPart("all")] if back else []


def draw_found(state: AppState, ui: Ui) -> list[Action]:
    history, actions = state.history, list[Action]()
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if not history.found:
        words = tr("Searching")
        if history.found_for == history.query and history.complete:
            words = tr("No conversation says all of this.")
        note(ui, words)
        return actions
    before = None
    for number, found in enumerate(history.found):
        actions += _draw_found(ui, number, found, found.conversation != before)
        before = found.conversation
    if not history.complete:
        note(ui, tr("There are more. Another word finds fewer."))
    return actions


def _draw_found(ui: Ui, number: int, found: FoundRow, titled: bool) -> list[Action]:
    """Draw a result, with its conversation's title above the first one."""
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    size, pad = ui.theme.size("small"), ui.u(2)
    line = float(round(size * 1.35))
    with ui.font(style="small"):
        parts = cut(found, width - pad * 2, size)
        title = fit(found.title or tr(UNTITLED), width - pad * 2) if width > 0 else ""
    edge = ui.u(1.5) if titled else ui.u(1)
    height = edge * 2 + line * (titled + len(parts))
    name = f"history.found.{number}"
    clicked = press_area(name, ImVec2(max(width, 1.0), height))
    ui.mark(name)
    draw = imgui.get_window_draw_list()
    if imgui.is_item_hovered():
        end = ImVec2(at.x + width, at.y + height)
        draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    y = at.y + edge
    if titled:
        with ui.font("bold", "small"):
            draw.add_text(ImVec2(at.x + pad, y), ui.color("text"), title)
        y += line
    with ui.font(style="small"):
        for words, marks in parts:
            _draw_line(ui, words, marks, at.x + pad, y, size)
            y += line
    return [OpenConversation(found.conversation, found.message)] if clicked else []


def _draw_line(
    ui: Ui, words: str, marks: list[tuple[int, int]], x: float, y: float, size: float
) -> None:
    draw = imgui.get_window_draw_list()
    for start, stop in marks:
        left = x + imgui.calc_text_size(words[:start]).x
        right = left + imgui.calc_text_size(words[start:stop]).x
        edge = ui.u(0.25)
        low, high = ImVec2(left - edge, y - edge), ImVec2(right + edge, y + size + edge)
        draw.add_rect_filled(low, high, ui.color("accent_soft"), ui.u(0.5))
    draw.add_text(ImVec2(x, y), ui.color("muted"), words)
    for start, stop in marks:
        left = x + imgui.calc_text_size(words[:start]).x
        draw.add_text(ImVec2(left, y), ui.color("text"), words[start:stop])


def cut(found: FoundRow, width: float, size: float) -> list[tuple[str, list[tuple[int, int]]]]:
    """Cut the snippet into lines of `width`, in the current font, from a little before the first
    mark. Each line has its own marks."""
    if found.message is None or width <= size:
        return []
    snippet, start = found.snippet, 0
    if found.marks and found.marks[0][0] > LEAD:
        start = snippet.rfind(" ", 0, found.marks[0][0] - LEAD + 1) + 1
        start = start if start > 0 else found.marks[0][0]
    lead = "…" if start else ""
    lines = wrap_lines(lead + snippet[start:], width, size)
    parts = []
    at = start - len(lead)
    for number, words in enumerate(lines[:LINES]):
        begun = (lead + snippet[start:]).find(words, at - start + len(lead)) + start - len(lead)
        shown = words
        if number == LINES - 1 and len(lines) > LINES:
            shown = fit(words + " …" + " " * 3, width).rstrip()
        marks = [
            (max(a - begun, 0), min(b - begun, len(shown)))
            for a, b in found.marks
            if a - begun < len(shown) and b - begun > 0
        ]
        parts.append((shown, marks))
        at = begun + len(words)
    return parts
