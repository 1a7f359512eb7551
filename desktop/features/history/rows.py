"""The list of conversations by day. Rows in sight are drawn; more are read as one scrolls."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import date, datetime, timedelta

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.features.commands.keys import is_pressed
from llm_lite.desktop.features.history import menu
from llm_lite.desktop.features.history.model import (
    BeginRename,
    OpenConversation,
    RenameConversation,
    WantMoreRows,
)
from llm_lite.desktop.features.history.state import ConversationRow, HistoryState
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, number, tr
from llm_lite.desktop.widgets.by_keyboard import is_on_its_way, press_area
from llm_lite.desktop.widgets.icons import ICON_MORE, ICON_PIN
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, wrapped

LONGEST_TAIL = 12  # characters in brackets at the end of a title that are not cut off
AHEAD = 40  # rows that are to be there below those in sight
UNTITLED = mark("New conversation")
WEEK = 7  # days
MONTHS = (
    mark("January"), mark("February"), mark("March"), mark("April"), mark("May"), mark("June"),
    mark("July"), mark("August"), mark("September"), mark("October"), mark("November"),
    mark("December"),
)  # fmt: skip


class Entry(Struct, frozen=True):
    """A heading, or a row of the list."""

    label: str = ""
    row: ConversationRow | None = None


class Listing(Struct):
    """The rows with their headings, and where each begins, in pixels."""

    rows: tuple[ConversationRow, ...]
    key: object
    entries: list[Entry]
    tops: list[float]
    height: float


class RowControls(Struct):
    listing: Listing | None = None
    renamed: tuple[int, str] | None = None  # the conversation whose title is edited, and its field
    # By title, width, size and name of the font.
    titles: dict[tuple[str, float, float, str], str] = field(default_factory=dict)


def note(ui: Ui, words: str) -> None:
    """Draw a paragraph in line with the titles."""
    room = imgui.get_content_region_avail().x - ui.u(2) * 2
    imgui.set_cursor_pos_x(ui.u(2))
    imgui.begin_child("note", ImVec2(max(room, 1.0), 0), imgui.ChildFlags_.auto_resize_y)
    wrapped(ui, words)
    imgui.end_child()


def grouped(rows: Iterable[ConversationRow], today: date) -> list[Entry]:
    """Return the rows in their order, with a heading before each day or month."""
    entries: list[Entry] = []
    label, since = "", float("inf")  # the heading, and when what stands below it begins
    pinned = tr("Pinned")
    for row in rows:
        if row.pinned:
            if label != pinned:
                label = pinned
                entries.append(Entry(label))
        elif label in ("", pinned) or row.updated < since:
            label, since = _day(row.updated, today)
            entries.append(Entry(label))
        entries.append(Entry(row=row))
    return entries


def _day(moment: float, today: date) -> tuple[str, float]:
    """Return the heading of a conversation of this moment, and the first moment below it."""
    day = datetime.fromtimestamp(moment).date()
    if day >= today:
        return tr("Today"), _start(today)
    if day == today - timedelta(days=1):
        return tr("Yesterday"), _start(day)
    week = today - timedelta(days=WEEK)
    if day >= week:
        return tr("Previous 7 days"), _start(week)
    month = day.replace(day=1)
    name = tr(MONTHS[month.month - 1])
    if month.year != today.year:
        name = tr("{month} {year}").format(month=name, year=month.year)
    return name, _start(month)


def _start(day: date) -> float:
    return datetime(day.year, day.month, day.day).timestamp()


def lists(history: HistoryState, number: int) -> bool:
    """Return whether a conversation is in the list that is shown."""
    return not history.searching and any(row.id == number for row in history.rows)


def title_of(history: HistoryState) -> str:
    """Return the title of the conversation that is renamed; "" where none is read."""
    every = (
        *((row.id, row.title) for row in history.rows),
        *((found.conversation, found.title) for found in history.found),
    )
    return next((title for number, title in every if number == history.renaming), "")


def draw(state: AppState, ui: Ui) -> list[Action]:
    """Draw the list in a child window that scrolls."""
    history, actions = state.history, list[Action]()
    listing = _listing(history.rows, ui)
    _reveal_renamed(history, listing, ui)
    low = imgui.get_scroll_y()
    first = max(0, bisect_right(listing.tops, low) - 1)
    last = bisect_left(listing.tops, low + imgui.get_window_height())
    if is_on_its_way():  # the next row is there to go to
        first, last = max(0, first - 2), last + 2
    for index in range(first, min(last, len(listing.entries))):
        entry = listing.entries[index]
        imgui.set_cursor_pos(ImVec2(0, listing.tops[index]))
        if entry.row is None:
            _draw_heading(ui, entry.label)
        elif entry.row.id == history.renaming:
            actions += draw_rename(ui, entry.row.id, entry.row.title)
        else:
            actions += _draw_row(state, ui, entry.row)
    imgui.set_cursor_pos(ImVec2(0, listing.height))
    imgui.dummy(ImVec2(1, ui.u(2)))
    if history.more and last + AHEAD >= len(listing.entries):
        actions.append(WantMoreRows())
    return actions


def _reveal_renamed(history: HistoryState, listing: Listing, ui: Ui) -> None:
    """Show the row whose title is edited, where the list is scrolled away from it."""
    held = ui.local(RowControls).renamed
    if history.renaming is None or (held is not None and held[0] == history.renaming):
        return
    if not lists(history, history.renaming):
        return
    numbers = [entry.row.id if entry.row else None for entry in listing.entries]
    top = listing.tops[numbers.index(history.renaming)]
    low, room = imgui.get_scroll_y(), imgui.get_window_height()
    if not low <= top <= low + room - ui.u(8):
        imgui.set_scroll_y(max(0.0, top - room / 2))
        ui.redraw_in(0.0)


def _listing(rows: tuple[ConversationRow, ...], ui: Ui) -> Listing:
    """Return the rows with headings, made again when rows, day, size of text or language change."""
    key = (time.strftime("%Y%m%d"), ui.theme.text, number())
    controls = ui.local(RowControls)
    held = controls.listing
    if held is None or held.rows is not rows or held.key != key:
        entries, tops, y = grouped(rows, date.today()), list[float](), 0.0
        for entry in entries:
            tops.append(y)
            y += ui.u(8) if entry.row is not None else ui.u(9)
        held = controls.listing = Listing(rows, key, entries, tops, y)
    return held


def _draw_heading(ui: Ui, label: str) -> None:
    at, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
    spot = ImVec2(at.x + ui.u(2), at.y + ui.u(8) - small - ui.u(0.5))
    draw = imgui.get_window_draw_list()
    draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), label)


def _draw_row(state: AppState, ui: Ui, row: ConversationRow) -> list[Action]:
    at, width, height = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x, ui.u(8)
    name = f"history.row.{row.id}"
    imgui.set_next_item_allow_overlap()
    clicked = press_area(name, ImVec2(max(width, 1.0), height))
    ui.mark(name)
    flags = imgui.HoveredFlags_
    over = flags.allow_when_overlapped_by_item | flags.allow_when_blocked_by_active_item
    over |= flags.no_nav_override
    hovered = imgui.is_item_hovered(over)
    twice = hovered and imgui.is_mouse_double_clicked(0)
    if imgui.is_item_clicked(1):
        menu.open_for(ui, row)
    if imgui.is_item_focused() and is_pressed("row_menu"):
        menu.open_for(ui, row)
    end = ImVec2(at.x + width, at.y + height)
    is_open = row.id in (state.history.open, state.history.opening)
    of_menu = menu.has_menu(ui, row)
    draw = imgui.get_window_draw_list()
    if hovered or is_open or of_menu:
        fill = "accent_soft" if is_open else "hover"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    right = end.x - ui.u(2)
    actions: list[Action] = []
    if hovered or of_menu:
        side = ui.u(6)
        back = imgui.get_cursor_screen_pos()
        imgui.set_cursor_screen_pos(ImVec2(end.x - side - ui.u(1), at.y + (height - side) / 2))
        hint = tr("Rename, pin, archive, delete, export")
        if icon_button(ui, f"{name}.more", ICON_MORE, hint, side=side, style="small"):
            menu.open_for(ui, row)
            clicked = twice = False
        imgui.set_cursor_screen_pos(back)
        right -= side
    elif row.pinned:
        small = ui.theme.size("small")
        spot = ImVec2(right - small, at.y + (height - small) / 2)
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("faint"), ICON_PIN)
        right -= small + ui.u(1)
    size = ui.theme.size("small")
    with ui.font("bold" if is_open else "regular", "small"):
        title = fitted(ui, row.title or tr(UNTITLED), right - at.x - ui.u(2))
        y = round(at.y + (height - size) / 2)
        color = ui.color("text" if row.title else "muted")
        draw.add_text(ImVec2(at.x + ui.u(2), y), color, title)
    if twice and row.part == "all":
        actions.append(BeginRename(row.id))
    elif clicked and row.part != "deleted":
        actions.append(OpenConversation(row.id))
    elif clicked:
        menu.open_for(ui, row)
    return actions


def fitted(ui: Ui, title: str, width: float) -> str:
    """Cut a title to `width`, but keep its end in brackets, which distinguishes a fork from its
    origin. The result is kept by title, width and font."""
    known = ui.local(RowControls).titles
    key = (title, width, imgui.get_font_size(), imgui.get_font().get_debug_name())
    if key not in known:
        if len(known) > 2000:
            known.clear()
        head, bracket, tail = title.rpartition(" (")
        tail = bracket + tail if head and tail.endswith(")") and len(tail) <= LONGEST_TAIL else ""
        room = width - imgui.calc_text_size(tail).x
        known[key] = fit(head, room) + tail if tail and room > width / 2 else fit(title, width)
    return known[key]


def draw_rename(ui: Ui, number: int, title: str) -> list[Action]:
    """Draw a conversation's title as a field; Enter keeps the new title, Esc the old one."""
    controls = ui.local(RowControls)
    held = controls.renamed
    fresh = held is None or held[0] != number
    words = title if held is None or fresh else held[1]
    if fresh:
        imgui.set_keyboard_focus_here()
    size, height = ui.theme.size("small"), ui.u(8)
    imgui.set_next_item_width(-1)
    with (
        ui.font(style="small"),
        ui.colored(frame_bg="raised", border="accent"),
        ui.styled(frame_padding=(ui.u(2), (height - size) / 2), frame_border_size=ui.u(0.35)),
    ):
        flags = imgui.InputTextFlags_.enter_returns_true | imgui.InputTextFlags_.auto_select_all
        entered, words = imgui.input_text(f"##rename.{number}", words, flags)
    ui.mark("history.rename")
    controls.renamed = (number, words)
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)
    if not entered and (escaped or not imgui.is_item_deactivated()):
        if escaped:
            controls.renamed = None
            return [BeginRename(None)]
        return []
    controls.renamed = None
    return [RenameConversation(number, words)]
