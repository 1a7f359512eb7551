"""What is being composed, drawn over the caret: on a ground of its own, underlined, with the clause
that is selected and the input method's caret."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.app.input_method.messages import Composition
from llm_lite.desktop.widgets.ui import Ui


def draw_composition(composition: Composition, ui: Ui) -> list[Action]:
    """At the caret of the field with the focus, where one is in sight in this frame."""
    context: Any = imgui.get_current_context()
    caret = context.platform_ime_data
    if not composition.text or not caret.want_visible:
        return []
    size, text = caret.input_line_height, composition.text.replace("\n", " ")
    font, draw = ui.fonts["regular"], imgui.get_foreground_draw_list()
    marks = {0, len(text), composition.caret}.union(
        *((span.start, span.end) for span in composition.selected)
    )
    imgui.push_font(font, size)
    width = {mark: imgui.calc_text_size(text[:mark]).x for mark in marks}
    imgui.pop_font()
    whole, margin = width[len(text)], ui.u(0.5)
    left = caret.input_pos.x + 1
    if (window := context.active_id_window) is not None:
        left = max(margin, min(left, window.inner_rect.max.x - whole - margin))
    top, line = caret.input_pos.y, max(1.0, ui.u(0.25))
    bottom = top + size
    low = ImVec2(left - 1, top - line)
    high = ImVec2(left + whole + margin, bottom + 2 * line)
    draw.add_rect_filled(low, high, ui.color("accent_soft"), ui.u(0.5))
    for span in composition.selected:
        start, end = left + width[span.start], left + width[span.end]
        draw.add_rect_filled(ImVec2(start, top), ImVec2(end, bottom), ui.color("accent"))
    draw.add_text(font, size, ImVec2(left, top), ui.color("text"), text)
    for span in composition.selected:
        words = text[span.start : span.end]
        at = ImVec2(left + width[span.start], top)
        draw.add_text(font, size, at, ui.color("on_accent"), words)
    under = ImVec2(left + whole, bottom + line)
    draw.add_rect_filled(ImVec2(left, bottom), under, ui.color("accent"))
    at = left + width[composition.caret]
    edge = ImVec2(at + max(1.0, ui.u(0.375)), bottom)
    draw.add_rect_filled(ImVec2(at, top), edge, ui.color("text"))
    return []
