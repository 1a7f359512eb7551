"""The geometry of attention in the loaded model: how heads share keys and values."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from core.messages import ModelInfo
from desktop.actions import Action
from desktop.state import AppState
from desktop.theme import u32
from desktop.ui import Ui
from desktop.widgets import facts, heading, tip, wrapped

NOTE = (
    "In every layer each head looks back over the text with a question of its own (a query) and "
    "gathers values where the keys match. Heads of one colour share their keys and values."
)
LATER = "Maps of where each head looks come in a later version."


def draw(state: AppState, ui: Ui) -> list[Action]:
    heading(ui, "Attention heads", NOTE)
    model = state.model
    if model is None:
        wrapped(ui, "No model is loaded.")
        return []
    _draw_heads(ui, model)
    wrapped(
        ui,
        f"From the top: layers 0 to {model.layers - 1}. From the left: heads 0 to "
        f"{model.heads - 1}.",
    )
    group = model.heads // max(model.kv_heads, 1)
    facts(
        ui,
        "heads",
        [
            ("Layers", str(model.layers), ""),
            ("Query heads", f"{model.heads} a layer", "Each asks its own question."),
            ("Key and value heads", f"{model.kv_heads} a layer", "Fewer of them: a smaller cache."),
            ("Shared by", f"{group} query heads", "How many query heads use one key head."),
            ("Head size", f"{model.head_dim} numbers", "The length of a query, key or value."),
            ("Looks back", f"{state.context_used:,} tokens now", "What the cache holds."),
        ],
    )
    imgui.dummy(ImVec2(0, ui.u(1)))
    wrapped(ui, LATER)
    return []


def _draw_heads(ui: Ui, model: ModelInfo) -> None:
    """A row a layer, a cell a head, coloured by the key head it shares."""
    width = imgui.get_content_region_avail().x
    gap = ui.u(0.25)
    side = max(width / max(model.heads, 1) - gap, 2.0)
    row = max(min(ui.u(4), ui.u(44) / max(model.layers, 1)) - gap, 2.0)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    series, group = ui.theme.palette.series, max(model.heads // max(model.kv_heads, 1), 1)
    for layer in range(model.layers):
        y = at.y + layer * (row + gap)
        for head in range(model.heads):
            x = at.x + head * (side + gap)
            color = u32(series[head // group % len(series)], 0.75)
            draw.add_rect_filled(ImVec2(x, y), ImVec2(x + side, y + row), color, ui.u(0.25))
    imgui.dummy(ImVec2(width, model.layers * (row + gap)))
    ui.mark("attention.heads")
    if imgui.is_item_hovered():
        mouse = imgui.get_mouse_pos()
        layer = min(int((mouse.y - at.y) / (row + gap)), model.layers - 1)
        head = min(int((mouse.x - at.x) / (side + gap)), model.heads - 1)
        tip(ui, f"Layer {layer}, head {head}: uses key head {head // group}")
