"""Which part of the cache is in sight: the whole context, what is used, or what a person chose."""

from __future__ import annotations

from typing import Literal

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.desktop.features.cache.colors import CacheWindow
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_ZOOM_IN, ICON_ZOOM_OUT
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, tip

Sight = Literal["context", "used", "own"]
FEWEST = 8.0  # columns
STEP = 1.25  # of a zoom, for a line of the wheel
LEAST_USED = 64
SIGHTS: tuple[tuple[Sight, str, str], ...] = (
    ("context", mark("All"), mark("The whole context")),
    ("used", mark("Used"), mark("What is used, as it grows")),
)
BUTTONS = (
    ("out", ICON_ZOOM_OUT, 2.0, mark("Zoom out (wheel down)")),
    ("in", ICON_ZOOM_IN, 0.5, mark("Zoom in to single tokens (wheel up); drag to pan")),
)


class CacheZoom(Struct):
    """`own` holds first and span of what a person chose; it lasts as long as the chat."""

    sight: Sight = "used"
    own: tuple[float, float] = (0.0, 1.0)
    chat: int = 0


def zoom_of(state: AppState, ui: Ui) -> CacheZoom:
    zoom: CacheZoom = ui.memory.setdefault("kv.zoom", CacheZoom(chat=state.chat))
    if zoom.chat != state.chat:
        zoom = ui.memory["kv.zoom"] = CacheZoom("used" if zoom.sight == "own" else zoom.sight)
        zoom.chat = state.chat
    return zoom


def window_of(state: AppState, zoom: CacheZoom, pixels: int) -> CacheWindow:
    assert state.model is not None
    context = float(state.model.context)
    if zoom.sight == "own":
        first, span = zoom.own
        span = min(span, context)  # which may be smaller than when this was chosen
        return CacheWindow(min(first, context - span), span, pixels)
    span = context if zoom.sight == "context" else _used(state.context_used, context)
    return CacheWindow(0.0, span, pixels)


def _used(used: int, context: float) -> float:
    """A little more than what is used, in steps, so that it stands still for many tokens."""
    step = max(LEAST_USED, 1 << max(used, 1).bit_length()) // 8
    return min(context, float(max(LEAST_USED, (used // step + 1) * step)))


def look(zoom: CacheZoom, window: CacheWindow, context: int, first: float, span: float) -> None:
    """Look at first..first+span, within the context."""
    span = min(max(span, FEWEST), float(context))
    first = min(max(first, 0.0), context - span)
    zoom.sight, zoom.own = "own", (first, span)


def wheel(zoom: CacheZoom, window: CacheWindow, context: int, x: float) -> None:
    """Zoom around pixel x by the wheel; sideways it pans. For the last item, while hovered."""
    imgui.set_item_key_owner(imgui.Key.mouse_wheel_y)
    io = imgui.get_io()
    lines, across = io.mouse_wheel, io.mouse_wheel_h
    if lines:
        span = min(max(window.span / STEP**lines, FEWEST), float(context))
        at = window.first + x / window.each
        look(zoom, window, context, at - x / window.pixels * span, span)
    elif across:
        look(zoom, window, context, window.first - across * window.span / 16, window.span)


def pan(zoom: CacheZoom, window: CacheWindow, context: int, pixels: float) -> None:
    look(zoom, window, context, window.first - pixels / window.each, window.span)


def zoom_width(ui: Ui) -> float:
    with ui.font(style="small"):
        words = sum(imgui.calc_text_size(tr(label)).x + ui.u(4) for _, label, _ in SIGHTS)
    return words + ui.u(7) * 2 + ui.u(3)


def draw_zoom(state: AppState, ui: Ui, zoom: CacheZoom, window: CacheWindow) -> None:
    """The buttons of the zoom, side by side."""
    assert state.model is not None
    side, context = ui.u(7), state.model.context
    for sight, label, hint in SIGHTS:
        on = zoom.sight == sight
        colors = {"button": "accent_soft" if on else "-", "text": "accent" if on else "muted"}
        with ui.font(style="small"), ui.colored(**colors):
            width = imgui.calc_text_size(tr(label)).x + ui.u(4)
            if imgui.button(f"{tr(label)}##kv.{sight}", imgui.ImVec2(width, side)):
                zoom.sight = sight
        ui.mark(f"kv_cache.{sight}")
        tip(ui, tr(hint))
        imgui.same_line(0, ui.u(1))
    middle = window.first + window.span / 2
    for name, icon, factor, hint in BUTTONS:
        if icon_button(ui, f"kv_cache.{name}", icon, tr(hint), side=side):
            span = window.span * factor
            look(zoom, window, context, middle - span / 2, span)
        if name == "out":
            imgui.same_line(0, ui.u(1))
