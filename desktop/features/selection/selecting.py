"""A person selects text in the conversation with the mouse, with keys and by a menu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from imgui_bundle import imgui
from msgspec import Struct, field

from llm_lite.desktop.features.chat.places import Scroll
from llm_lite.desktop.features.commands.keys import is_pressed, keys_of
from llm_lite.desktop.features.history.model import ForkConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selection import (
    SAID,
    THOUGHT,
    Place,
    Unit,
    blocks_of,
    clear,
    moved,
    select,
    selected_text,
    selection,
    unit_at,
    whole,
)
from llm_lite.desktop.features.tree.model import ContinueText, SpellAnswer
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.markdown.blocks import Block
from llm_lite.desktop.widgets.markdown.characters import page_text, source_place, word_at
from llm_lite.desktop.widgets.markdown.drawing import ClickedLink
from llm_lite.desktop.widgets.markdown.geometry import caret, character_at
from llm_lite.desktop.widgets.markdown.rich_text import Page, rich_text
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui

MENU = "selection.menu"  # the popup
UNITS: dict[int, Unit] = {1: "letter", 2: "word"}  # by clicks
SPEED = 12.0  # text heights a second and text height that the pointer is outside
MOST_SPEED = 160.0
TICK = 1 / 60  # seconds, while the text scrolls under the pointer
JUMP = "/jump_"  # in the name of the window of the button that scrolls to the end
KEY = imgui.Key
SIDEWAYS = (  # command, whether forward, whether by words
    ("select_left", False, False),
    ("select_right", True, False),
    ("select_word_left", False, True),
    ("select_word_right", True, True),
)
ENDS = (  # commands of a line and of the whole text, whether forward
    ("select_line_start", "select_text_start", False),
    ("select_line_end", "select_text_end", True),
)
FAR = 1e6  # pixels


class Shown(Struct, frozen=True):
    """A text that this frame shows, and the corner of its page on the screen."""

    index: int  # of the message
    text: int
    page: Page
    x: float
    y: float
    width: float


class Selecting(Struct):
    """The state of a person's selecting, from frame to frame."""

    shown: list[Shown] = field(default_factory=list)  # in this frame
    drags: bool = False  # with the mouse, from where it was pressed
    menu: Place | None = None  # where the menu was opened, while it is open
    spells: bool = False  # the menu has just opened: a restored answer is to be spelled
    reveal: Place | None = None  # is to be brought into sight


def draw_page(
    state: AppState, ui: Ui, at: tuple[int, int], page: Page,
    corner: tuple[float, float], width: float, name: str,
) -> None:  # fmt: skip
    """Draw the page of a message's text, with what is selected of it; `at`: message and text."""
    x, y = corner
    ui.local(Selecting).shown.append(Shown(*at, page, x, y, width))
    held = selection(state, ui)
    rich = rich_text(ui) if at[1] == SAID else rich_text(ui, "thoughts")
    rich.draw(ui, page, x, y, width, name, held.of(*at) if held else None)


def follow_selecting(state: AppState, ui: Ui, scroll: Scroll) -> list[Action]:
    """Answer what a person did in the conversation's window, at its end."""
    kept = ui.local(Selecting)
    shown, kept.shown = kept.shown, []
    if not shown or state.xray.shown:
        return []
    if kept.reveal is not None:
        _reveal(ui, shown, scroll, kept.reveal)
    if kept.drags:
        _drag(state, ui, shown, scroll)
    elif imgui.is_mouse_clicked(0) or imgui.is_mouse_clicked(1):
        _click(state, ui, shown)
    elif imgui.is_window_hovered() and _under(ui, shown) is not None:
        _point()
    if not imgui.get_io().want_text_input:
        _keys(state, ui, shown)
    return _draw_menu(state, ui)


def _reveal(ui: Ui, shown: list[Shown], scroll: Scroll, place: Place) -> None:
    """Scroll until the place is in sight; its message may come into sight with the next frame."""
    scroll.follows_end = False
    ui.redraw_in(0.0)
    for one in shown:
        spot = caret(ui, one.page.blocks, place[2]) if (one.index, one.text) == place[:2] else None
        if spot is None:
            continue
        ui.local(Selecting).reveal = None
        top, height = imgui.get_window_pos().y, imgui.get_window_height()
        low, high = one.y + spot[1], one.y + spot[2]
        if low < top + ui.u(4) or high > top + height - ui.u(4):
            imgui.set_scroll_y(max(0.0, imgui.get_scroll_y() + low - top - height / 3))


def _point() -> None:
    if imgui.get_mouse_cursor() == imgui.MouseCursor_.arrow and not imgui.is_any_item_hovered():
        imgui.set_mouse_cursor(imgui.MouseCursor_.text_input)


def _under(ui: Ui, shown: list[Shown]) -> Shown | None:
    """Return the text that the pointer is over."""
    for one in shown:
        if ui.at_pointer((one.x, one.y, one.x + one.width, one.y + one.page.height)):
            return one
    return None


def _place(ui: Ui, shown: list[Shown], x: float, y: float, unit: Unit = "letter") -> Place:
    """Return the place nearest to a point of the screen; for a word or paragraph, one in it."""
    one = min(shown, key=lambda one: max(one.y - y, y - one.y - one.page.height, 0.0))
    at = character_at(ui, one.page.blocks, x - one.x, y - one.y, unit != "letter")
    return one.index, one.text, at


def _click(state: AppState, ui: Ui, shown: list[Shown]) -> None:
    if imgui.is_popup_open("", imgui.PopupFlags_.any_popup):
        return
    if ui.local(ClickedLink).address is not None:
        return
    if not imgui.is_window_hovered():
        if imgui.is_mouse_clicked(0) and not _jumps():
            clear(ui)
        return
    if imgui.is_any_item_hovered():
        return
    place = _place(ui, shown, *ui.pointer)
    if imgui.is_mouse_clicked(1):
        _ask_menu(state, ui, place)
        return
    held, shift = selection(state, ui), imgui.get_io().key_shift
    if held is not None and shift:
        select(state, ui, held.anchor, (place, place))
    else:
        unit = UNITS.get(imgui.get_mouse_clicked_count(0), "paragraph")
        begun = unit_at(state, ui, _place(ui, shown, *ui.pointer, unit), unit)
        select(state, ui, begun, begun, unit)
    ui.local(Selecting).drags = True


def _jumps() -> bool:
    """Tell whether the pointer is over the button that scrolls to the end."""
    context: Any = imgui.get_current_context()
    window = context.hovered_window
    return window is not None and JUMP in window.name


def _drag(state: AppState, ui: Ui, shown: list[Shown], scroll: Scroll) -> None:
    """Extend the selection to the pointer; above and below the window the text scrolls."""
    held = selection(state, ui)
    if held is None or not imgui.is_mouse_down(0):
        ui.local(Selecting).drags = False
        return
    if not imgui.is_mouse_dragging(0):
        return
    scroll.follows_end = False
    corner, size = imgui.get_window_pos(), imgui.get_window_size()
    x, y = ui.pointer
    inside = min(max(y, corner.y), corner.y + size.y - 1)
    if y != inside:
        _scroll_by(ui, y - inside)
    place = _place(ui, shown, x, inside, held.unit)
    if place != held.caret:
        select(state, ui, held.anchor, unit_at(state, ui, place, held.unit), held.unit)


def _scroll_by(ui: Ui, outside: float) -> None:
    """Scroll the faster, the further the pointer is outside."""
    most = MOST_SPEED * ui.theme.text
    speed = min(max(outside * SPEED, -most), most)
    passed = min(imgui.get_io().delta_time, 0.1)
    wanted = imgui.get_scroll_y() + speed * passed
    imgui.set_scroll_y(min(max(wanted, 0.0), imgui.get_scroll_max_y()))
    ui.redraw_in(TICK)


def _keys(state: AppState, ui: Ui, shown: list[Shown]) -> None:
    if is_pressed("select_all"):
        _select_all(state, ui, shown)
    held = selection(state, ui)
    if held is None or ui.local(Selecting).drags:
        return
    if imgui.is_key_pressed(KEY.escape, False):
        if not imgui.is_popup_open("", imgui.PopupFlags_.any_popup):
            clear(ui)
    elif is_pressed("copy"):
        copy(state, ui)
    for name, forward, by_word in SIDEWAYS:
        if is_pressed(name):
            there = moved(state, ui, held.caret, forward, by_word)
            select(state, ui, held.anchor, (there, there))
    for name, lines in (("select_up", -1), ("select_down", 1)):
        if is_pressed(name):
            found = _other_line(ui, shown, held.caret, lines)
            select(state, ui, held.anchor, (found, found))
    for line, text, forward in ENDS:
        if is_pressed(line):
            found = _line_end(ui, shown, held.caret, forward)
            select(state, ui, held.anchor, (found, found))
        elif is_pressed(text):
            found = _text_end(state, ui, forward)
            select(state, ui, held.anchor, (found, found))


def _line_end(ui: Ui, shown: list[Shown], place: Place, forward: bool) -> Place:
    """Return the beginning or end of the line that a place is on; the place itself where that
    is out of sight."""
    for one in shown:
        spot = caret(ui, one.page.blocks, place[2])
        if (one.index, one.text) == place[:2] and spot is not None:
            _, top, bottom = spot
            x = one.x + (FAR if forward else -FAR)
            return _place(ui, shown, x, one.y + (top + bottom) / 2)
    return place


def _text_end(state: AppState, ui: Ui, forward: bool) -> Place:
    """Return the beginning or end of the conversation."""
    return whole(state, ui, 0, len(state.messages) - 1)[1 if forward else 0]


def _select_all(state: AppState, ui: Ui, shown: list[Shown]) -> None:
    """Select the message under the pointer, and from the second time on all of them."""
    one = _under(ui, shown) if imgui.is_window_hovered() else None
    focused = imgui.is_window_focused()
    everything = whole(state, ui, 0, len(state.messages) - 1)
    if one is None:
        if focused:
            select(state, ui, everything, everything)
        return
    message, held = whole(state, ui, one.index, one.index), selection(state, ui)
    again = held is not None and (held.low, held.high) == message
    wanted = everything if again else message
    select(state, ui, wanted, wanted)


def _other_line(ui: Ui, shown: list[Shown], place: Place, lines: int) -> Place:
    """Return the place so many lines below; the place itself where that is out of sight."""
    for one in shown:
        if (one.index, one.text) != place[:2]:
            continue
        spot = caret(ui, one.page.blocks, place[2])
        if spot is None:
            continue
        x, top, bottom = spot
        half = (bottom - top) / 2
        y = bottom + half if lines > 0 else top - half
        return _place(ui, shown, one.x + x, one.y + y)
    return place


def copy(state: AppState, ui: Ui, markdown: bool = False) -> bool:
    """Copy what is selected, and return whether there was something to copy."""
    if state.xray.shown:
        return False
    words = selected_text(state, ui, markdown)
    if words:
        imgui.set_clipboard_text(words)
    return bool(words)


def _ask_menu(state: AppState, ui: Ui, place: Place) -> None:
    kept = ui.local(Selecting)
    kept.menu, kept.spells = place, True
    imgui.open_popup(MENU)


def _draw_menu(state: AppState, ui: Ui) -> list[Action]:
    kept = ui.local(Selecting)
    place = kept.menu
    if place is None:
        return []
    actions: list[Action] = []
    spacing = (ui.u(3), ui.u(1.5))
    with ui.styled(window_padding=(ui.u(2), ui.u(2)), item_spacing=spacing):
        if not imgui.begin_popup(MENU):
            kept.menu = None
            return []
        held = selection(state, ui)
        some = held is not None and not held.empty
        if _item(ui, "copy", tr("Copy"), keys_of("copy"), some):
            copy(state, ui)
        if _item(ui, "markdown", tr("Copy as Markdown"), keys_of("copy_answer"), some):
            copy(state, ui, markdown=True)
        known = place[0] < len(state.messages)
        if _item(ui, "all", tr("Select all of the message"), keys_of("select_all"), known):
            message = whole(state, ui, place[0], place[0])
            select(state, ui, message, message)
        if known:
            imgui.separator()
            actions += _draw_ways_on(state, ui, place)
        if imgui.is_key_pressed(KEY.escape, False):
            imgui.close_current_popup()
        imgui.end_popup()
    return actions


def _draw_ways_on(state: AppState, ui: Ui, place: Place) -> list[Action]:
    """Draw items that go on in another way from the word that was clicked, or begin a conversation
    of the messages up to there."""
    index, text, at = place
    message, actions = state.messages[index], list[Action]()
    menu = ui.local(Selecting)
    spells, menu.spells = menu.spells, False
    if spells and message.restored:
        actions.append(SpellAnswer(index))
    if message.role == "assistant":
        blocks = blocks_of(state, ui, index, text)
        low, high = word_at(page_text(blocks), at)
        label = tr("Continue from here")
        if word := page_text(blocks)[low:high].strip():
            label = tr("Continue from “{word}” on").format(word=visible(word, 24))
        if _item(ui, "continue", label, "", not obstacle(state)):
            actions.append(ContinueText(index, _characters(message, text, blocks, at)))
    kept = state.history.open is not None and state.answering is not message
    if _item(ui, "fork", tr("Fork to a new conversation"), "", kept):
        actions.append(ForkConversation(message.id))
    return actions


def _characters(message: Message, text: int, blocks: Sequence[Block], at: int) -> int:
    """Count the characters that the answer's tokens spell before the end of the word at `at`."""
    thought = message.thought.text if message.thought else ""
    if text == THOUGHT:
        return max(message.whole.find(thought), 0) + source_place(thought, blocks, at)
    start = max(message.whole.rfind(message.text), 0)
    return start + source_place(message.text, blocks, at)


def _item(ui: Ui, name: str, label: str, keys: str, enabled: bool) -> bool:
    clicked = bool(imgui.menu_item(label, keys, False, enabled)[0])
    ui.mark(f"{MENU}.{name}")
    return clicked
