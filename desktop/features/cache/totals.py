"""What the cache weighs: per layer and in all, by type, saved by reuse, and how long it lasts."""

from __future__ import annotations

from collections.abc import Iterable

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import CacheLayerInfo, CacheLayout, PooledPrefix
from llm_lite.desktop.features.cache.kept import day, draw_line, draw_list
from llm_lite.desktop.features.cache.overflow import headroom
from llm_lite.desktop.features.cache.state import held, layer_bytes, reserved_bytes, used_bytes
from llm_lite.desktop.features.cache.tooltip import ranges
from llm_lite.desktop.features.chat.turns import forecast
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.model import KeepNow
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import size, tokens
from llm_lite.desktop.widgets.icons import ICON_SAVE, ICON_SETTINGS
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    facts,
    fit,
    heading,
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


def draw_headline(state: AppState, ui: Ui) -> None:
    """Tokens in use and the forecast, with a way to the settings."""
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
        told = tr("The cache also holds {n:,} tokens that are not of this conversation.")
        text(ui, told.format(n=other), "muted", "small")
        ui.mark("kv_cache.others")


def others(state: AppState) -> int:
    """Tokens that the engine's cache holds of what is not in front."""
    status = state.cache.status
    if status is None or state.busy or state.reading or state.draining is not None:
        return 0
    return max(0, status.length - state.context_used)


def _draw_forecast(
    state: AppState, ui: Ui, words: str, color: str, at: tuple[float, float], right: float
) -> None:
    """Behind the tokens in use, or below them where there is no room."""
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
    reserved = layout.reserved_bytes or reserved_bytes(layout.layers)
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
    if status is not None:
        whose = f"{size(status.saved_bytes)}, {tokens(status.reused)}"
        rows.insert(1, (tr("Saved by reuse"), whose, tr(SAVED)))
    facts(ui, "kv", rows)
    _draw_layers(state, ui, layout)


def _parts(layout: CacheLayout, length: int) -> tuple[int, int]:
    """Bytes of the keys and of the values in use."""
    keys = sum(held(one, length) * one.key_row_bytes for one in layout.layers)
    return keys, used_bytes(layout, length) - keys


def _draw_layers(state: AppState, ui: Ui, layout: CacheLayout) -> None:
    """A line for each layer; those that follow each other and are alike are told once."""
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
    """Layers with the same rows, window and types, in the order of the first of each kind."""
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
    """What other conversations left in memory, and on disk."""
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
    """By the conversation's title, which a click opens, and when it was left."""
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
    """Caches on disk spare reading conversations again after the program was closed."""
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
