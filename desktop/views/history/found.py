"""What a search has found: each place with a line or two of its words."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.history import OpenConversation
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.history_state import FoundRow
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.history.rows import UNTITLED, note
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, wrap_lines

LINES = 2
LEAD = 16  # characters before the first word that is marked


def draw(state: AppState, ui: Ui) -> list[Action]:
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
    """A place; its conversation's title above the first of them."""
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
    """The snippet in lines of `width`, in the current font, from a little before the first mark;
    the marks by the characters of their line."""
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
