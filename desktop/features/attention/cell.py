"""A head of the grid: its thumbnail, and what the pointer says of it."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.desktop.features.attention.map import draw_map, draw_missing, texture_of
from llm_lite.desktop.features.attention.state import AttentionChoice, Head
from llm_lite.desktop.features.attention.zoom import whole
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.by_keyboard import cell
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text

HATCHED = "attention.hatched"  # in the memory of the interface: rows of a thumbnail are missing
LITTLE = 16  # less than this part of the rows is not worth a line


def draw_cell(
    choice: AttentionChoice,
    ui: Ui,
    maps: HeadMaps,
    head: Head,
    at: tuple[float, float],
    side: float,
) -> AttentionChoice:
    """A thumbnail with a line in the colour of its group; a click locks it."""
    picture = maps.thumbnail(*head)
    draw = imgui.get_window_draw_list()
    rect = (*at, at[0] + side, at[1] + side)
    low, high = ImVec2(*rect[:2]), ImVec2(*rect[2:])
    draw.add_rect_filled(low, high, ui.color("sunken"))
    if any(last - first >= maps.length // LITTLE for first, last in picture.missing):
        causal = maps.layers[head[0]].is_causal
        draw_missing(ui, draw, low, side, range(maps.length), picture.missing, causal=causal)
        ui.memory[HATCHED] = True
    texture = texture_of(picture)
    draw.add_image(texture, low, high, ImVec2(*picture.low), ImVec2(*picture.high))
    group = ui.color_of_series(group_of(maps, head))
    draw.add_rect_filled(ImVec2(rect[0], rect[3] - ui.u(0.5)), high, group)
    ui.rects[f"attention.{head[0]}.{head[1]}"] = rect
    hovered = ui.at_pointer(rect) and imgui.is_window_hovered()
    focused, pressed = cell(f"{head}", rect)
    if pressed or (hovered and imgui.is_mouse_clicked(0)):
        choice = choice.toggled(head)
        if not choice.large and not pressed:
            imgui.set_window_focus("Head###head")  # its tab comes to the front
    if head in choice.locked or hovered:
        color = ui.color("accent" if head in choice.locked else "muted")
        draw.add_rect(low, high, color, 0.0, max(1.0, ui.u(0.5)))
    if hovered or (focused and imgui.get_io().nav_active):
        _draw_hover(choice, ui, maps, head)
    return choice


def _draw_hover(choice: AttentionChoice, ui: Ui, maps: HeadMaps, head: Head) -> None:
    """The same map, larger, with its scores."""
    scores = maps.scores()
    ui.redraw_in(0.7 if scores else 0.05)
    with ui.styled(window_padding=(ui.u(3), ui.u(3))):
        if not imgui.begin_tooltip():
            return
    side = ui.u(56)
    text(ui, head_words(head), bold=True)
    text(ui, tr("Key head {number}").format(number=group_of(maps, head)), "muted", "small")
    draw_map(ui, maps, "hover", head, whole(maps), side, marked=choice.row)
    at = sum(layer.heads for layer in maps.layers[: head[0]]) + head[1]
    for name, values in (scores or {}).items():
        _pair(ui, tr(SCORES[name].label), shown_score(name, float(values[at])), side)
    imgui.end_tooltip()


def _pair(ui: Ui, label: str, value: str, width: float) -> None:
    text(ui, label, "muted", "small")
    with ui.font(style="small"):
        imgui.same_line(width - imgui.calc_text_size(value).x + ui.u(3))
    text(ui, value, style="small")


def head_words(head: Head) -> str:
    return tr("Layer {layer}, head {head}").format(layer=head[0], head=head[1])


def shown_score(name: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    return tr("{value:.2f} nats").format(value=value) if SCORES[name].nats else f"{value:.1%}"


def group_of(maps: HeadMaps, head: Head) -> int:
    layer = maps.layers[head[0]]
    return head[1] * layer.kv_heads // layer.heads
