"""A head of a recurrent state, large: what each token reads of what earlier ones wrote, and over
the tokens what it keeps, how far they write, and how large the state is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from imgui_bundle import ImVec2, imgui, implot
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.messages import ReadStates, StatesRead
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.map import (
    AxisLabels,
    draw_axes,
    draw_cross,
    gutters,
    label_of,
    mark_row,
    names_room,
    square,
)
from llm_lite.desktop.features.attention.rows import is_held
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.attention.state_cells import (
    STATES,
    lives_of,
    shown_life,
    state_words,
)
from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.icons import ICON_CLOSE
from llm_lite.desktop.widgets.pixel_image import PixelImage
from llm_lite.desktop.widgets.plots.axes import Axis, from_zero, line_spec, plot, series
from llm_lite.desktop.widgets.plots.legend import LegendEntry, draw_legend
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, help_mark, icon_button, text, tip, wrapped

READS, WROTE = mark("Reading token"), mark("Token that wrote")
LOWEST = 1e-3  # share of the first colour; the last one is all that is read
FOR, AGAINST = 0, 5  # colours of the theme's series
KEPT, WRITTEN, NORM = 1, 2, 3  # likewise
MOST, LEAST = 90.0, 32.0  # of the map's side, in spacing units
IN_SIGHT = 0.6  # of the panel's height, for it
WIDEST = 110.0  # of the list
BESIDE = 60.0  # room that list and curves need beside the map
SHARP = 512  # pixels that the image of a map has at least
LEAST_LINE = 0.95  # of a line of small text, for a token on an axis
PLOT = 22.0  # height
LISTED = 5
ABOUT = mark(
    "This layer does not look back at tokens: each head keeps one matrix, its state. A token first "
    "lets it decay, then moves it towards a value of its own (the gated delta rule), and reads it "
    "with its query. As all that is linear, what is read can be taken apart again by the token "
    "that wrote it: a row of this map adds up to 100 %, with what was read of the text before. "
    "Parts can be below 0: they work against the rest."
)
READING = mark("Reading the state: its tokens run once more.")
SOON = mark("It is read once the answer is written.")
NOTHING = mark("There is nothing in it yet: say something in the chat.")
LATER = mark("Of tokens {first:,} to {last:,}: it is read again once the answer is written.")
CURVES = (
    (KEPT, mark("Kept"), mark("What a token leaves of the state: 1 keeps all, 0 forgets all.")),
    (WRITTEN, mark("Written"), mark("How far a token moves the state towards its value (beta).")),
    (NORM, mark("Size"), mark("How large the state is behind each token (Frobenius norm).")),
)
Floats = NDArray[np.float32]


class StateMap(Struct):
    """The map that was drawn last, and what it was made of."""

    image: PixelImage = field(default_factory=PixelImage)
    read: StatesRead | None = None
    colors: tuple[int, ...] = ()
    zoom: int = 1  # pixels of the image to a token


def requests(state: AppState, choice: AttentionChoice) -> list[Action]:
    """Return the request for the head that is shown, or for the first one, as the grid needs what
    comes with it of all; none while an answer is written, as tokens run once more for them."""
    model = state.model
    if model is None or not model.delta_layers or state.running or not state.is_inspected:
        return []
    if not state.context_used or not is_held(state, state.context_used - 1):
        return []
    head = choice.state_head or (model.delta_layers[0], 0)
    return STATES.wanted(state, ReadStates(*head))


def draw_panel(
    state: AppState, choice: AttentionChoice, ui: Ui
) -> tuple[AttentionChoice, list[Action]]:
    """Draw the head that is chosen."""
    head = choice.state_head
    assert head is not None
    text(ui, state_words(head), bold=True)
    imgui.same_line(0, ui.u(1))
    if icon_button(ui, "state.close", ICON_CLOSE, tr("Remove this head"), side=ui.u(5)):
        return replace(choice, state_head=None), []
    help_mark(ui, tr(ABOUT))
    if ui.maps is not None and not state.is_inspected:  # a server has not answered yet
        wrapped(ui, ui.maps.problem)
        return choice, []
    actions, read = requests(state, choice), STATES.answer(state)
    if read is None or (read.layer, read.head) != head:
        if unread_part(state) is not None and not STATES.problem(state):
            return choice, actions + draw_unread(state, ui, "state")
        wrapped(ui, STATES.problem(state) or tr(why_none(state)))
        return choice, actions
    _draw_facts(state, ui, read)
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
    choice, right = _draw_map(state, choice, ui, read)
    beside = top.x + room.x - right - ui.u(6)
    if beside > ui.u(BESIDE):
        imgui.set_cursor_screen_pos(ImVec2(right + ui.u(6), top.y))
        imgui.begin_child("state.beside", ImVec2(beside, room.y), FLAT)
        choice = _draw_list(state, choice, ui, read)
        _draw_curves(ui, read)
        imgui.end_child()
        return choice, actions
    imgui.dummy(ImVec2(0, ui.u(1)))
    choice = _draw_list(state, choice, ui, read)
    _draw_curves(ui, read)
    return choice, actions


def why_none(state: AppState) -> str:
    """Return why nothing is shown of a state, as a sentence to be translated."""
    if state.running:
        return SOON
    if state.context_used and is_held(state, state.context_used - 1):
        return READING
    return NOTHING


def _draw_facts(state: AppState, ui: Ui, read: StatesRead) -> None:
    last = read.first + len(read.kept) - 1
    if state.running:
        wrapped(ui, tr(LATER).format(first=read.first, last=last))
        return
    life = shown_life(lives_of(read, read.layer)[read.head])
    words = tr("Tokens {first:,} to {last:,}; half is forgotten after {n} tokens.")
    wrapped(ui, words.format(first=read.first, last=last, n=life))


def _draw_map(
    state: AppState, choice: AttentionChoice, ui: Ui, read: StatesRead
) -> tuple[AttentionChoice, float]:
    """Draw the map, and beside it a column of what was read of the text before; a click marks a
    row. Return its right edge, too."""
    count, row = len(read.kept), _row_of(choice, read)
    window, every = square(range(read.first, read.first + count)), state.positions
    labels: AxisLabels | None = AxisLabels(every, every)
    room, name = imgui.get_content_region_avail().x, names_room(ui)
    strip = ui.u(5) if read.first else 0.0
    least = ui.theme.size("small") * LEAST_LINE
    around = gutters(ui, labels, window, ui.u(16))
    side = _side(ui, room - name - around.left - strip)
    if side < least * count:  # no room for words
        labels, around = None, gutters(ui, None, window, 0.0)
        side = _side(ui, room - name - around.left - strip)
    top, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    at = ImVec2(top.x + name + around.left, top.y + name + around.top)
    names = (READS, WROTE)
    draw_axes(ui, labels, window, at, side, around, row, draw, names=names)
    _draw_pixels(ui, _map_of(ui, read), at, side, strip)
    mark_row(ui, at, side, window.rows, row, draw, dims=False)
    imgui.set_cursor_screen_pos(at)
    imgui.invisible_button("state.map", ImVec2(side + strip, side))
    ui.mark("state.map")
    pair = _draw_pointer(ui, read, every, at, side)
    if pair and imgui.is_mouse_clicked(0):
        choice = replace(choice, row=pair[0])
    imgui.set_cursor_screen_pos(ImVec2(top.x, at.y + side + ui.u(1.5)))
    _draw_key(ui, strip > 0)
    return choice, at.x + side + strip


def _side(ui: Ui, room: float) -> float:
    """Return whole pixels of the map's side, with a gap behind it; most of it is in sight at
    once."""
    tall = imgui.get_window_height() * IN_SIGHT
    return float(int(min(max(min(room - ui.u(2), tall), ui.u(LEAST)), ui.u(MOST))))


def _row_of(choice: AttentionChoice, read: StatesRead) -> int:
    """Return the position of the row that is marked: the last one, where another is not there."""
    rows = range(read.first, read.first + len(read.kept))
    return choice.row if choice.row is not None and choice.row in rows else rows[-1]


def _map_of(ui: Ui, read: StatesRead) -> StateMap:
    """Return the map of what was read, drawn anew where that or the theme changed."""
    kept = ui.local(StateMap)
    kept.image.begin()
    palette = ui.theme.palette
    colors = (palette.sunken, palette.series[FOR], palette.series[AGAINST])
    if kept.read is not read or kept.colors != colors:
        shares = np.array(read.shares, np.float32)
        shares = np.concatenate([shares, np.array(read.of_start, np.float32)[:, None]], axis=1)
        zoom = -(-SHARP // len(shares))  # or neighbours would run into each other
        kept.image.write(colored(shares, colors).repeat(zoom, axis=0).repeat(zoom, axis=1))
        kept.zoom = zoom
        kept.read, kept.colors = read, colors
    return kept


def level(shares: Floats) -> Floats:
    """Return the strength of colours, 0 to 1, of shares of either sign: logarithmic, from LOWEST to
    all that is read."""
    with np.errstate(divide="ignore"):
        strength: Floats = np.clip(1 - np.log(np.abs(shares)) / np.log(np.float32(LOWEST)), 0, 1)
    return strength


def colored(shares: Floats, colors: tuple[int, int, int]) -> NDArray[np.uint32]:
    """Return packed pixels [rows, columns] of shares: between the paper, 0xRRGGBB, and the colour
    of what is for the whole, or of what is against it."""
    paper, positive, negative = (
        np.array([one >> at & 255 for at in (16, 8, 0)], np.float32) for one in colors
    )
    strength = level(shares)[..., None]
    ink = np.where(shares[..., None] < 0, negative, positive)
    rgb = np.rint(paper + strength * (ink - paper)).astype(np.uint32)
    packed = rgb[..., 0] | rgb[..., 1] << 8 | rgb[..., 2] << 16 | np.uint32(0xFF000000)
    return packed.astype(np.uint32)


def _draw_pixels(ui: Ui, shown: StateMap, at: ImVec2, side: float, strip: float) -> None:
    """Draw the map, and at its right the column of the text before."""
    assert shown.read is not None
    count, draw = len(shown.read.kept), imgui.get_window_draw_list()
    texture, low, high = shown.image.whole((count + 1) * shown.zoom, count * shown.zoom)
    edge = low[0] + (high[0] - low[0]) * count / (count + 1)
    end = ImVec2(at.x + side, at.y + side)
    draw.add_image(texture, at, end, ImVec2(*low), ImVec2(edge, high[1]))
    if strip:
        first, last = ImVec2(end.x + ui.u(1), at.y), ImVec2(end.x + strip, end.y)
        draw.add_image(texture, first, last, ImVec2(edge, low[1]), ImVec2(*high))


def _draw_pointer(
    ui: Ui, read: StatesRead, texts: Sequence[str], at: ImVec2, side: float
) -> tuple[int, int] | None:
    """Draw what is under the pointer in a tooltip; return row and column, by position, where that
    is a pair of the map or a row of the text before, column -1."""
    if not imgui.is_item_hovered():
        return None
    count, mouse = len(read.kept), imgui.get_mouse_pos()
    row = min(max(int((mouse.y - at.y) / side * count), 0), count - 1)
    column = int((mouse.x - at.x) / side * count)
    window = square(range(read.first, read.first + count))
    of_start = column >= count
    if not of_start:
        draw_cross(ui, window, at, side, (read.first + row, read.first + column))
    asked = label_of(texts, read.first + row)
    with ui.styled(window_padding=(ui.u(3), ui.u(2))):
        if imgui.begin_tooltip():
            if of_start:
                words = tr("{asked}  reads of the text before").format(asked=asked)
                value = read.of_start[row]
            else:
                wrote = label_of(texts, read.first + column)
                words = tr("{asked}  reads of  {wrote}").format(asked=asked, wrote=wrote)
                value = read.shares[row][column]
            text(ui, words, bold=True)
            places = tr("token {row:,} of token {column:,}")
            if of_start:
                places = tr("token {row:,} of tokens before {column:,}")
            place = read.first + (0 if of_start else column)
            text(ui, places.format(row=read.first + row, column=place), "muted", "small")
            later = not of_start and column > row
            text(ui, tr("A token cannot read what is written later.") if later else percents(value))
            imgui.end_tooltip()
    return read.first + row, -1 if of_start else read.first + column


def percents(share: float) -> str:
    """Return a share of either sign in percent."""
    shown = f"{abs(share):.1%}" if abs(share) >= LOWEST else f"{abs(share) * 100:.2g}%"
    return f"−{shown}" if share < 0 else shown


def _draw_key(ui: Ui, has_start: bool) -> None:
    """Draw what the colours stand for."""
    entries = [
        LegendEntry(ui.color_of_series(FOR), tr("part of what is read, logarithmic from 0.1 %")),
        LegendEntry(ui.color_of_series(AGAINST), tr("against the rest")),
    ]
    if has_start:
        words = tr("column at the right: of the text before")
        entries.append(LegendEntry(ui.color("muted"), words, "upright"))
    draw_legend(ui, "state.key", entries)


def _draw_list(
    state: AppState, choice: AttentionChoice, ui: Ui, read: StatesRead
) -> AttentionChoice:
    """Draw the tokens that the marked one reads most of; a click on one marks it."""
    row = _row_of(choice, read)
    words = tr("What “{label}” at {n:,} reads most")
    text(ui, words.format(label=visible(label_of(state.positions, row)), n=row), bold=True)
    room, step = imgui.get_content_region_avail().x, ui.theme.size("small") + ui.u(2)
    room = min(room, ui.u(WIDEST))
    draw, bar = imgui.get_window_draw_list(), min(ui.u(40), room * 0.35)
    top = imgui.get_cursor_screen_pos()
    found = largest(read, row)
    most = max((abs(share) for _, share in found), default=1.0)
    for number, (position, share) in enumerate(found):
        y = top.y + number * step
        imgui.set_cursor_screen_pos(ImVec2(top.x, y))
        name = f"state.row.{number}"
        if imgui.invisible_button(name, ImVec2(room, step)) and position is not None:
            choice = replace(choice, row=position)
        ui.mark(name)
        color = ui.color_of_series(AGAINST if share < 0 else FOR)
        left, middle = top.x + ui.u(13), y + ui.theme.size("small") / 2
        wide = max(bar * abs(share) / max(most, 1e-9), 1.0)
        low = ImVec2(left, middle - ui.u(0.5))
        draw.add_rect_filled(low, ImVec2(left + wide, middle + ui.u(0.5)), color)
        with ui.font(style="small"):
            place = f"{position:,}" if position is not None else ""
            end = top.x + room - imgui.calc_text_size(place).x - ui.u(1)
            token = tr("the text before")
            if position is not None:
                token = label_of(state.positions, position)
            after = left + bar + ui.u(2)
            draw.add_text(ImVec2(top.x, y), ui.color("text"), percents(share))
            draw.add_text(ImVec2(after, y), ui.color("text"), fit(token, end - after - ui.u(2)))
            draw.add_text(ImVec2(end, y), ui.color("faint"), place)
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + len(found) * step))
    imgui.dummy(ImVec2(room, ui.u(1)))
    return choice


def largest(read: StatesRead, row: int) -> list[tuple[int | None, float]]:
    """Return what a row reads most of, of either sign: (position, share), None for the text
    before."""
    at = row - read.first
    parts: list[tuple[int | None, float]] = [
        (read.first + column, share) for column, share in enumerate(read.shares[at][: at + 1])
    ]
    if read.first:
        parts.append((None, read.of_start[at]))
    return sorted(parts, key=lambda part: -abs(part[1]))[:LISTED]


def _draw_curves(ui: Ui, read: StatesRead) -> None:
    """Draw over the tokens what each keeps, how far it writes, and the size of the state."""
    positions = np.arange(read.first, read.first + len(read.kept), dtype=np.float64)
    ends = (float(positions[0]), float(max(positions[-1], positions[0] + 1)))
    x = Axis(tr("Token"), limits=ends)
    for (color, name, hint), values in zip(
        CURVES, (read.kept, read.written, read.norms), strict=True
    ):
        top = 1.0 if color != NORM else max(values)
        with plot(ui, f"state.{color}", x, from_zero(tr(name), "", top), PLOT) as shown:
            if shown:
                spec = line_spec(ui, series(ui, color))
                implot.plot_line(name, positions, np.array(values, np.float64), spec)
        tip(ui, tr(hint))
