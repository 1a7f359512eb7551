"""The command palette: one input over everything, and below it what it finds."""

from __future__ import annotations

from dataclasses import field

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.window.palette import NoteChoice, SearchPalette
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.palette import finding
from llm_lite.desktop.views.palette.finding import Finding
from llm_lite.desktop.widgets.icons import ICON_SEARCH
from llm_lite.desktop.widgets.keycaps import draw_keys, keys_width
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

POPUP = "palette"
WIDTH, TOP = 150.0, 0.11  # in spacing units; share of the window above it
LINES = 11  # rows that are seen at once
LONGEST = 400  # characters of a query
KEY = imgui.Key
STILL = imgui.WindowFlags_.no_move | imgui.WindowFlags_.no_nav_inputs  # arrows are ours


@dataclass(slots=True)
class Held:
    """What is typed, what is found for it, and which row is chosen."""

    query: str = ""
    at: int = 0
    rows: list[Finding] = field(default_factory=list)
    made_of: object = None
    scroll: bool = False  # the chosen row is to be in sight
    field: int = 0  # the input is another one each time


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    if ui.opened == POPUP:
        ui.opened = ""
        if imgui.is_popup_open(POPUP):  # the same keys close it
            ui.memory[f"{POPUP}.close"] = True
        else:
            held: Held | None = ui.memory.get(POPUP)
            ui.memory[POPUP] = Held(field=held.field + 1 if held else 0)
            imgui.open_popup(POPUP)
            actions.append(SearchPalette(""))
    size, edge = imgui.get_main_viewport().size, ui.u(4)
    width = min(ui.u(WIDTH), size.x - 2 * edge)
    at = ImVec2(round((size.x - width) / 2), round(max(edge, size.y * TOP)))
    imgui.set_next_window_pos(at, imgui.Cond_.always)
    imgui.set_next_window_size(ImVec2(width, 0))
    spaces = ui.styled(window_padding=(0.0, 0.0), item_spacing=(0.0, 0.0))
    with spaces, ui.colored(border="faint"):  # it lies over everything
        shown = imgui.begin_popup(POPUP, STILL)
    if not shown:
        return actions
    try:
        return actions + _draw_inside(state, ui, width, size.y - at.y - edge)
    finally:
        low, size = imgui.get_window_pos(), imgui.get_window_size()
        ui.rects[POPUP] = (low.x, low.y, low.x + size.x, low.y + size.y)
        imgui.end_popup()


def _draw_inside(state: AppState, ui: Ui, width: float, room: float) -> list[Action]:
    held: Held = ui.memory[POPUP]
    if imgui.is_key_pressed(KEY.escape, False) or ui.memory.pop(f"{POPUP}.close", False):
        return _close(ui)
    asked = _draw_input(ui, held, width)
    _refresh(state, ui, held)
    _move(ui, held, room)
    chosen = _draw_rows(ui, held, width, room)
    if imgui.is_key_pressed(KEY.enter, False) or imgui.is_key_pressed(KEY.keypad_enter, False):
        chosen = held.rows[held.at] if held.rows else None
    if chosen is None:
        return asked
    imgui.close_current_popup()
    return [*chosen.item.run(state, ui), NoteChoice(chosen.item.key)]


def _close(ui: Ui) -> list[Action]:
    imgui.close_current_popup()
    ui.ask("input")
    return [SearchPalette("")]


def _draw_input(ui: Ui, held: Held, width: float) -> list[Action]:
    height, at = ui.u(13), imgui.get_cursor_screen_pos()
    draw, size = imgui.get_window_draw_list(), ui.theme.size("title")
    spot = ImVec2(at.x + ui.u(4), round(at.y + (height - size) / 2))
    draw.add_text(ui.fonts["regular"], size, spot, ui.color("muted"), ICON_SEARCH)
    left = ui.u(4) + size + ui.u(1)
    imgui.set_cursor_screen_pos(ImVec2(at.x + left, at.y))
    imgui.set_next_item_width(width - left - ui.u(3))
    if imgui.is_window_appearing():
        imgui.set_keyboard_focus_here()
    clear = dict.fromkeys(("frame_bg", "frame_bg_hovered", "frame_bg_active", "nav_cursor"), "-")
    with (
        ui.colored(**clear),
        ui.font(style="title"),
        ui.styled(frame_padding=(ui.u(1.5), (height - size) / 2), frame_border_size=0.0),
    ):
        hint = tr("Find a command, a setting, a conversation, a head")
        _, query = imgui.input_text_with_hint(f"##palette.{held.field}", hint, held.query)
    ui.mark(f"{POPUP}.input")
    bottom = at.y + height
    draw.add_rect_filled(
        ImVec2(at.x, bottom), ImVec2(at.x + width, bottom + ui.u(0.25)), ui.color("border")
    )
    imgui.set_cursor_screen_pos(ImVec2(at.x, bottom + ui.u(0.25)))
    query = query[:LONGEST]
    if query == held.query:
        return []
    held.query, held.at, held.scroll = query, 0, True
    return [SearchPalette(query)]


def _refresh(state: AppState, ui: Ui, held: Held) -> None:
    """Find again when the query, or what there is to be found, has become another."""
    known = state.palette
    made_of = (
        held.query, known.found if known.found_for == held.query else (), state.busy,
        state.history.rows, state.catalogue, state.recent, state.presets, state.model, state.load,
        len(state.messages), state.quantization.work is None, state.layouts, state.editing,
    )  # fmt: skip
    old = held.made_of
    if isinstance(old, tuple) and all(a is b or a == b for a, b in zip(old, made_of, strict=True)):
        return
    chosen = held.rows[held.at].item.key if held.rows else ""
    same = isinstance(old, tuple) and old[0] == held.query and held.at > 0
    held.rows, held.made_of = finding.found(held.query, state, ui), made_of
    keys = [row.item.key for row in held.rows]
    held.at = keys.index(chosen) if same and chosen in keys else 0


def _move(ui: Ui, held: Held, room: float) -> None:
    """The chosen row, with the keys."""
    if not held.rows:
        return
    last, page = len(held.rows) - 1, LINES - 1
    at = held.at
    for key, to in (
        (KEY.down_arrow, at + 1 if at < last else 0),
        (KEY.up_arrow, at - 1 if at > 0 else last),
        (KEY.page_down, min(last, at + page)),
        (KEY.page_up, max(0, at - page)),
    ):
        if imgui.is_key_pressed(key):
            held.at, held.scroll = to, True


def _draw_rows(ui: Ui, held: Held, width: float, room: float) -> Finding | None:
    """The row that was clicked."""
    line, head = ui.u(9.5), ui.u(8)
    tops, y = [], ui.u(1.5)
    for row in held.rows:
        y += head if row.heading else 0.0
        tops.append(y)
        y += line
    content = y + ui.u(1.5)
    room -= ui.u(14)
    height = min(content, ui.u(1.5) + LINES * line, max(room, line))
    if not held.rows:
        _draw_nothing(ui, width)
        return None
    flags = imgui.WindowFlags_.no_saved_settings | imgui.WindowFlags_.no_nav_inputs
    imgui.begin_child("rows", ImVec2(width, round(height)), 0, flags)
    try:
        if held.scroll:
            _into_sight(held, tops, line, head, height, content)
        return _draw_seen(ui, held, tops, width, line, head, height, content)
    finally:
        imgui.end_child()


def _into_sight(
    held: Held, tops: list[float], line: float, head: float, height: float, content: float
) -> None:
    held.scroll = False
    top, low = tops[held.at], imgui.get_scroll_y()
    above = head if held.rows[held.at].heading else 0.0
    if held.at == 0:
        imgui.set_scroll_y(0.0)
    elif top - above < low:
        imgui.set_scroll_y(top - above)
    elif top + line > low + height:
        imgui.set_scroll_y(min(top + line - height + line / 4, content - height))


def _draw_seen(
    ui: Ui, held: Held, tops: list[float], width: float, line: float, head: float,
    height: float, content: float,
) -> Finding | None:  # fmt: skip
    chosen: Finding | None = None
    low = imgui.get_scroll_y()
    start, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    moved = imgui.get_io().mouse_delta
    for number, row in enumerate(held.rows):
        top = tops[number]
        if top + line < low or top - head > low + height:
            continue
        y = start.y + top
        if row.heading:
            small = ui.theme.size("small")
            spot = ImVec2(start.x + ui.u(4), round(y - small - ui.u(1)))
            draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), row.heading)
        rect = (start.x + ui.u(1.5), y, start.x + width - ui.u(1.5), y + line)
        ui.rects[f"{POPUP}.{number}"] = rect
        if ui.at_pointer(rect) and imgui.is_window_hovered():
            if moved.x or moved.y:
                held.at = number
            if imgui.is_mouse_clicked(0):
                chosen = row
        _draw_row(ui, row, rect, number == held.at)
    imgui.dummy(ImVec2(1, content))
    return chosen


def _draw_row(ui: Ui, row: Finding, rect: tuple[float, float, float, float], chosen: bool) -> None:
    """Group, title with the letters that match, note and chord."""
    draw, item = imgui.get_window_draw_list(), row.item
    x0, y0, x1, y1 = rect
    if chosen:
        draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("accent_soft"), ui.u(1.5))
    small, body = ui.theme.size("small"), ui.theme.text
    right = x1 - ui.u(2.5)
    if item.chord:
        right -= keys_width(ui, item.chord)
        draw_keys(ui, item.chord, ImVec2(right, y0), y1 - y0)
        right -= ui.u(3)
    group = ui.u(27)
    middle = (y0 + y1) / 2
    with ui.font(style="small"):
        words = fit(item.group, group - ui.u(2))
        spot = ImVec2(x0 + ui.u(2.5), round(middle - small / 2))
        draw.add_text(spot, ui.color("muted"), words)
    x, y = x0 + ui.u(2.5) + group, round(middle - body / 2)
    x = _draw_title(ui, row, ImVec2(x, y), max(right - x, 1.0))
    if item.note and right - x > ui.u(20):
        with ui.font(style="small"):
            x += ui.u(3)
            words = fit(item.note, right - x)
            draw.add_text(ImVec2(x, round(middle - small / 2)), ui.color("muted"), words)


def _draw_title(ui: Ui, row: Finding, at: ImVec2, room: float) -> float:
    """Where it ends. Letters that match are bold, in the accent's colour for text."""
    draw, x = imgui.get_window_draw_list(), at.x
    with ui.font():
        title = fit(row.item.title, room)
    marked = {place for place in row.at if place < len(title)}
    begin = 0
    while begin < len(title):
        hit, end = begin in marked, begin + 1
        while end < len(title) and (end in marked) == hit:
            end += 1
        part = title[begin:end]
        with ui.font("bold" if hit else "regular"):
            color = ui.color("link" if hit else "text")
            draw.add_text(ImVec2(x, at.y), color, part)
            x += imgui.calc_text_size(part).x
        begin = end
    return x


def _draw_nothing(ui: Ui, width: float) -> None:
    at, height, body = imgui.get_cursor_screen_pos(), ui.u(14), ui.theme.text
    words = tr("Nothing found.")
    spot = ImVec2(at.x + ui.u(4), round(at.y + (height - body) / 2))
    imgui.get_window_draw_list().add_text(spot, ui.color("muted"), words)
    imgui.dummy(ImVec2(width, height))
