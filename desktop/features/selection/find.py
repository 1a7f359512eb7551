"""Find in the conversation: a bar above the messages. What is found is selected and in sight."""

from __future__ import annotations

import re

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.features.chat.places import bring_into_sight
from llm_lite.desktop.features.commands.keys import focus_input, with_keys
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selecting import Selecting
from llm_lite.desktop.features.selection.selection import SAID, blocks_of, clear, select
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.icons import (
    ICON_CHEVRON_DOWN,
    ICON_CHEVRON_UP,
    ICON_CLOSE,
    ICON_SEARCH,
)
from llm_lite.desktop.widgets.markdown.characters import page_text
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button

FIND = "chat.find"  # the field
COUNT = 22  # spacing units for "3 of 12"
LONGEST = 500  # characters of what is looked for
Place = tuple[int, int]  # index of a message, and which of the matches in its text


class Find(Struct):
    """The text that is looked for in the chat, and where it was found."""

    query: str = ""
    at: int = -1  # of the matches: the one that is shown; -1: none yet
    focus: bool = True  # the field is to get the keys
    counted: dict[int, tuple[Message, str, int]] = field(default_factory=dict)  # by index

    def places(self, state: AppState) -> list[Place]:
        """List every match, from the top; a message is searched again only when it changed."""
        if not self.query:
            return []
        pattern, found = _pattern(self.query), list[Place]()
        for index, message in enumerate(state.messages):
            known = self.counted.get(index)
            if known is None or known[0] is not message or known[1] != self.query:
                count = len(pattern.findall(message.text))
                known = self.counted[index] = (message, self.query, count)
            found += [(index, number) for number in range(known[2])]
        return found


class FindBar(Struct):
    """The bar above the messages."""

    find: Find | None = None  # while it is open
    has_keys: bool = False  # its field has the keyboard


def open_find(ui: Ui) -> None:
    """Show the bar; where it is shown, type into it."""
    bar = ui.local(FindBar)
    bar.find = bar.find or Find()
    bar.find.focus = True


def is_find_open(ui: Ui) -> bool:
    return ui.local(FindBar).find is not None


def draw_find(state: AppState, ui: Ui) -> None:
    """Draw the bar where it is open."""
    held = ui.local(FindBar).find
    if held is None or not state.messages:
        return
    before = held.query
    side, had_keys = ui.u(7), _has_keys(ui)  # Esc takes them from the field
    imgui.set_cursor_pos_x(imgui.get_cursor_pos_x() + ui.u(3))
    imgui.begin_group()
    entered = _draw_field(ui, held, ui.u(COUNT) + 3 * side + ui.u(7))
    places = held.places(state)
    if held.query != before:  # the first match is shown while one is typing
        clear(ui)
        if places:
            held.at = 0
            _show(state, ui, held, places[0])
    imgui.same_line(0, ui.u(2))
    _draw_count(ui, held, len(places))
    steps = 0
    for name, icon, hint, step in (
        ("before", ICON_CHEVRON_UP, with_keys(tr("Previous match"), "find_before"), -1),
        ("next", ICON_CHEVRON_DOWN, with_keys(tr("Next match"), "find_next"), 1),
    ):
        imgui.same_line(0, ui.u(0.5))
        if icon_button(ui, f"{FIND}.{name}", icon, hint, side=side, style="small"):
            steps = step
    imgui.same_line(0, ui.u(0.5))
    hint = with_keys(tr("Close"), "find_close")
    closed = icon_button(ui, f"{FIND}.close", ICON_CLOSE, hint, side=side, style="small")
    imgui.end_group()
    if entered:
        steps = -1 if imgui.get_io().key_shift else 1
        held.focus = True  # Enter leaves the field
    if closed or (had_keys and imgui.is_key_pressed(imgui.Key.escape, False)):
        _close(ui)
    elif steps and places:
        held.at = (held.at + steps) % len(places) if held.at >= 0 else min(steps, 0) % len(places)
        _show(state, ui, held, places[held.at])


def _draw_field(ui: Ui, held: Find, beside: float) -> bool:
    """Draw the field and return whether Enter was pressed; `beside` pixels are left for what stands
    behind it."""
    if held.focus:
        held.focus = False
        imgui.set_keyboard_focus_here()
    imgui.set_next_item_width(max(imgui.get_content_region_avail().x - beside, ui.u(30)))
    with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font(style="small"):
        hint = f"{ICON_SEARCH}  {tr('Find in the conversation')}"
        flags = imgui.InputTextFlags_.enter_returns_true
        before = held.query
        entered, typed = imgui.input_text_with_hint("##find", hint, before, flags)
    ui.mark(FIND)
    ui.local(FindBar).has_keys = imgui.is_item_active()
    if typed[:LONGEST] != before:
        held.query, held.at = typed[:LONGEST], -1
    return bool(entered)


def _draw_count(ui: Ui, held: Find, count: int) -> None:
    """Draw the count in a fixed width, so that buttons stay under the pointer."""
    if not held.query:
        words = ""
    elif not count:
        words = tr("Not found")
    else:
        shown = f"{held.at + 1:,}" if held.at >= 0 else "–"
        words = tr("{shown} of {count}").format(shown=shown, count=f"{count:,}")
    at, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
    color = ui.color("muted" if count or not held.query else "warning")
    spot = ImVec2(at.x, at.y + (ui.u(7) - small) / 2)
    imgui.get_window_draw_list().add_text(ui.fonts["regular"], small, spot, color, words)
    imgui.dummy(ImVec2(ui.u(COUNT), ui.u(7)))


def _has_keys(ui: Ui) -> bool:
    return ui.local(FindBar).has_keys or not imgui.get_io().want_text_input


def _close(ui: Ui) -> None:
    ui.local(FindBar).find = None
    clear(ui)
    focus_input(ui)


def _show(state: AppState, ui: Ui, held: Find, place: Place) -> None:
    """Bring a match into sight and select it; its message alone where marks divide the words."""
    index, number = place
    bring_into_sight(ui, index)
    shown = page_text(blocks_of(state, ui, index, SAID))
    found = list(_pattern(held.query).finditer(shown))
    if not found:
        return
    span = found[min(number, len(found) - 1)]
    low, high = (index, SAID, span.start()), (index, SAID, span.end())
    select(state, ui, (low, high), (low, high))
    ui.local(Selecting).reveal = low


def _pattern(query: str) -> re.Pattern[str]:
    return re.compile(re.escape(query), re.IGNORECASE)
