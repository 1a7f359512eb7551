"""The memory of the conversation: who holds which place of it, what it weighs, when it is full."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import get_args

import numpy as np
from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.attention.colors import stops
from llm_lite.desktop.features.cache.colors import (
    ANSWERS,
    FREE,
    SYSTEMS,
    TEMPLATES,
    USERS,
    kind_colors,
)
from llm_lite.desktop.features.cache.map import draw_map
from llm_lite.desktop.features.cache.model import AskMeasure, ColorCache
from llm_lite.desktop.features.cache.rows import Rows
from llm_lite.desktop.features.cache.state import ColorBy
from llm_lite.desktop.features.cache.totals import draw_headline, draw_prefixes, draw_totals
from llm_lite.desktop.features.cache.window import draw_zoom, window_of, zoom_of, zoom_width
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.untold import draw_there
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_MEMORY
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import heading, help_mark, icon_button, text, wrapped

NOTE = mark(
    "Each token leaves a key and a value in every layer, so that later tokens can look back "
    "without reading the text again."
)
ABOUT = mark(
    "Each row is a layer that keeps keys and values, or all those that keep the same positions "
    "where their colours are the same; each column is a position. Layers that share "
    "the cache of another have no row: +2 means that two more layers read it. The line above is "
    "the whole context. Wheel and drag move about; a click holds a token in the chat."
)
BY: dict[ColorBy, str] = {
    "owner": mark("Role"),
    "key-norm": mark("Key norm"),
    "value-norm": mark("Value norm"),
    "received": mark("Attention received"),
    "age": mark("Age"),
}
HINTS: dict[ColorBy, str] = {
    "owner": mark("Who said the token"),
    "key-norm": mark("L2 norm of the key, scaled to the range of each layer"),
    "value-norm": mark("L2 norm of the value, scaled to the range of each layer"),
    "received": mark("How much of the attention of later tokens goes here: the tokens that matter"),
    "age": mark("How many tokens were computed since, those of replaced answers too"),
}
SLOTS = mark(
    "As it lies in memory: columns are places. A layer with a sliding window writes in a ring: the "
    "bright line is where the next token goes, over the oldest one."
)
NOT_KEPT = mark(
    "This is the decoder's cache. The keys and values that it has of the source lie beside it, and "
    "each new source takes their place: nothing of a target is kept for later."
)
PERIOD = 1.0  # seconds between two measurements while an answer is written
SHARE = 0.52  # of the view's height for the map


def draw(state: AppState, ui: Ui) -> list[Action]:
    model = state.model
    if state.elsewhere:
        heading(ui, tr("Key and value cache"), tr(NOTE))
        draw_there(state, ui)
        return []
    if model is None or not model.cache.layers or not model.context:
        heading(ui, tr("Key and value cache"), tr(NOTE))
        wrapped(ui, tr("No model is loaded."))
        return []
    room = imgui.get_content_region_avail().y
    draw_headline(state, ui)
    actions, zoom = _draw_controls(state, ui), zoom_of(state, ui)
    height = max(room * SHARE, ui.u(50))
    actions += draw_map(state, ui, zoom, height)
    _draw_legend(state, ui)
    actions += _measure(state, ui)
    imgui.dummy(ImVec2(0, ui.u(1)))
    return actions + _in_sight(ui, "kv.below", lambda: _draw_below(state, ui))


def _draw_below(state: AppState, ui: Ui) -> list[Action]:
    draw_totals(state, ui)
    if state.writes_targets:
        wrapped(ui, tr(NOT_KEPT), "faint")
        return []
    return draw_prefixes(state, ui)


def _in_sight(ui: Ui, name: str, draw: Callable[[], list[Action]]) -> list[Action]:
    """What `draw` draws; only its height, as it was, where nobody can see it."""
    height = ui.memory.get(name, 0.0)
    if height and not imgui.is_rect_visible(ImVec2(1.0, height)):
        imgui.dummy(ImVec2(1.0, height))
        return []
    top = imgui.get_cursor_pos_y()
    actions = draw()
    ui.memory[name] = imgui.get_cursor_pos_y() - top - imgui.get_style().item_spacing.y
    return actions


def _draw_controls(state: AppState, ui: Ui) -> list[Action]:
    cache, zoom = state.cache, zoom_of(state, ui)
    assert state.model is not None
    right = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    options = [(one, tr(BY[one])) for one in get_args(ColorBy)]
    by = picker(ui, "kv_cache.by", options, cache.by, ui.u(42), tr(HINTS[cache.by]))
    help_mark(ui, tr(ABOUT))
    rings = any(layer.rows < state.model.context for layer in state.model.cache.layers)
    room = zoom_width(ui) + (ui.u(8) if rings else 0)
    if imgui.get_item_rect_max().x + ui.u(3) + room <= right:
        imgui.same_line(right - room - imgui.get_window_pos().x)
    slots = cache.slots
    if rings:
        on, name = cache.slots, "kv_cache.slots"
        slots = on != icon_button(ui, name, ICON_MEMORY, tr(SLOTS), side=ui.u(7), active=on)
        imgui.same_line(0, ui.u(1))
    draw_zoom(state, ui, zoom, window_of(state, zoom, 512))
    changed = (by, slots) != (cache.by, cache.slots)
    return [ColorCache(by, slots)] if changed else []


def _measure(state: AppState, ui: Ui) -> list[Action]:
    """Ask for what the colours need: at rest at once, while an answer is written now and then.

    What every token receives needs all that look at it: it waits for the end of the answer.
    """
    cache, by = state.cache, state.cache.by
    if by == "owner" or by == "age" or cache.request or cache.problem or not state.owners:
        return []
    known = cache.measured
    length = known.values.shape[1] if known is not None and known.what == by else 0
    if length >= min(len(state.owners), state.context_used):
        return []
    if state.running:
        if by == "received" or state.running.phase != "decode":
            return []
        due = ui.memory.get("kv.measured", 0.0) + PERIOD
        if ui.now < due:
            ui.redraw_in(due - ui.now)
            return []
    ui.memory["kv.measured"] = ui.now
    return [AskMeasure(by)]


def _draw_legend(state: AppState, ui: Ui) -> None:
    if state.cache.by == "owner":
        _draw_kinds(state, ui)
        return
    rows: Rows | None = ui.memory.get("kv.rows")
    if state.cache.problem:
        wrapped(ui, state.cache.problem)
        return
    if rows is None or rows.scale is None:
        waits = state.cache.by == "received" and state.running
        words = tr("Measured when the answer ends.") if waits else tr("Measuring…")
        text(ui, words, "muted", "small")
        ui.redraw_in(0.1)
        return
    low, high, note = _ends(state, rows)
    text(ui, low, "muted", "small")
    imgui.same_line(0, ui.u(1.5))
    _gradient(state, ui, ui.u(30))
    imgui.same_line(0, ui.u(1.5))
    text(ui, f"{high}  {note}", "muted", "small")


def _ends(state: AppState, rows: Rows) -> tuple[str, str, str]:
    scale = rows.scale
    assert scale is not None
    if state.cache.by == "age":
        low = tr("{low:,.0f} computed since").format(low=-scale.low)
        return low, tr("0: the newest"), tr("linear")
    if state.cache.by == "received":
        low, high = f"≤ {100 * scale.low:.1g}%", f"≥ {100 * scale.high:.2g}%"
        return low, high, tr("mean attention of later tokens, logarithmic")
    return tr("least"), tr("most"), tr("of the layer, linear")


def _gradient(state: AppState, ui: Ui, width: float) -> None:
    at, draw, height = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), _small(ui)
    light = state.theme == "light"
    colors = stops(state.attention.colors, 16, light, fades=False)
    for i, (left, right) in enumerate(pairwise(colors)):
        low = ImVec2(at.x + width * i / 16, at.y + ui.u(0.5))
        high = ImVec2(at.x + width * (i + 1) / 16, at.y + height)
        draw.add_rect_filled_multi_color(low, high, left, right, right, left)
    imgui.dummy(ImVec2(width, height))
    ui.mark("kv_cache.legend")


def _small(ui: Ui) -> float:
    return ui.theme.size("small")


def _draw_kinds(state: AppState, ui: Ui) -> None:
    """A chip for each owner, on as many lines as they need."""
    colors = np.rint(kind_colors(ui.theme.palette)).astype(int)
    names = {SYSTEMS: tr("System prompt"), USERS: tr("You"), ANSWERS: tr("Answers")}
    names |= {TEMPLATES: tr("Template"), FREE: tr("Free")}
    marks = [(tr("Reused"), 0)]
    if state.writes_targets:
        names, marks = {ANSWERS: tr("Target"), FREE: tr("Free")}, []
    chips = [(words, u32(int(colors[k] @ (65536, 256, 1)))) for k, words in names.items()]
    right = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    side, draw = ui.u(2.5), imgui.get_window_draw_list()
    with ui.font(style="small"), ui.colored(text="muted"):
        for number, (words, color) in enumerate([*chips, *marks]):
            width = side + ui.u(1) + imgui.calc_text_size(words).x
            if number:
                imgui.same_line(0, ui.u(3))
                if imgui.get_cursor_screen_pos().x + width > right:
                    imgui.new_line()
            at = imgui.get_cursor_screen_pos()
            top = at.y + (_small(ui) - side) / 2 + ui.u(0.25)
            if color:
                end = ImVec2(at.x + side, top + side)
                draw.add_rect_filled(ImVec2(at.x, top), end, color, ui.u(0.5))
            else:
                end = ImVec2(at.x + side, top + side)
                line = ImVec2(at.x, end.y - max(1.0, ui.u(0.5)))
                draw.add_rect_filled(line, end, ui.color("warning"))
            imgui.dummy(ImVec2(side, _small(ui)))
            imgui.same_line(0, ui.u(1))
            imgui.text_unformatted(words)
