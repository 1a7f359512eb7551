"""The locked heads, large, side by side: tokens on both axes, zoom, and any moment of the text."""

from __future__ import annotations

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import AttentionRows, ReadAttentionRows
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention import state_head
from llm_lite.desktop.features.attention.coloring import (
    bar_width,
    color_scale_of,
    draw_scale,
    draw_upright_bar,
    redraw,
    scale_words,
)
from llm_lite.desktop.features.attention.map import (
    AxisLabels,
    Gutters,
    MapWindow,
    MapZoom,
    draw_axes,
    draw_head_map,
    draw_pointer,
    gutters,
    names_room,
    use_pointer,
    whole,
    zoom_of,
)
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import HEAD_ROWS, ROWS, is_held
from llm_lite.desktop.features.attention.state import PART_HINTS, PARTS, AttentionChoice, Head
from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.export_picture.view import draw_save
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import shown_weights
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.widgets.controls import chooser, line_slider, toggle
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_ZOOM_OUT
from llm_lite.desktop.widgets.plots.shares import share_bar, share_words
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, icon_button, text, tip, wrapped

LEAST_LINES = 3  # of a list: where fewer fit, there are none
WRITING = mark("While the answer is written, only rows that are marked are told in numbers.")
FOLLOW = mark("Click to mark its row.")
DETAILS = 48  # units of height for the numbers of the row
LEAST_LINE = 0.95  # of a line of small text, for a token on an axis
USED = mark(
    "The engine uses the cache for something else, such as a title. Maps of this conversation come "
    "back in a moment."
)
EMPTY = mark("Click a head in the grid of the Attention view. Up to four are shown side by side.")
TEACHES = mark(
    "How to read a map: each row is a token, and each column a token that it looks at. A line "
    "along the diagonal means that the head looks at the token before; an upright line means that "
    "all look at one token."
)
NO_TARGET = mark("Maps come with a target: write one in the chat pane.")
WHY = mark(
    "No queries are stored for this text: other weights or another executor read it, or "
    "it came from a saved cache. Maps begin with the next token, or with all of the text "
    "once it is read again."
)
NO_TEXT = mark("No queries are stored yet: write a text, and its maps appear.")


class Fitted(Struct, frozen=True):
    """The sizes of maps in a room, and their columns; pixels."""

    side: float
    gutter: float  # at most, for labels that are tokens; 0: labels are positions
    columns: int


class Around(Struct, frozen=True):
    """The space that maps need beside them, in pixels."""

    name: float  # of an axis: once at the left, and once at the top
    title: float  # above each map
    gap: float  # beside and below each map
    numbers: tuple[float, float]  # labels that are positions: once at the left, above each map
    words: tuple[float, float]  # labels that are tokens: at least, at most


class _Shown(Struct, frozen=True):
    """The layout that the maps of one frame share; sizes in pixels."""

    window: MapWindow
    labels: AxisLabels
    side: float
    room: Gutters  # of the labels
    worded: bool  # these say tokens, not positions
    columns: int
    around: Around

    def corner(self, number: int) -> tuple[float, float]:
        """Return where a map begins, from the corner of all maps."""
        row, column = divmod(number, self.columns)
        one = self.around
        x = one.name + self.room.left + column * (self.side + one.gap)
        each = one.title + self.room.top + self.side + one.gap
        return x, one.name + one.title + self.room.top + row * each

    @property
    def above(self) -> float:
        """Return the distance from a head's title to its map."""
        return self.around.title + self.room.top


def draw(state: AppState, ui: Ui) -> list[Action]:
    """Draw the panel, unless the large view shows it."""
    if state.attention.large:
        wrapped(ui, tr("The heads are shown in the large view."))
        return []
    choice, actions = draw_panel(state, ui)
    return [*actions, SetAttention(choice)] if choice != state.attention else actions


def draw_panel(state: AppState, ui: Ui) -> tuple[AttentionChoice, list[Action]]:
    maps, choice = ui.maps, state.attention
    if choice.state_head is not None and maps is not None:
        return state_head.draw_panel(state, choice, ui)
    problem = problem_of(state, maps) if maps else tr(EMPTY)
    if maps is not None and is_unread(state, maps):
        text(ui, tr("Heads"), bold=True)
        return choice, draw_unread(state, ui, "head")
    if maps is None or problem or not choice.locked:
        text(ui, tr("Heads"), bold=True)
        wrapped(ui, problem or tr(EMPTY))
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        wrapped(ui, tr(TEACHES), "faint")
        if maps is not None and not problem and maps.rows:
            imgui.dummy(ImVec2(0, ui.u(1)))
            attending = [at for at, layer in enumerate(maps.layers) if layer.heads]
            example = (attending[len(attending) // 2], 0)
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
    choice, asked = draw_row_details(state, choice, ui, maps)
    actions = actions + asked
    redraw(state, ui, maps)
    return choice, actions


def _fit(choice: AttentionChoice, ui: Ui, labels: AxisLabels, window: MapWindow) -> _Shown:
    """Fit the largest squares that leave room for labels, bar and foot."""
    room, small = imgui.get_content_region_avail(), ui.theme.size("small")
    down = room.y - ui.u(13) - small
    if choice.large:
        down -= min(ui.u(DETAILS), room.y * 0.4)
    numbers = gutters(ui, None, window, 0.0)
    around = Around(
        name=names_room(ui), title=ui.u(7), gap=ui.u(3), numbers=(numbers.left, numbers.top),
        words=(ui.u(9), ui.u(24)),
    )  # fmt: skip
    needed = window.longest * small * LEAST_LINE
    across = room.x - bar_width(ui)
    fitted = fit_maps(len(choice.locked), (across, down), around, needed, ui.u(16))
    worded = fitted.gutter > 0
    beside = gutters(ui, labels, window, fitted.gutter) if worded else numbers
    return _Shown(window, labels, fitted.side, beside, worded, fitted.columns, around)


def fit_maps(
    count: int, room: tuple[float, float], around: Around, worded: float, least: float
) -> Fitted:
    """Return how large `count` maps can be in a `room` of so many pixels across and down; they are
    never smaller in a larger room. Tokens are written on the axes of maps of `worded` pixels or
    more."""
    found = (_fit_columns(n, count, room, around, worded, least) for n in range(1, count + 1))
    return max(found, key=lambda fitted: (fitted.side, fitted.gutter))


def _fit_columns(
    columns: int, count: int, room: tuple[float, float], around: Around, worded: float,
    least: float,
) -> Fitted:  # fmt: skip
    rows = -(-count // columns)
    across, down = (pixels - around.name for pixels in room)
    above = around.title + around.gap

    def largest(left: float, top: float) -> float:
        return min((across - left) / columns - around.gap, down / rows - above - top)

    gutter = min(
        across - columns * (worded + around.gap), down / rows - above - worded, around.words[1]
    )
    if gutter >= around.words[0]:
        return Fitted(float(int(largest(gutter, gutter))), gutter, columns)
    side = min(largest(*around.numbers), max(worded, least))
    return Fitted(float(int(max(side, least))), 0.0, columns)


def _draw_heads(
    choice: AttentionChoice, ui: Ui, maps: HeadMaps, shown: _Shown, zoom: MapZoom
) -> AttentionChoice:
    top, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
    heads = choice.locked
    for number, head in enumerate(heads):
        x, y = shown.corner(number)
        at = ImVec2(top.x + x, top.y + y)
        first, uppermost = number % shown.columns == 0, number < shown.columns
        _draw_head_axes(choice, ui, shown, at, first=first, uppermost=uppermost)
        above = shown.above + (shown.around.name if uppermost else 0.0)
        choice = _draw_title(choice, ui, head, ImVec2(at.x, at.y - above), shown.side)
        choice = _draw_head(choice, ui, maps, head, shown, zoom, at)
    imgui.set_cursor_screen_pos(top)
    if not choice.large:
        imgui.dummy(ImVec2(0, ui.u(7)))
        choice = draw_scale(choice, ui, "head")
    right = top.x + shown.corner(shown.columns - 1)[0] + shown.side + ui.u(2)
    bar = ImVec2(right, top.y + shown.corner(0)[1])
    draw_upright_bar(choice, ui, bar, shown.side, imgui.get_window_draw_list())
    bottom = top.y + shown.corner(len(heads) - 1)[1] + shown.side
    _draw_scale_name(choice, ui, right + bar_width(ui), bottom + ui.u(1))
    imgui.set_cursor_screen_pos(ImVec2(top.x, bottom + ui.u(1.5) + small))
    imgui.dummy(ImVec2(0, 0))
    return choice


def _draw_scale_name(choice: AttentionChoice, ui: Ui, right: float, y: float) -> None:
    """Draw what the colours are below their bar, which ends at `right`."""
    words = scale_words(choice)
    with ui.font(style="small"):
        wide = imgui.calc_text_size(words).x
    left = imgui.get_window_pos().x + imgui.get_cursor_pos_x()
    imgui.set_cursor_screen_pos(ImVec2(max(right - wide, left), y))
    text(ui, words, "muted", "small")
    ui.mark("head.scale")


def _draw_head_axes(
    choice: AttentionChoice, ui: Ui, shown: _Shown, at: ImVec2, *, first: bool, uppermost: bool
) -> None:
    axes, draw = shown.labels if shown.worded else None, imgui.get_window_draw_list()
    draw_axes(ui, axes, shown.window, at, shown.side, shown.room, choice.row, draw,
              first=first, uppermost=uppermost)  # fmt: skip


def _draw_title(
    choice: AttentionChoice, ui: Ui, head: Head, at: ImVec2, width: float
) -> AttentionChoice:
    """Draw which head it is, and the button that removes it."""
    close = ui.u(5)
    words = tr("Layer {layer}, head {head}").format(layer=head[0], head=head[1])
    with ui.font("bold"):
        if imgui.calc_text_size(words).x > width - close - ui.u(1):
            words = f"L{head[0]} H{head[1]}"
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(1)))
    text(ui, words, bold=True)
    imgui.same_line(0, ui.u(1))
    name, hint = f"head.{head[0]}.{head[1]}.close", tr("Remove this head")
    gone = icon_button(ui, name, ICON_CLOSE, hint, side=close, style="small")
    return choice.toggled(head) if gone else choice


def _draw_head(
    choice: AttentionChoice, ui: Ui, maps: HeadMaps, head: Head, shown: _Shown, zoom: MapZoom,
    at: ImVec2,
) -> AttentionChoice:  # fmt: skip
    """Draw a map, whose corner is `at`."""
    name, window, side = f"head.{head[0]}.{head[1]}", shown.window, shown.side
    imgui.set_cursor_screen_pos(at)
    picture = draw_head_map(ui, maps, name, head, window, side, marked=choice.row)
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


def draw_row_details(
    state: AppState, choice: AttentionChoice, ui: Ui, maps: HeadMaps
) -> tuple[AttentionChoice, list[Action]]:
    """Draw the weights of a row in what is left of the window; return another choice where a token
    was clicked on."""
    line = ui.theme.size("small") + ui.u(2)
    lines = int((imgui.get_content_region_avail().y - ui.u(18)) / line)
    if lines < LEAST_LINES:
        return choice, []
    row = maps.length - 1 if choice.row is None else min(choice.row, maps.length - 1)
    labels = labels_of(state)
    label = labels.rows[row] if row < len(labels.rows) else ""
    imgui.dummy(ImVec2(0, ui.u(1)))
    title = tr("What “{label}” at {n:,} looks at most")
    text(ui, title.format(label=visible(label), n=row), bold=True)
    if row not in maps.rows:
        wrapped(ui, tr("Not computed: the query of this token is not kept."))
        return choice, []
    if state.running and choice.row is None:
        wrapped(ui, tr(WRITING))
        return choice, []
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    wide = room / max(len(choice.locked), 2)
    found = rows_of_heads(state, row)
    for place, head in enumerate(choice.locked):
        corner = ImVec2(top.x + place * wide, top.y + ui.u(1))
        imgui.set_cursor_screen_pos(corner)
        choice = _draw_details_head(
            state, choice, ui, head, found.get(head), min(wide - ui.u(6), ui.u(90)), lines
        )
    return choice, _ask_row(state, choice, row, found)


def rows_of_heads(state: AppState, row: int) -> dict[Head, AttentionRows]:
    """Return what was read of the token at a row, by head of the part that is shown."""
    known, part = HEAD_ROWS.answer(state) or {}, state.attention.part
    return {head: rows for (of, head), rows in known.items() if of == part and rows.position == row}


def _ask_row(
    state: AppState, choice: AttentionChoice, row: int, found: dict[Head, AttentionRows]
) -> list[Action]:
    """Ask for one head after the other: the engine keeps one request of this kind."""
    missing = next((head for head in choice.locked if head not in found), None)
    waits = ROWS.waiting(state) is not None  # of this kind the engine keeps the newest alone
    if missing is None or waits or not is_held(state, row):
        return []
    part = state.attention.part
    return HEAD_ROWS.wanted(state, ReadAttentionRows(row, "from", "heads", (missing,), part=part))


def largest(rows: AttentionRows, choice: AttentionChoice, most: int) -> list[tuple[int, float]]:
    """Return positions and their weights, the largest first."""
    weights = shown_weights(rows, choice)
    order = np.argsort(-weights, kind="stable")[:most].tolist()
    return [(at, float(weights[at])) for at in order if weights[at] > 0]


def _draw_details_head(
    state: AppState, choice: AttentionChoice, ui: Ui, head: Head, rows: AttentionRows | None,
    width: float, lines: int,
) -> AttentionChoice:  # fmt: skip
    corner = imgui.get_cursor_screen_pos()
    words = tr("Layer {layer}, head {head}").format(layer=head[0], head=head[1])
    text(ui, words, "muted", "small")
    _draw_column_names(ui, corner, width)
    if rows is None:
        return choice
    if not rows.weights:
        imgui.set_cursor_screen_pos(ImVec2(corner.x, corner.y + ui.u(6)))
        imgui.begin_group()
        text(ui, fit(rows.note, width), "muted", "small")
        imgui.end_group()
        return choice
    found = largest(rows, choice, lines)
    step = ui.theme.size("small") + ui.u(2)
    for number, (position, share) in enumerate(found):
        y = corner.y + ui.u(6) + number * step
        name = f"row.{head[0]}.{head[1]}.{number}"
        imgui.set_cursor_screen_pos(ImVec2(corner.x, y))
        if imgui.invisible_button(name, ImVec2(width, step)) and choice.part != "cross":
            choice = replace(choice, row=position)
        ui.mark(name)
        if imgui.is_item_hovered():
            end = ImVec2(corner.x + width, y + step)
            low = ImVec2(corner.x - ui.u(1), y)
            imgui.get_window_draw_list().add_rect_filled(low, end, ui.color("hover"), ui.u(1))
        if choice.part != "cross":
            tip(ui, tr(FOLLOW))
        _draw_line(state, ui, name, (corner.x, y + ui.u(1)), position, share, width)
    return choice


def _bar_width(ui: Ui, width: float) -> float:
    """Return the width of a bar's track in a list so many pixels wide."""
    return min(max(width * 0.35, ui.u(16)), ui.u(40))


def _draw_column_names(ui: Ui, corner: ImVec2, width: float) -> None:
    """Draw on the line of the head's name what the bars are parts of, and what the numbers are."""
    with ui.font(style="small"):
        name, whole = tr("position"), tr("of 100 %")
        right = corner.x + width - imgui.calc_text_size(name).x - ui.u(1)
        bar = corner.x + ui.u(12) + _bar_width(ui, width)
        draw, color = imgui.get_window_draw_list(), ui.color("faint")
        draw.add_text(ImVec2(round(right), corner.y), color, name)
        x = bar - imgui.calc_text_size(whole).x
        if x > imgui.get_item_rect_max().x + ui.u(1):
            draw.add_text(ImVec2(round(x), corner.y), color, whole)


def _draw_line(
    state: AppState, ui: Ui, name: str, at: tuple[float, float], position: int, share: float,
    width: float,
) -> None:  # fmt: skip
    labels = labels_of(state).columns
    label = labels[position] if position < len(labels) else ""
    bar = _bar_width(ui, width)
    imgui.set_cursor_screen_pos(ImVec2(*at))
    text(ui, share_words(share), style="small")
    imgui.set_cursor_screen_pos(ImVec2(at[0] + ui.u(12), at[1] + ui.u(1.25)))
    share_bar(ui, f"{name}.bar", share, bar, ui.u(1))
    imgui.set_cursor_screen_pos(ImVec2(at[0] + ui.u(15) + bar, at[1]))
    with ui.font(style="small"):
        words = fit(visible(label, 40), max(width - ui.u(26) - bar, ui.u(8)))
    text(ui, words, style="small")
    with ui.font(style="small"):
        number = f"{position:,}"
        imgui.set_cursor_screen_pos(
            ImVec2(at[0] + width - imgui.calc_text_size(number).x - ui.u(1), at[1])
        )
    text(ui, number, "faint", "small")


def draw_parts(choice: AttentionChoice, state: AppState, ui: Ui) -> AttentionChoice:
    """Draw the choice of a part of an encoder-decoder; draw nothing for other models."""
    if not state.writes_targets:
        return choice
    hints = [tr(hint) for hint in PART_HINTS]
    part = chooser(ui, "attention.part", tr_labels(PARTS), choice.part, hints)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    return choice.showing(part)


def problem_of(state: AppState, maps: HeadMaps) -> str:
    """Return why there are no maps, as a sentence; "" where there are."""
    written = maps.length >= 2 and bool(state.translating.asked)
    waits = state.writes_targets and maps.layers and not written
    if waits:
        return tr(NO_TARGET)
    if maps.layers and maps.length < 2 <= state.context_used and not state.elsewhere:
        return tr(USED)
    return maps.problem


def labels_of(state: AppState) -> AxisLabels:
    """Return the texts of the tokens that maps have rows and columns of."""
    part = state.attention.part
    if not state.writes_targets or part == "decoder":
        return AxisLabels(state.positions, state.positions)
    source = tuple(token.text for token in state.translating.source)
    return AxisLabels(source if part == "encoder" else state.positions, source)


def is_unread(state: AppState, maps: HeadMaps) -> bool:
    """Return whether the cache holds too little of the conversation in front for a map."""
    return bool(maps.layers) and maps.length < 2 and unread_part(state) is not None


def draw_unkept(state: AppState, ui: Ui, name: str) -> list[Action]:
    if state.encodes:
        wrapped(ui, tr(NO_TEXT))
        return []
    if state.reading is None and unread_part(state, ui.maps) is None:
        wrapped(ui, tr(WHY))
        return []
    return draw_unread(state, ui, name, ui.maps)
