"""A map of the conversation, beside the chat's header: click a message to go there."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.features.commands.keys import keys_of, with_keys
from llm_lite.desktop.features.history.model import RedoHistory, UndoHistory
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tree.model import ShowMessage
from llm_lite.desktop.features.tree.roles import speaker
from llm_lite.desktop.features.tree.tree_map import MapCell, TreeMap, tree_map
from llm_lite.desktop.features.undo.model import undo_label
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.icons import ICON_MAP, ICON_UNDO
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, popover, text, tip, wrapped


class Pen(Struct, frozen=True):
    """The place of the map on the screen, in pixels."""

    ui: Ui
    x: float
    y: float
    step: float  # between two rows, and two columns

    def spot(self, row: int, column: int) -> tuple[float, float]:
        """Return the middle of a cell."""
        half = self.step / 2
        return round(self.x + column * self.step + half), round(self.y + row * self.step + half)


MAP = "tree.map"
HINT = mark("A map of this conversation: every version of every message, and the way you are on")
TEACH = mark("Click a version to go there, or use the arrow keys and Enter.")
LINEAR = mark("Edit a question or regenerate an answer, and a branch appears here.")
TOO_MANY = mark("There are too many messages for a map.")
WIDTH, TALLEST = 108.0, 96.0  # units of the popover, and of the map in it
WORDED = 6  # columns beside which a row has room for words
WORDS = 160  # characters of a message that are read
MARKS = str.maketrans("", "", "*_`#")
KEY = imgui.Key


class HeldMap(Struct):
    """The map, with what is pointed at and unfolded, from frame to frame."""

    made: object = None  # what the map was made of
    found: TreeMap | None = None
    path: frozenset[int] = frozenset()  # ids of the messages that are shown
    by_index: tuple[int, ...] = ()  # the same, by index
    unfolded: set[int] = field(default_factory=set)
    at: int | None = None  # id of the cell that the keyboard is on
    chat: int = -1
    seek: bool = True  # scroll to it
    labels: dict[tuple[int, int], str] = field(default_factory=dict)  # by id and width
    corner: tuple[float, float] = (0.0, 0.0)  # right and top of the popover, in pixels


def map_width(ui: Ui) -> float:
    return float(ui.u(9))


def draw_map_button(state: AppState, ui: Ui) -> None:
    """Draw the button in the header."""
    on = imgui.is_popup_open(MAP)
    colors = {"button": "accent_soft" if on else "-", "text": "link" if on else "muted"}
    with ui.font(style="small"), ui.colored(**colors):
        clicked = imgui.button(f"{ICON_MAP}##{MAP}", ImVec2(map_width(ui), ui.u(7)))
    ui.mark("chat.map")
    high = imgui.get_item_rect_max()
    ui.local(HeldMap).corner = (high.x, high.y + ui.u(1))
    tip(ui, with_keys(tr(HINT), "map"))
    if clicked:
        ui.opened = MAP
        ui.local(HeldMap).seek = True


def draw_map(state: AppState, ui: Ui) -> list[Action]:
    """Draw the popover where it is open."""
    if ui.opened != MAP and not imgui.is_popup_open(MAP):
        return []
    held = ui.local(HeldMap)
    if ui.opened == MAP:
        held.seek, held.at = True, None
    right, top = held.corner
    width = ui.u(WIDTH)
    with popover(ui, MAP, tr("Map"), ImVec2(max(right - width, ui.u(2)), top), width) as shown:
        if not shown:
            return []
        found = _update(state, held)
        wrapped(ui, tr(TEACH) if found.beside else f"{tr(TEACH)} {tr(LINEAR)}")
        if not found.rows:
            wrapped(ui, tr(TOO_MANY))
            return []
        actions = _draw_tree(state, ui, held, found)
        return actions + _draw_undo(state, ui, found)


def _update(state: AppState, held: HeldMap) -> TreeMap:
    """Lay out the map again when messages come or go; while one grows, the map stays as it is."""
    if held.chat != state.chat:
        held.chat, held.at, held.unfolded, held.seek = state.chat, None, set(), True
    made: object = state.messages
    if state.running is not None:
        made = (state.running.started, len(state.messages))
    if held.found is None or not (made is held.made or _same_answer(made, held.made)):
        held.found = tree_map(state.tree, held.unfolded)
        held.by_index = tuple(message.id for message in state.messages)
        held.path = frozenset(held.by_index)
        held.labels = {}
        held.made = made
    if held.at not in held.found.places:
        held.at = next((k for k in reversed(held.by_index) if k in held.found.places), None)
    return held.found


def _same_answer(made: object, before: object) -> bool:
    """Return whether both describe the same running answer. Messages are not compared: that would
    cost more than the map."""
    short = isinstance(made, tuple) and isinstance(made[0], float)
    return short and made == before


def _draw_tree(state: AppState, ui: Ui, held: HeldMap, found: TreeMap) -> list[Action]:
    step = ui.u(6.5)
    height = min(len(found.rows) * step + ui.u(3), ui.u(TALLEST))
    size = imgui.get_main_viewport().size
    height = min(height, size.y * 0.6)
    flags = imgui.WindowFlags_.horizontal_scrollbar | imgui.WindowFlags_.no_nav
    with (
        ui.colored(child_bg="base"),
        ui.styled(window_padding=(0.0, 0.0), child_rounding=ui.u(1.5)),
    ):
        imgui.begin_child("tree", ImVec2(0, height), 0, flags)
    corner, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
    words = (min(found.columns, WORDED) + 0.5) * step + ui.u(2)
    wide = max((found.columns + 0.5) * step + ui.u(3), room.x)
    pen = Pen(ui, corner.x + ui.u(1.5), corner.y + ui.u(1.5), step)
    if held.seek:
        _scroll_to(held, found, step, room)
    actions = _keys(held, found)
    low, high = imgui.get_scroll_y(), imgui.get_scroll_y() + height
    first = max(0, int(low / step) - 1)
    last = min(len(found.rows), int(high / step) + 2)
    left = (imgui.get_scroll_x() / step) - 1
    right = left + room.x / step + 2
    _draw_lines(pen, held, found, (first, last), (left, right))
    for number in range(first, last):
        for cell in found.rows[number].between(left, right):
            actions += _draw_cell(state, ui, pen, held, found, number, cell)
        _draw_words(ui, pen, held, found, number, words, room.x)
    imgui.set_cursor_screen_pos(corner)
    imgui.dummy(ImVec2(wide, len(found.rows) * step + ui.u(2)))
    imgui.end_child()
    ui.mark(MAP + ".tree")
    return actions


def _scroll_to(held: HeldMap, found: TreeMap, step: float, room: ImVec2) -> None:
    """Bring the cell that the keyboard is on into sight."""
    held.seek = False
    place = found.places.get(held.at) if held.at is not None else None
    if place is None:
        return
    y, x = place[0] * step, (found.rows[place[0]].cells[place[1]].column) * step
    scroll = imgui.get_scroll_y()
    if not scroll + step < y < scroll + room.y - 2 * step:
        imgui.set_scroll_y(max(0.0, y - room.y / 2))
    scroll = imgui.get_scroll_x()
    if not scroll <= x < scroll + room.x - 2 * step:
        imgui.set_scroll_x(max(0.0, x - room.x / 2))


def _draw_lines(
    pen: Pen, held: HeldMap, found: TreeMap, rows: tuple[int, int], columns: tuple[float, float]
) -> None:
    """Draw the lines of all branches, then the path that is shown over them."""
    first, last = rows
    for number in range(first, last):
        row = found.rows[number]
        draw_forks(pen, number, row.forks)
        for cell in row.between(*columns):
            draw_link(pen, number, cell, lit=False)
    for number in range(max(first, 1), last):
        row = found.rows[number]
        key = held.by_index[row.cells[0].index] if row.cells[0].index < len(held.by_index) else 0
        place = found.places.get(key)
        if place is not None:
            draw_link(pen, number, row.cells[place[1]], lit=True)


def _draw_cell(
    state: AppState, ui: Ui, pen: Pen, held: HeldMap, found: TreeMap, number: int, cell: MapCell
) -> list[Action]:
    x, y = pen.spot(number, cell.column)
    half = pen.step / 2
    rect = ui.rects[f"{MAP}.{cell.id}"] = (x - half, y - half, x + half, y + half)
    lit = cell.id in held.path
    hovered = imgui.is_window_hovered() and ui.at_pointer(rect)
    draw_cell(pen, number, cell, lit=lit, hovered=hovered, held=held.at == cell.id)
    if not hovered:
        return []
    _draw_tip(state, ui, found, cell)
    if not imgui.is_mouse_clicked(0):
        return []
    held.at = cell.id
    return _go(held, cell)


def _go(held: HeldMap, cell: MapCell) -> list[Action]:
    if cell.count == 1:
        return [ShowMessage(cell.id)]
    held.unfolded.add(cell.index)
    held.made, held.seek = None, True
    return []


def _draw_words(
    ui: Ui, pen: Pen, held: HeldMap, found: TreeMap, number: int, left: float, room: float
) -> None:
    """Draw the first words of the message on the path that is shown, beside its row."""
    row = found.rows[number]
    index = row.cells[0].index
    if index >= len(held.by_index) or row.cells[-1].column >= WORDED:
        return
    key, count = held.by_index[index], row.cells[0].count
    width = room - left - ui.u(3)
    known = (key, int(width))
    if known not in held.labels:
        message = found.messages[key]
        words = first_words(message)
        if count > 1:
            words = trn("{n} message without a branch", "{n} messages without a branch", count)
            words = words.format(n=f"{count:,}")
        with ui.font(style="small"):
            held.labels[known] = fit(words, width).replace("……", "…")
    question = row.cells[0].count == 1 and found.messages[key].role != "assistant"
    small, (_, y) = ui.theme.size("small"), pen.spot(number, 0)
    spot = ImVec2(pen.x + left, round(y - small / 2))
    color = ui.color("text" if question else "muted")
    draw, font = imgui.get_window_draw_list(), ui.fonts["regular"]
    draw.add_text(font, small, spot, color, held.labels[known])


def first_words(message: Message) -> str:
    """Return the first words on one line, without Markdown's marks."""
    content = message.text or (message.thought.text if message.thought else "")
    words = " ".join(content[:WORDS].translate(MARKS).split())
    return (words + "…" if len(content) > WORDS else words) or tr("nothing yet")


def _draw_tip(state: AppState, ui: Ui, found: TreeMap, cell: MapCell) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    if cell.count > 1:
        words = trn("{n} message without a branch", "{n} messages without a branch", cell.count)
        text(ui, words.format(n=f"{cell.count:,}"), style="small", bold=True)
        text(ui, tr("Click to see each"), "muted", "small")
    else:
        message = found.messages[cell.id]
        if cell.index < len(state.messages) and state.messages[cell.index].id == cell.id:
            message = state.messages[cell.index]
        text(ui, _title(message), style="small", bold=True)
        imgui.dummy(ImVec2(ui.u(70), 0))
        wrapped(ui, first_words(message), "text")
    imgui.end_tooltip()


def _title(message: Message) -> str:
    if message.role == "assistant":
        writer = message.written.model.name if message.written else tr("Assistant")
        return tr("{writer}, edited by you").format(writer=writer) if message.edited else writer
    return speaker(message.role)


def _keys(held: HeldMap, found: TreeMap) -> list[Action]:
    """Arrows move over the map, Enter goes there."""
    place = found.places.get(held.at) if held.at is not None else None
    if place is None:
        return []
    number, which = place
    row, cell = found.rows[number], found.rows[number].cells[which]
    if imgui.is_key_pressed(KEY.enter, False) or imgui.is_key_pressed(KEY.keypad_enter, False):
        return _go(held, cell)
    wanted: MapCell | None = None
    if imgui.is_key_pressed(KEY.left_arrow) and which:
        wanted = row.cells[which - 1]
    elif imgui.is_key_pressed(KEY.right_arrow) and which + 1 < len(row.cells):
        wanted = row.cells[which + 1]
    elif imgui.is_key_pressed(KEY.up_arrow) and number:
        above = found.rows[number - 1].between(cell.above, cell.above)
        wanted = above[0] if above else None
    elif imgui.is_key_pressed(KEY.down_arrow) and number + 1 < len(found.rows):
        below = [c for c in found.rows[number + 1].cells if c.above == cell.column]
        wanted = next((c for c in below if c.id in held.path), below[0] if below else None)
    elif imgui.is_key_pressed(KEY.home):
        wanted = found.rows[0].cells[0]
    elif imgui.is_key_pressed(KEY.end):
        wanted = found.cell(held.by_index[-1])
    if wanted is not None:
        held.at, held.seek = wanted.id, True
    return []


def _draw_undo(state: AppState, ui: Ui, found: TreeMap) -> list[Action]:
    """Draw the buttons that undo and redo, with what they change."""
    actions: list[Action] = []
    for back, icon, words, action in (
        (True, ICON_UNDO, tr("Undo: {what}"), UndoHistory()),
        (False, "", tr("Redo: {what}"), RedoHistory()),
    ):
        label = undo_label(state, back)
        if not label:
            continue
        name = f"{MAP}.{'undo' if back else 'redo'}"
        keys = keys_of("undo" if back else "redo")
        with ui.font(style="small"):
            if button(ui, name, words.format(what=label), icon, keys):
                actions.append(action)
        imgui.same_line(0, ui.u(2))
    with ui.font(style="small"):
        count = found.beside
        words = trn("{n} message on other branches", "{n} messages on other branches", count)
        imgui.align_text_to_frame_padding()
        text(ui, words.format(n=f"{count:,}"), "muted", "small")
    return actions


def draw_forks(pen: Pen, row: int, forks: tuple[tuple[int, int], ...]) -> None:
    """Draw lines across, half a row above messages that stand beside each other."""
    draw, color = imgui.get_window_draw_list(), pen.ui.color("faint", 0.5)
    thick = max(1.0, pen.ui.u(0.4))
    for first, last in forks:
        x0, y = pen.spot(row, first)
        x1, _ = pen.spot(row, last)
        y -= round(pen.step / 2)
        draw.add_line(ImVec2(x0, y), ImVec2(x1, y), color, thick)


def draw_link(pen: Pen, row: int, cell: MapCell, *, lit: bool) -> None:
    """Draw the line from a message to the one that it follows."""
    if row == 0 and cell.column == 0:
        return
    ui, draw = pen.ui, imgui.get_window_draw_list()
    x, y = pen.spot(row, cell.column)
    above, half = max(cell.above, 0), round(pen.step / 2)
    color, thick = (
        ui.color("accent") if lit else ui.color("faint", 0.5),
        max(1.0, ui.u(0.6 if lit else 0.4)),
    )
    draw.add_line(ImVec2(x, y - half), ImVec2(x, y), color, thick)
    if row == 0:
        return
    x0, y0 = pen.spot(row - 1, above)
    if lit or cell.column == above:
        draw.add_line(ImVec2(x0, y0), ImVec2(x0, y - half), color, thick)
    if lit and cell.column != above:
        draw.add_line(ImVec2(x0, y - half), ImVec2(x, y - half), color, thick)


def draw_cell(pen: Pen, row: int, cell: MapCell, *, lit: bool, hovered: bool, held: bool) -> None:
    ui, draw = pen.ui, imgui.get_window_draw_list()
    x, y = pen.spot(row, cell.column)
    size = ui.u(1.6)
    fill = ui.color("accent" if lit else "faint")
    if cell.count > 1:  # a run of messages: three dots
        dot, gap = max(1.0, ui.u(0.5)), ui.u(1.4)
        draw.add_rect_filled(
            ImVec2(x - dot * 2, y - gap - dot * 2), ImVec2(x + dot * 2, y + gap + dot * 2),
            ui.color("base"),
        )  # fmt: skip
        for at in (-1, 0, 1):
            draw.add_circle_filled(ImVec2(x, y + at * gap), dot, fill)
    elif cell.role == "assistant":
        draw.add_circle_filled(ImVec2(x, y), size, fill)
    else:
        low, high = ImVec2(x - size, y - size), ImVec2(x + size, y + size)
        draw.add_rect_filled(low, high, ui.color("base"), ui.u(0.6))
        draw.add_rect(low, high, fill, ui.u(0.6), max(1.0, ui.u(0.5)))
        if cell.role not in ("user", "text"):  # a system's or a tool's
            draw.add_line(ImVec2(x - size, y), ImVec2(x + size, y), fill, max(1.0, ui.u(0.5)))
    if held or hovered:
        ring = ui.color("text" if held else "muted")
        draw.add_circle(ImVec2(x, y), size + ui.u(1), ring, 0, max(1.0, ui.u(0.4)))
