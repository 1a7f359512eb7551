"""The grid: a live thumbnail of every head, to be compared, sorted and locked. A tooltip shows the
head under the pointer larger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention import heads as attention_head
from llm_lite.desktop.features.attention import state_head
from llm_lite.desktop.features.attention.coloring import (
    color_scale_of,
    draw_key,
    draw_scale,
    redraw,
)
from llm_lite.desktop.features.attention.heads import (
    draw_parts,
    draw_unkept,
    is_unread,
    problem_of,
)
from llm_lite.desktop.features.attention.map import draw_head_map, draw_missing, texture_of, whole
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.state import AttentionChoice, Head
from llm_lite.desktop.features.attention.state_cells import HEIGHT as STATE_HEIGHT
from llm_lite.desktop.features.attention.state_cells import draw_state_key, draw_states
from llm_lite.desktop.features.cache.unread import draw_unread
from llm_lite.desktop.features.export_picture.view import draw_save
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.by_keyboard import FLAT, cell, is_on_its_way
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.plots.head_grid import draw_names, gutter, head_columns
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text, tip, wrapped

MADE = mark("Maps are computed from stored queries and keys while they are shown.")
KEPT = mark(
    "Queries are kept up to a budget; rows older than that stay only where they have been drawn."
)
ORDERS = (("layer", mark("By layer")), *((name, score.label) for name, score in SCORES.items()))
EMPTY = mark(
    "In every layer each head looks back over the text with a question of its own and gathers "
    "what answers it. Its map has a row for every token that asks, and a column for every token "
    "that is looked at."
)
LITTLE = 16  # less than this part of the rows is not worth a line


LAST_SCORES = 3.0  # seconds without a new one, after which none is waited for


class GridControls(Struct):
    """The heads that pass the filters, kept with the layers and filters that they follow from."""

    hatched: bool = False  # rows of a thumbnail were missing when it was drawn
    layers: Sequence[AttentionLayer] | None = None
    filters: tuple[int | None, int | None] = (None, None)
    heads: list[Head] = field(default_factory=list)
    scored: tuple[int, int] = (0, 0)  # rows with scores, and tokens, of the last frame
    scored_at: float = 0.0  # when these changed


def draw(state: AppState, ui: Ui) -> list[Action]:
    maps = ui.maps
    if maps is not None and is_unread(state, maps):
        text(ui, tr("Attention"), bold=True)
        return draw_unread(state, ui, "attention")
    problem = problem_of(state, maps) if maps else tr("There is no device to draw maps with.")
    if maps is None or problem:
        text(ui, tr("Attention"), bold=True)
        choice = draw_parts(state.attention, state, ui)
        wrapped(ui, problem)
        imgui.dummy(ImVec2(0, ui.u(1)))
        wrapped(ui, tr(EMPTY), color="faint")
        actions = list[Action]()
        return [*actions, SetAttention(choice)] if choice != state.attention else actions
    if state.attention.large:
        choice, actions = _draw_large(state, ui, maps)
    else:
        choice, actions = draw_panel(state, ui, maps)
    return [*actions, SetAttention(choice)] if choice != state.attention else actions


def draw_panel(state: AppState, ui: Ui, maps: HeadMaps) -> tuple[AttentionChoice, list[Action]]:
    """Draw order, filters and grid in what is left of the window."""
    maps.use(color_scale_of(state.attention, ui))
    choice = draw_parts(state.attention, state, ui)
    if choice.part != state.attention.part:
        return choice, []  # its maps come with the next frame
    choice = _draw_bar(choice, ui, maps)
    if maps.rows:
        actions = [*_draw_kept(state, ui, maps), *state_head.requests(state, choice)]
        actions += draw_unread(state, ui, "attention", maps)
        choice = _draw_grid(state, choice, ui, maps)
    else:
        imgui.dummy(ImVec2(0, ui.u(1)))
        actions = draw_unkept(state, ui, "attention")
    redraw(state, ui, maps)
    return choice, actions


def _draw_large(state: AppState, ui: Ui, maps: HeadMaps) -> tuple[AttentionChoice, list[Action]]:
    """Draw grid and heads over the whole window, but for rail and status bar."""
    wrapped(ui, tr("The grid is shown in the large view."))
    view = imgui.get_main_viewport().size
    left, bottom = ui.rail_width, ui.status_height
    size = ImVec2(view.x - left, view.y - bottom)
    imgui.set_next_window_pos(ImVec2(left, 0))
    imgui.set_next_window_size(size)
    flags = imgui.WindowFlags_.no_decoration | imgui.WindowFlags_.no_docking
    flags |= imgui.WindowFlags_.no_saved_settings | imgui.WindowFlags_.no_move
    with ui.styled(window_padding=(ui.u(5), ui.u(4)), window_rounding=0.0):
        imgui.begin("##attention.large", None, flags)
    room = imgui.get_content_region_avail()
    with ui.styled(window_padding=(0.0, 0.0)):
        imgui.begin_child("large.grid", ImVec2(round(room.x * 0.38), room.y), FLAT)
        choice, saved = draw_panel(state, ui, maps)
        imgui.end_child()
        imgui.same_line(0, ui.u(6))
        imgui.begin_child("large.heads", ImVec2(0, room.y), FLAT)
        choice, actions = attention_head.draw_panel(replace(state, attention=choice), ui)
        imgui.end_child()
    imgui.end()
    return choice, saved + actions


def _draw_bar(choice: AttentionChoice, ui: Ui, maps: HeadMaps) -> AttentionChoice:
    """Draw order and filters at the left, colours and the large view at the right; filters stand
    below where it is narrow."""
    orders = tr_labels(ORDERS)
    room, buttons = imgui.get_content_region_avail().x, ui.u(16)
    narrow = room < ui.u(32 + 25 * 2 + 1.5 * 2) + buttons
    width = max(min(ui.u(32), room - buttons), ui.u(6))
    order = picker(ui, "attention.order", orders, choice.order, width, tr("Order of the heads"))
    choice = replace(choice, order=order)
    if narrow:
        return _draw_filters(draw_scale(choice, ui, "attention"), ui, maps, room)
    imgui.same_line(0, ui.u(1.5))
    return draw_scale(_draw_filters(choice, ui, maps, room), ui, "attention")


def _draw_filters(choice: AttentionChoice, ui: Ui, maps: HeadMaps, room: float) -> AttentionChoice:
    """Draw layer and group, side by side in `room` pixels."""
    width = min(ui.u(25), (room - ui.u(1.5)) / 2)
    layers = [
        ("", tr("All layers")),
        *((str(i), tr("Layer {i}").format(i=i)) for i in range(len(maps.layers))),
    ]
    value = "" if choice.layer is None else str(choice.layer)
    layer = picker(ui, "attention.layer", layers, value, width, tr("Show one layer"))
    imgui.same_line(0, ui.u(1.5))
    groups = max(one.kv_heads for one in maps.layers)
    named = [
        ("", tr("All groups")),
        *((str(i), tr("Group {i}").format(i=i)) for i in range(groups)),
    ]
    value = "" if choice.group is None else str(choice.group)
    hint = tr("Heads of a group share their keys and values")
    group = picker(ui, "attention.group", named, value, width, hint)
    return replace(choice, layer=int(layer) if layer else None, group=int(group) if group else None)


def _draw_kept(state: AppState, ui: Ui, maps: HeadMaps) -> list[Action]:
    """Draw which rows can still be computed, what all this takes, and the button that saves."""
    side = ui.u(6)
    rows, memory = maps.rows, maps.memory
    taken = size(memory["maps"] + memory["copies"])
    words = tr("Queries of tokens {first:,} to {last:,} take {memory}; maps take {taken}.")
    if not memory["queries"]:
        words = tr(
            "Maps of tokens {first:,} to {last:,}, as the server reports them, take {taken}."
        )
    words = words.format(
        first=rows.start, last=rows.stop - 1, memory=size(memory["queries"]), taken=taken
    )
    with ui.font(style="small"):
        words = fit(words, imgui.get_content_region_avail().x - side - ui.u(2))
    text(ui, words, "faint", "small")
    tip(ui, f"{tr(MADE)} {tr(KEPT)}")
    below, line = imgui.get_cursor_pos(), imgui.get_item_rect_size().y
    spacing = imgui.get_style().item_spacing.y
    imgui.set_cursor_pos((ui.right(side), below.y - spacing - (line + side) / 2))
    actions = draw_save(state, ui, "grid", side)
    imgui.set_cursor_pos(below)
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_grid(state: AppState, choice: AttentionChoice, ui: Ui, maps: HeadMaps) -> AttentionChoice:
    controls = ui.local(GridControls)
    hatched, controls.hatched = controls.hatched, False
    room = imgui.get_content_region_avail().x
    draw_key(choice, ui, groups_of(choice, maps), room, hatched)
    if shown_states(choice, maps) and state.model is not None and state.model.delta_layers:
        draw_state_key(choice, ui, room)
    header = imgui.get_cursor_screen_pos().y
    over = imgui.get_window_draw_list()
    if choice.order == "layer":
        imgui.dummy(ImVec2(0, ui.theme.size("small") - imgui.get_style().item_spacing.y))
    flags = imgui.WindowFlags_.no_saved_settings
    imgui.begin_child("grid", ImVec2(0, 0), FLAT, flags)
    heads, scores = ordered(choice, ui, maps)
    if scores is None:
        choice = _draw_rows(state, choice, ui, maps, heads, (over, header))
    else:
        choice = _draw_sorted(choice, ui, maps, heads, scores)
    imgui.end_child()
    return choice


def ordered(
    choice: AttentionChoice, ui: Ui, maps: HeadMaps
) -> tuple[list[Head], dict[Head, float] | None]:
    """Return the heads that pass the filters: by layer, or the highest score first, with the
    scores; those that have none come last."""
    heads = _heads(choice, ui, maps)
    if choice.order == "layer":
        return heads, None
    scores = _scores(choice.order, ui, maps)
    return sorted(heads, key=lambda head: (math.isnan(scores[head]), -scores[head], head)), scores


def _heads(choice: AttentionChoice, ui: Ui, maps: HeadMaps) -> list[Head]:
    """Return the heads that pass the filters, layer by layer. The list is kept: do not change
    it."""
    layers, filters = maps.layers, (choice.layer, choice.group)
    controls = ui.local(GridControls)
    if controls.layers is not layers or controls.filters != filters:
        controls.layers, controls.filters = layers, filters
        controls.heads = [
            (at, head)
            for at, layer in enumerate(layers)
            if choice.layer in (None, at)
            for head in range(layer.heads)
            if choice.group is None or choice.group == group_of(maps, (at, head))
        ]
    return controls.heads


def _follow_scores(ui: Ui, maps: HeadMaps, *, known: bool) -> None:
    """Ask for a frame while scores come in: rows without a query never have any."""
    controls, now = ui.local(GridControls), (maps.scored_rows, maps.length)
    if controls.scored != now:
        controls.scored, controls.scored_at = now, ui.now
    every = sum(layer.heads for layer in maps.layers) * len(maps.rows)
    comes = maps.pending or ui.now - controls.scored_at < LAST_SCORES
    if maps.scored_rows < every and comes:
        ui.redraw_in(0.7 if known else 0.05)


def _scores(name: str, ui: Ui, maps: HeadMaps) -> dict[Head, float]:
    """Return a score by head, nan where none is known."""
    heads = [(at, head) for at, layer in enumerate(maps.layers) for head in range(layer.heads)]
    scores = maps.scores(of_all=True)
    _follow_scores(ui, maps, known=scores is not None)
    if scores is None:
        return dict.fromkeys(heads, math.nan)
    return dict(zip(heads, scores[name].tolist(), strict=True))


def groups_of(choice: AttentionChoice, maps: HeadMaps) -> range:
    """Return the groups that the filters leave; none where every head has keys of its own, or all
    share."""
    layers = maps.layers if choice.layer is None else maps.layers[choice.layer : choice.layer + 1]
    shared = [one.kv_heads for one in layers if 1 < one.kv_heads < one.heads]
    if choice.group is not None:
        return range(choice.group, choice.group + 1) if shared else range(0)
    return range(max(shared, default=0))


def shown_states(choice: AttentionChoice, maps: HeadMaps) -> list[int]:
    """Return the layers with a recurrent state that the filters leave; none by scores, which are of
    maps."""
    if choice.group is not None or choice.order != "layer":
        return []
    layers = enumerate(maps.layers)
    return [at for at, one in layers if not one.attends and choice.layer in (None, at)]


def _draw_rows(
    state: AppState, choice: AttentionChoice, ui: Ui, maps: HeadMaps, heads: list[Head],
    over: tuple[imgui.ImDrawList, float],
) -> AttentionChoice:  # fmt: skip
    """Draw a row a layer, a column a head; `over` is where the axes' names and numbers of heads are
    drawn, which stay while the grid scrolls."""
    most = max((head for _, head in heads), default=0) + 1
    left, gap = gutter(ui), ui.u(0.75)
    room = imgui.get_content_region_avail().x - left
    columns = head_columns(ui, most, room)
    side = min(float(int(room / columns.count - gap)), ui.u(34))
    own = {layer: list(found) for layer, found in groupby(heads, key=lambda head: head[0])}
    layers = sorted([*own, *shown_states(choice, maps)])
    top = imgui.get_cursor_screen_pos()
    bottom = imgui.get_window_pos().y + imgui.get_window_height()
    draw_names(ui, over[0], (top.x, over[1]), bottom, "attention.names")
    whole = choice.group is None  # else a column is not one head
    if whole:
        _draw_numbers(ui, over, top.x + left, side + gap, columns.count)
    for layer in layers:
        mine = own.get(layer, [])
        at = imgui.get_cursor_screen_pos()
        height = -(-len(mine) // columns.count) * (side + gap) or ui.u(STATE_HEIGHT) + gap
        if _visible(at.y, height):
            labels = [f"{layer}", *(f"+{n}" for n in columns.offsets(len(mine))[1:] if whole)]
            tall = side if mine else ui.u(STATE_HEIGHT)
            for line, label in enumerate(labels):
                _draw_label(ui, label, (top.x, at.y + line * (side + gap)), left - gap, tall)
            if not mine:
                choice = draw_states(state, choice, ui, layer, (top.x + left, at.y), room - gap)
            for place, (_, head) in enumerate(mine):
                x = top.x + left + place % columns.count * (side + gap)
                y = at.y + place // columns.count * (side + gap)
                choice = draw_cell(choice, ui, maps, (layer, head), (x, y), side)
        imgui.set_cursor_screen_pos(at)
        imgui.dummy(ImVec2(room + left, height - imgui.get_style().item_spacing.y))
    return choice


def _draw_label(ui: Ui, words: str, at: tuple[float, float], room: float, side: float) -> None:
    """Draw a layer's number before its heads, or before further lines of them what is added to the
    numbers above the columns."""
    with ui.font(style="small"):
        x = at[0] + room - imgui.calc_text_size(words).x
        y = at[1] + (side - ui.theme.size("small")) / 2
        imgui.get_window_draw_list().add_text(ImVec2(x, y), ui.color("muted"), words)


def _draw_numbers(
    ui: Ui, over: tuple[imgui.ImDrawList, float], x: float, step: float, columns: int
) -> None:
    """Draw the numbers of heads above their columns."""
    draw, y = over
    with ui.font(style="small"):
        for head in range(columns):
            left = x + (head + 0.5) * step - imgui.calc_text_size(str(head)).x / 2
            draw.add_text(ImVec2(round(left), y), ui.color("muted"), str(head))
    ui.rects["attention.numbers"] = (x, y, x + columns * step, y + ui.theme.size("small"))


def _draw_sorted(
    choice: AttentionChoice,
    ui: Ui,
    maps: HeadMaps,
    heads: list[Head],
    scores: dict[Head, float],
) -> AttentionChoice:
    """Draw heads in the order of their scores, with the score under each."""
    gap, foot = ui.u(1.5), ui.theme.size("small") * 2.4
    room = imgui.get_content_region_avail().x
    columns = max(1, int((room + gap) / (ui.u(17) + gap)))
    side = float(int((room - gap * (columns - 1)) / columns))
    start = imgui.get_cursor_screen_pos()
    for place, head in enumerate(heads):
        x = start.x + place % columns * (side + gap)
        y = start.y + place // columns * (side + foot + gap)
        if _visible(y, side + foot):
            choice = draw_cell(choice, ui, maps, head, (x, y), side)
            _draw_foot(ui, head, shown_score(choice.order, scores[head]), (x, y + side))
    rows = -(-len(heads) // columns)
    imgui.set_cursor_screen_pos(start)
    imgui.dummy(ImVec2(room, max(1.0, rows * (side + foot + gap) - gap)))
    return choice


def _draw_foot(ui: Ui, head: Head, shown: str, at: tuple[float, float]) -> None:
    draw, size = imgui.get_window_draw_list(), ui.theme.size("small")
    with ui.font(style="small"):
        spot = ImVec2(at[0], at[1] + ui.u(0.5))
        draw.add_text(spot, ui.color("text"), f"L{head[0]} H{head[1]}")
        spot = ImVec2(at[0], at[1] + ui.u(0.5) + size)
        draw.add_text(spot, ui.color("muted"), shown)


def _visible(y: float, height: float) -> bool:
    """Return whether lines are in sight, or just outside while the keyboard could go there."""
    low = imgui.get_window_pos().y
    if is_on_its_way():
        y, height = y - height, 3 * height
    return y + height > low and y < low + imgui.get_window_height()


def draw_cell(
    choice: AttentionChoice,
    ui: Ui,
    maps: HeadMaps,
    head: Head,
    at: tuple[float, float],
    side: float,
) -> AttentionChoice:
    """Draw a thumbnail with a line in the colour of its group; a click locks it."""
    picture = maps.thumbnail(*head)
    draw = imgui.get_window_draw_list()
    rect = (*at, at[0] + side, at[1] + side)
    low, high = ImVec2(*rect[:2]), ImVec2(*rect[2:])
    draw.add_rect_filled(low, high, ui.color("sunken"))
    if any(last - first >= maps.length // LITTLE for first, last in picture.missing):
        causal = maps.layers[head[0]].is_causal
        draw_missing(ui, draw, low, side, range(maps.length), picture.missing, causal=causal)
        ui.local(GridControls).hatched = True
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
            ui.request("tab:head")
    if head in choice.locked or hovered:
        color = ui.color("accent" if head in choice.locked else "muted")
        draw.add_rect(low, high, color, 0.0, max(1.0, ui.u(0.5)))
    if hovered or (focused and imgui.get_io().nav_active):
        _draw_hover(choice, ui, maps, head)
    return choice


def _draw_hover(choice: AttentionChoice, ui: Ui, maps: HeadMaps, head: Head) -> None:
    """Draw the same map in a tooltip, larger, with its scores."""
    scores = maps.scores()
    _follow_scores(ui, maps, known=scores is not None)
    with ui.styled(window_padding=(ui.u(3), ui.u(3))):
        if not imgui.begin_tooltip():
            return
    side = ui.u(56)
    text(ui, head_words(head), bold=True)
    text(ui, tr("Key head {number}").format(number=group_of(maps, head)), "muted", "small")
    draw_head_map(ui, maps, "hover", head, whole(maps), side, marked=choice.row)
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
