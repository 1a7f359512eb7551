"""The locked heads, large, side by side: tokens on both axes, zoom, and any moment of the text."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.program import SetAttention
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.attention_state import AttentionChoice, Head
from llm_lite.desktop.state.maps import HeadMaps
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.attention.coloring import (
    bar_width,
    color_scale_of,
    draw_scale,
    draw_upright_bar,
    redraw,
)
from llm_lite.desktop.views.attention.map import (
    AxisLabels,
    MapWindow,
    draw_axes,
    draw_map,
    draw_pointer,
    gutter,
)
from llm_lite.desktop.views.attention.parts import labels_of, problem_of
from llm_lite.desktop.views.attention.row_details import draw_row_details
from llm_lite.desktop.views.attention.unkept import draw_unkept
from llm_lite.desktop.views.attention.zoom import MapZoom, use_pointer, whole, zoom_of
from llm_lite.desktop.views.save import draw_save
from llm_lite.desktop.widgets.controls import line_slider, toggle
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_ZOOM_OUT
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, text, wrapped

DETAILS = 48  # units of height for the numbers of the row
EMPTY = mark("Click a head in the grid of the Attention view. Up to four are shown side by side.")
TEACHES = mark(
    "How to read a map: each row is a token, and each column a token that it looks at. A line "
    "along the diagonal means that the head looks at the token before; an upright line means that "
    "all look at one token."
)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the maps of one frame have in common; sizes in pixels."""

    window: MapWindow
    labels: AxisLabels
    side: float
    edge: float  # room of the axes
    worded: bool  # these say tokens, not positions
    title: float
    columns: int
    row: float  # height of a row of maps


def draw(state: AppState, ui: Ui) -> list[Action]:
    """The panel; the large view has it in its place."""
    if state.attention.large:
        wrapped(ui, tr("The heads are shown in the large view."))
        return []
    choice, actions = draw_panel(state, ui)
    return [*actions, SetAttention(choice)] if choice != state.attention else actions


def draw_panel(state: AppState, ui: Ui) -> tuple[AttentionChoice, list[Action]]:
    maps, choice = ui.maps, state.attention
    problem = problem_of(state, maps) if maps else tr(EMPTY)
    if maps is None or problem or not choice.locked:
        text(ui, tr("Heads"), bold=True)
        wrapped(ui, problem or tr(EMPTY))
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        wrapped(ui, tr(TEACHES), "faint")
        if maps is not None and not problem and maps.rows:
            imgui.dummy(ImVec2(0, ui.u(1)))
            example = (len(maps.layers) // 2, 0)
            label = tr("Show layer {layer}, head {head}")
            label = label.format(layer=example[0], head=example[1])
            if button(ui, "head.example", label):
                choice = choice.toggled(example)
        return choice, []
    if not maps.rows:
        text(ui, tr("Heads"), bold=True)
        return choice, draw_unkept(state, ui, "head")
    maps.use(color_scale_of(choice, ui))
    zoom = zoom_of(ui)
    shown = _fit(choice, ui, labels_of(state), zoom.window(maps))
    choice = _draw_heads(choice, ui, maps, shown, zoom)
    choice, actions = _draw_foot(state, choice, ui, maps, shown, zoom)
    if choice.large:
        choice, asked = draw_row_details(state, choice, ui, maps)
        actions = actions + asked
    redraw(state, ui, maps)
    return choice, actions


def _fit(choice: AttentionChoice, ui: Ui, labels: AxisLabels, window: MapWindow) -> _Shown:
    """The largest squares that leave room for labels, bar and foot."""
    room, title = imgui.get_content_region_avail(), ui.u(7)
    across, down = room.x - bar_width(ui), room.y - ui.u(12)
    if choice.large:
        down -= min(ui.u(DETAILS), room.y * 0.4)
    columns, rows = arrange(len(choice.locked), across / max(down, 1.0))
    width = (across - ui.u(3) * columns) / columns
    height = (down - (title + ui.u(1)) * rows) / rows
    each = min(width, height) / window.longest
    for worded in (True, False) if each >= ui.theme.size("small") else (False,):
        edge = gutter(ui, labels, window, worded)
        side = float(int(max(min(width, height) - edge, ui.u(16))))
        if worded and side / window.longest >= ui.theme.size("small") * 0.95:
            break
    row = title + edge + side + ui.u(1)
    return _Shown(window, labels, side, edge, worded, title, columns, row)


def arrange(count: int, ratio: float) -> tuple[int, int]:
    """Columns and rows in which so many squares are largest in a room of width / height `ratio`."""
    columns = max(range(1, count + 1), key=lambda n: min(ratio / n, 1 / -(-count // n)))
    return columns, -(-count // columns)


def _draw_heads(
    choice: AttentionChoice, ui: Ui, maps: HeadMaps, shown: _Shown, zoom: MapZoom
) -> AttentionChoice:
    top = imgui.get_cursor_screen_pos()
    step = shown.edge + shown.side + ui.u(3)
    for number, head in enumerate(choice.locked):
        row, column = divmod(number, shown.columns)
        imgui.set_cursor_screen_pos(ImVec2(top.x + column * step, top.y + row * shown.row))
        choice = _draw_head(choice, ui, maps, head, shown, zoom)
    imgui.set_cursor_screen_pos(top)
    if not choice.large:
        imgui.dummy(ImVec2(0, ui.u(7)))
        choice = draw_scale(choice, ui, "head")
    bar = ImVec2(top.x + step * shown.columns, top.y + shown.title + shown.edge)
    draw_upright_bar(choice, ui, bar, shown.side, imgui.get_window_draw_list())
    rows = -(-len(choice.locked) // shown.columns)
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + rows * shown.row - ui.u(1)))
    imgui.dummy(ImVec2(0, 0))
    return choice


def _draw_head(
    choice: AttentionChoice, ui: Ui, maps: HeadMaps, head: Head, shown: _Shown, zoom: MapZoom
) -> AttentionChoice:
    name, window, side = f"head.{head[0]}.{head[1]}", shown.window, shown.side
    top = imgui.get_cursor_screen_pos()
    imgui.set_cursor_screen_pos(ImVec2(top.x + shown.edge, top.y + ui.u(1)))
    text(ui, tr("Layer {layer}, head {head}").format(layer=head[0], head=head[1]), bold=True)
    imgui.same_line(0, ui.u(1))
    hint = tr("Remove this head")
    if icon_button(ui, f"{name}.close", ICON_CLOSE, hint, side=ui.u(5), style="small"):
        choice = choice.toggled(head)
    at = ImVec2(top.x + shown.edge, top.y + shown.title + shown.edge)
    axes = shown.labels if shown.worded else None
    draw_axes(ui, axes, window, at, side, shown.edge, choice.row, imgui.get_window_draw_list())
    imgui.set_cursor_screen_pos(at)
    picture = draw_map(ui, maps, name, head, window, side, marked=choice.row)
    imgui.set_cursor_screen_pos(at)
    imgui.invisible_button(name, ImVec2(side, side))
    ui.mark(name)
    causal, lost = maps.layers[head[0]].is_causal, picture.missing
    pair = draw_pointer(ui, maps, name, shown.labels, window, at, side, lost, causal=causal)
    use_pointer(zoom, maps, at, side)
    if pair and imgui.is_mouse_double_clicked(0):
        choice = replace(choice, row=pair[0])
    return choice


def _draw_foot(
    state: AppState,
    choice: AttentionChoice,
    ui: Ui,
    maps: HeadMaps,
    shown: _Shown,
    zoom: MapZoom,
) -> tuple[AttentionChoice, list[Action]]:
    """Follow the newest token, or go back to any; what part of the text is shown."""
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    hint = tr("Show the newest token; off: mark the row of one token and hide what came later")
    live = toggle(ui, "head.live", tr("Live"), choice.row is None, hint)
    last = maps.length - 1
    row = min(last if choice.row is None else choice.row, last)
    imgui.same_line(0, ui.u(4))
    part = tr("{n:,} of {whole:,} tokens").format(n=len(shown.window.rows), whole=maps.length)
    with ui.font(style="small"):
        room = imgui.calc_text_size(part).x + ui.u(6 + 8)
    texts = shown.labels.rows
    label = texts[row] if row < len(texts) else ""
    words = f"{row:,}  “{visible(label)}”" if label else f"{row:,}"
    width = imgui.get_content_region_avail().x - room - ui.u(2)
    moved = line_slider(ui, "head.row", row, (0, max(last, 1)), words, width)
    imgui.same_line()
    imgui.set_cursor_pos_x(ui.right(room))
    text(ui, part, "muted", "small")
    if shown.window != whole(maps):
        imgui.same_line(0, ui.u(0.5))
        if icon_button(ui, "head.all", ICON_ZOOM_OUT, tr("Show all tokens"), side=ui.u(6)):
            zoom.show_all()
    imgui.same_line()
    imgui.set_cursor_pos_x(ui.right(ui.u(6)))
    actions = draw_save(state, ui, "heads", ui.u(6))
    if moved != row:
        if moved not in shown.window.rows:
            zoom.rows.set(moved - len(shown.window.rows) / 2, zoom.rows.count, maps.length)
        return replace(choice, row=moved), actions
    if live != (choice.row is None):
        return replace(choice, row=None if live else row), actions
    return choice, actions
