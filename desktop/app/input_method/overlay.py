"""What is being composed, drawn at the caret: on a ground of its own, underlined, with the clause
that is selected and the input method's caret; the rest of the line is drawn again behind it."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.app.input_method.messages import Composition
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.widgets.ui import Rect, Ui

# Fields with another ground or padding (in spacing units) than Dear ImGui gives them by the theme
GROUNDS = {
    "chat.input": ("raised", 1.5), "history.search": ("sunken", 0.0),
    "history.rename": ("raised", 2.0),
}  # fmt: skip
USUAL = ("hover", 2.5)
LONGEST_REST = 300  # characters of a line


class _Place(Struct):
    """The place of the composition, in pixels."""

    left: float
    top: float
    size: float  # of the font
    text: str
    width: dict[int, float]  # of so many first characters

    @property
    def right(self) -> float:
        return self.left + self.width[len(self.text)]

    @property
    def bottom(self) -> float:
        return self.top + self.size


def draw_composition(composition: Composition, ui: Ui) -> list[Action]:
    """Draw the composition at the caret of the field with the focus, if one is in sight in this
    frame."""
    context: Any = imgui.get_current_context()
    caret = context.platform_ime_data
    if not composition.text or not caret.want_visible:
        return []
    imgui.push_font(ui.fonts["regular"], caret.input_line_height)
    try:
        line = _place(composition, caret, context.active_id_window, ui)
        _move_rest(line, ui)
        _draw(composition, line, ui)
    finally:
        imgui.pop_font()
    return []


def _place(composition: Composition, caret: Any, window: Any, ui: Ui) -> _Place:
    text = composition.text.replace("\n", " ")
    marks = {0, len(text), composition.caret}
    for span in composition.selected:
        marks |= {span.start, span.end}
    width = {mark: imgui.calc_text_size(text[:mark]).x for mark in marks}
    left = caret.input_pos.x + 1
    if window is not None:  # one that is longer than the line goes on to the left
        left = max(ui.u(0.5), min(left, window.inner_rect.max.x - width[len(text)] - ui.u(1)))
    return _Place(left, caret.input_pos.y, caret.input_line_height, text, width)


def _move_rest(line: _Place, ui: Ui) -> None:
    """Draw again, behind the composition, what stands behind the caret in its line or the words of
    an empty field."""
    state = imgui.internal.get_input_text_state(imgui.internal.get_active_id())
    field = _field(line, ui)
    if field is None or state is None:
        return
    name, (left, top, right, bottom) = field
    ground, padding = GROUNDS.get(name, USUAL)
    edge = left + ui.u(padding) + state.wrap_width if state.wrap_width else 1e6
    behind = state.text_src.encode()[state.get_cursor_pos() :].decode("utf-8", "replace")
    rest = _in_line(behind.partition("\n")[0][:LONGEST_REST], edge - line.left)
    draw = imgui.get_foreground_draw_list()
    draw.push_clip_rect(ImVec2(left, top), ImVec2(right - ui.u(0.5), bottom))
    covered = line.left + imgui.calc_text_size(rest).x + ui.u(1) if behind else right
    low, high = ImVec2(line.left, line.top), ImVec2(covered, line.bottom + ui.u(0.5))
    draw.add_rect_filled(low, high, ui.color(ground))
    draw.add_text(ImVec2(line.right + ui.u(0.5), line.top), ui.color("text"), rest)
    draw.pop_clip_rect()


def _field(line: _Place, ui: Ui) -> tuple[str, Rect] | None:
    """Return the smallest named widget at the caret: fields name themselves."""
    x, y = line.left, line.top + line.size / 2
    found = [
        ((rect[2] - rect[0]) * (rect[3] - rect[1]), name)
        for name, rect in ui.rects.items()
        if rect[0] <= x <= rect[2] and rect[1] <= y <= rect[3] and not name.startswith("view.")
    ]
    name = min(found, default=(0.0, ""))[1]
    return (name, ui.rects[name]) if name else None


def _in_line(text: str, room: float) -> str:
    """Return the words that stand before the end of the line, as Dear ImGui wraps them."""
    while text and imgui.calc_text_size(text).x > room:
        shorter = text.rstrip().rpartition(" ")[0]
        text = shorter or text[:-1]
    return text


def _draw(composition: Composition, line: _Place, ui: Ui) -> None:
    draw, thin, text = imgui.get_foreground_draw_list(), max(1.0, ui.u(0.25)), line.text
    low, high = ImVec2(line.left - 1, line.top), ImVec2(line.right, line.bottom + 2 * thin)
    draw.add_rect_filled(low, high, ui.color("accent_soft"))
    draw.add_text(ImVec2(line.left, line.top), ui.color("text"), text)
    for span in composition.selected:
        start, end = line.left + line.width[span.start], line.left + line.width[span.end]
        draw.add_rect_filled(ImVec2(start, line.top), ImVec2(end, line.bottom), ui.color("accent"))
        words = text[span.start : span.end]
        draw.add_text(ImVec2(start, line.top), ui.color("on_accent"), words)
    under = ImVec2(line.left, line.bottom + thin)
    draw.add_rect_filled(under, ImVec2(line.right, under.y + thin), ui.color("accent"))
    caret = line.left + line.width[composition.caret]
    edge = ImVec2(caret + max(1.0, ui.u(0.375)), line.bottom)
    draw.add_rect_filled(ImVec2(caret, line.top), edge, ui.color("text"))
