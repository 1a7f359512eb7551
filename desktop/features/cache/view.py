"""The memory of the conversation: who holds which place of it, what it weighs, when it is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import get_args

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import CacheLayerInfo, CacheLayout, MeasureCache, PooledPrefix
from llm_lite.desktop.attention.colors import stops
from llm_lite.desktop.features.cache.map import (
    draw_cache_map,
    draw_zoom,
    ranges,
    window_of,
    zoom_of,
    zoom_width,
)
from llm_lite.desktop.features.cache.memory import day, draw_line, draw_list
from llm_lite.desktop.features.cache.model import MEASURE, ColorCache, measured_positions, problem
from llm_lite.desktop.features.cache.overflow import headroom
from llm_lite.desktop.features.cache.picture import (
    ANSWERS,
    FREE,
    SYSTEMS,
    TEMPLATES,
    USERS,
    CachePicture,
    kind_colors,
)
from llm_lite.desktop.features.cache.state import (
    ColorBy,
    held,
    layer_bytes,
    reserved_bytes,
    used_bytes,
)
from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.chat.reading import forecast
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.view import draw_remote_cache
from llm_lite.desktop.features.resume.model import KeepNow
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import size, tokens
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_MEMORY, ICON_SAVE, ICON_SETTINGS
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    facts,
    fit,
    heading,
    help_mark,
    icon_button,
    meter,
    text,
    tip,
    wrapped,
)

SAVED = mark("Rows of keys and values that were reused instead of computed again.")
POOL = mark(
    "KV caches of recent conversations. Going back to one needs no prefill; the oldest is"
    " dropped first."
)
SHOWN = 5  # conversations on disk
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


class CacheControls(Struct):
    """Heights of parts that were drawn, by name, and when a measurement was last asked for."""

    heights: dict[str, float] = field(default_factory=dict)
    measured_at: float = 0.0


def draw(state: AppState, ui: Ui) -> list[Action]:
    model = state.model
    if state.elsewhere:
        heading(ui, tr("Key and value cache"), tr(NOTE))
        return _draw_elsewhere(state, ui)
    if model is None or not model.cache.layers or not model.context:
        heading(ui, tr("Key and value cache"), tr(NOTE))
        wrapped(ui, tr("No model is loaded."))
        return []
    room = imgui.get_content_region_avail().y
    draw_headline(state, ui)
    actions = draw_unread(state, ui, "kv_cache") + _draw_map(state, ui, room)
    return actions + _in_sight(ui, "kv.below", lambda: _draw_below(state, ui))


def _draw_elsewhere(state: AppState, ui: Ui) -> list[Action]:
    """Draw the map of what a server holds of the conversation, and how full its cache is."""
    model, actions, room = state.model, list[Action](), imgui.get_content_region_avail().y
    if state.is_inspected and model is not None and model.cache.layers and model.context:
        actions = _draw_map(state, ui, room)
    draw_remote_cache(state, ui)
    return actions


def _draw_map(state: AppState, ui: Ui, room: float) -> list[Action]:
    """Draw the map in a part of `room` pixels, with what chooses its colours and their legend."""
    actions, zoom = _draw_controls(state, ui), zoom_of(state, ui)
    height = max(room * SHARE, ui.u(50))
    actions += draw_cache_map(state, ui, zoom, height)
    _draw_legend(state, ui)
    actions += _measure(state, ui)
    imgui.dummy(ImVec2(0, ui.u(1)))
    return actions


def _draw_below(state: AppState, ui: Ui) -> list[Action]:
    draw_totals(state, ui)
    if state.writes_targets:
        wrapped(ui, tr(NOT_KEPT), "faint")
        return []
    return draw_prefixes(state, ui)


def _in_sight(ui: Ui, name: str, draw: Callable[[], list[Action]]) -> list[Action]:
    """Draw a part; where nobody can see it, only leave its height of before free."""
    heights = ui.local(CacheControls).heights
    height = heights.get(name, 0.0)
    if height and not imgui.is_rect_visible(ImVec2(1.0, height)):
        imgui.dummy(ImVec2(1.0, height))
        return []
    top = imgui.get_cursor_pos_y()
    actions = draw()
    heights[name] = imgui.get_cursor_pos_y() - top - imgui.get_style().item_spacing.y
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

    What every token receives needs all that look at it: it waits for the end of the answer. So
    does all that a server measures, which tells of answers that have ended.
    """
    by, length = state.cache.by, min(len(state.owners), state.context_used)
    if by == "owner" or by == "age" or problem(state):
        return []
    first = measured_positions(state)
    if first >= length:
        return []
    asks = MEASURE.wanted(state, MeasureCache(by, 0 if by == "received" else first, length))
    if state.running:
        if by == "received" or state.elsewhere or state.running.phase != "decode":
            return []
        due = ui.local(CacheControls).measured_at + PERIOD
        if ui.now < due:
            ui.redraw_in(due - ui.now)
            return []
    if asks:
        ui.local(CacheControls).measured_at = ui.now
    return asks


def _draw_legend(state: AppState, ui: Ui) -> None:
    if state.cache.by == "owner":
        _draw_kinds(state, ui)
        return
    rows = ui.local(CachePicture)
    if why := problem(state):
        wrapped(ui, why)
        return
    if rows.scale is None:
        words = tr("Measuring…")
        if state.running and (state.cache.by == "received" or state.elsewhere):
            words = tr("Measured when the answer ends.")
        elif unread_part(state) is not None:
            words = tr("Measured once the conversation is read.")
        elif MEASURE.waiting(state) is not None:
            ui.redraw_in(0.1)
        text(ui, words, "muted", "small")
        return
    low, high, note = _ends(state, rows)
    text(ui, low, "muted", "small")
    imgui.same_line(0, ui.u(1.5))
    _gradient(state, ui, ui.u(30))
    imgui.same_line(0, ui.u(1.5))
    text(ui, f"{high}  {note}", "muted", "small")


def _ends(state: AppState, rows: CachePicture) -> tuple[str, str, str]:
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
    """Draw a chip for each owner, on as many lines as they need."""
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


def draw_headline(state: AppState, ui: Ui) -> None:
    """Draw tokens in use and the forecast, with a way to the settings."""
    assert state.model is not None
    side = ui.u(7)
    top, right = imgui.get_cursor_pos_y(), ui.right(side)
    shown = tr("{n:,} of {whole:,} tokens in the cache")
    shown = shown.format(n=state.context_used, whole=state.model.context)
    text(ui, shown, bold=True)
    ui.mark("kv_cache.used")
    words, color = headroom(state)
    end = imgui.get_item_rect_max().x - imgui.get_window_pos().x
    hint = tr("Size, precision, and what happens when it is full")
    imgui.same_line(right)
    imgui.set_cursor_pos_y(top - ui.u(1.5))
    if icon_button(ui, "kv_cache.settings", ICON_SETTINGS, hint, side=side):
        ui.opened = "memory"
    if words:
        _draw_forecast(state, ui, words, color, (end + ui.u(3), top), right)
    if other := others(state):
        words = tr("The cache also holds {n:,} tokens that are not of this conversation.")
        wrapped(ui, words.format(n=other))
        ui.mark("kv_cache.others")


def others(state: AppState) -> int:
    """Return how many tokens the engine's cache holds of other conversations than the one in
    front."""
    status = state.cache.status
    if status is None or state.busy or state.reading:
        return 0
    return max(0, status.length - state.context_used)


def _draw_forecast(
    state: AppState, ui: Ui, words: str, color: str, at: tuple[float, float], right: float
) -> None:
    """Draw the forecast behind the tokens in use, or below them where there is no room."""
    with ui.font(style="small"):
        beside = at[0] + imgui.calc_text_size(words).x < right
    if beside:
        below = imgui.get_cursor_pos()
        drop = (ui.theme.text - ui.theme.size("small")) / 2 + ui.u(0.25)
        imgui.set_cursor_pos(ImVec2(at[0], at[1] + drop))
    text(ui, words, color, "small")
    ui.mark("kv_cache.forecast")
    found = forecast(state)
    if found is not None:
        words = tr("A turn took {tokens} so far, in the median.")
        tip(ui, words.format(tokens=tokens(found.typical)))
    if beside:
        imgui.set_cursor_pos(below)


def draw_totals(state: AppState, ui: Ui) -> None:
    assert state.model is not None
    layout, length = state.model.cache, state.context_used
    reserved = layout.reserved_bytes or reserved_bytes(layout.stored)
    used = used_bytes(layout, length)
    heading(ui, tr("Memory"))
    meter(ui, used / max(reserved, 1), imgui.get_content_region_avail().x, ui.u(1.5))
    ui.mark("kv_cache.meter")
    keys, values = _parts(layout, length)
    rows = [
        (
            tr("Used"),
            tr("{used} of {reserved} reserved").format(used=size(used), reserved=size(reserved)),
            "",
        ),
        (
            tr("Keys"),
            tr("{size} in {kind}").format(size=size(keys), kind=layout.keys),
            tr("Key: what queries are matched against."),
        ),
        (
            tr("Values"),
            tr("{size} in {kind}").format(size=size(values), kind=layout.values),
            tr("Value: what attention adds up."),
        ),
        (
            tr("A token takes"),
            size(layout.token_bytes),
            tr("In all layers together."),
        ),
    ]
    status = state.cache.status
    if status is not None and state.owners:  # else what another conversation reused
        whose = f"{size(status.saved_bytes)}, {tokens(status.reused)}"
        rows.insert(1, (tr("Saved by reuse"), whose, tr(SAVED)))
    facts(ui, "kv", rows)
    _draw_layers(state, ui, layout)


def _parts(layout: CacheLayout, length: int) -> tuple[int, int]:
    """Return the bytes of the keys and of the values in use."""
    keys = sum(held(one, length) * one.key_row_bytes for one in layout.stored)
    return keys, used_bytes(layout, length) - keys


def _draw_layers(state: AppState, ui: Ui, layout: CacheLayout) -> None:
    """Draw a line for each layer; those that follow each other and are alike share one."""
    length = state.context_used
    with ui.font(style="small"), ui.colored(header="-", header_hovered="hover", text="muted"):
        opened = imgui.collapsing_header(f"{tr('Layer by layer')}###kv.layers")
    ui.mark("kv_cache.layers")
    if not opened or not imgui.begin_table("kv.layers", 4):
        return
    for weight in (0.32, 0.24, 0.22, 0.22):
        imgui.table_setup_column("", imgui.TableColumnFlags_.width_stretch, weight)
    _line(ui, (tr("Layers"), tr("Positions"), tr("Used"), tr("Reserved")), "faint")
    for group in alike(layout.layers):
        one, count = group[0], len(group)
        each = layer_bytes(one)
        owners = ranges(tuple(layer.layer for layer in group))
        shared = sum(len(layer.shared_with) for layer in group)
        name = f"{owners}  +{shared}" if shared else owners
        place = (
            tr("{n:,} ring").format(n=one.rows)
            if one.rows < (state.model.context if state.model else 0)
            else f"{one.rows:,}"
        )
        times = f" × {count}" if count > 1 else ""
        used, reserved = size(held(one, length) * each), size(one.rows * each)
        _line(ui, (name, place, used + times, reserved + times), "text")
    imgui.end_table()


def alike(layers: tuple[CacheLayerInfo, ...]) -> list[list[CacheLayerInfo]]:
    """Group layers with the same rows, window and types, in the order of the first of each kind."""
    groups: dict[object, list[CacheLayerInfo]] = {}
    for layer in layers:
        key = (layer.rows, layer.window, layer.key_row_bytes, layer.value_row_bytes)
        groups.setdefault(key, []).append(layer)
    return list(groups.values())


def _line(ui: Ui, cells: Iterable[str], color: str) -> None:
    imgui.table_next_row()
    for cell in cells:
        imgui.table_next_column()
        with ui.font(style="small"), ui.colored(text=color):
            imgui.text_unformatted(fit(cell, imgui.get_content_region_avail().x))
            if imgui.is_item_hovered():
                tip(ui, cell)


def draw_prefixes(state: AppState, ui: Ui) -> list[Action]:
    """Draw what other conversations left in memory, and on disk."""
    imgui.dummy(ImVec2(0, ui.u(1)))
    status, actions = state.cache.status, list[Action]()
    heading(ui, tr("Prefix cache"), tr(POOL))
    if status is not None:
        shown = tr("In memory: {used} of {whole}")
        used, whole = size(status.pool_used), size(status.pool_budget)
        text(ui, shown.format(used=used, whole=whole), "muted", "small")
        ui.mark("kv_cache.pool")
        with ui.styled(item_spacing=(0.0, 0.0)):
            for number, prefix in enumerate(status.prefixes):
                actions += _draw_prefix(state, ui, number, prefix)
        if not status.prefixes:
            words = tr("Nothing is kept.")
            if not status.pool_budget:
                words = tr("The budget is 0: nothing is kept.")
            wrapped(ui, words, "faint")
    return actions + _draw_on_disk(state, ui)


def _draw_prefix(state: AppState, ui: Ui, number: int, prefix: PooledPrefix) -> list[Action]:
    """Draw the conversation's title, which a click opens, and when it was left."""
    whose, name = prefix.conversation, f"kv_cache.prefix.{number}"
    known = (row.title for row in state.history.rows if row.id == whose)
    title = next(known, "") or prefix.name or tr("A conversation")
    when = f"{day(prefix.kept)}  ·  " if prefix.kept else ""
    note = f"{when}{tokens(prefix.tokens)}  ·  {size(prefix.bytes)}"
    hint = tr("Open the conversation") if whose else ""
    if whose and whose == state.history.open:
        hint = tr("Another version of this conversation, which a switch of versions brings back")
        draw_line(ui, name, title, note, hint)
        return []
    return [OpenConversation(whose)] if draw_line(ui, name, title, note, hint) else []


def _draw_on_disk(state: AppState, ui: Ui) -> list[Action]:
    """Draw the caches on disk, which spare reading conversations again after the program was
    closed."""
    resume = state.resume
    if not resume.folder:
        return []
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    shown = tr("On disk: {used} of {whole}")
    words = shown.format(used=size(resume.used), whole=size(resume.budget))
    text(ui, words if resume.mode != "off" else tr("On disk: off"), "muted", "small")
    ui.mark("kv_cache.disk")
    actions = draw_list(ui, "kv_cache.kept", resume.kept[:SHOWN])
    imgui.dummy(ImVec2(0, 0))  # as far from the list as from the next part
    hint = tr("Write it to disk now, and not only when the conversation is left.")
    ready = bool(state.owners) and not state.busy and resume.keeps
    if button(ui, "kv_cache.keep", tr("Keep now"), ICON_SAVE, hint, ready):
        actions.append(KeepNow())
    return actions
