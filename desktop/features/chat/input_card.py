"""The parts of a field in which a person writes to the model: its card, the field with its keys,
the buttons that send and stop, and the Escape key."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.commands.keys import InputKeys, with_keys
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.selection.find import is_find_open
from llm_lite.desktop.features.selection.selection import selection
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.icons import ICON_SEND
from llm_lite.desktop.widgets.text_input import Input, lines_field, pastes
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, tip


class Written(Struct, frozen=True):
    """`sent`: Enter was pressed. `escaped`: Escape was."""

    words: str
    sent: bool
    escaped: bool


def held_input(ui: Ui, draft: str, begun: tuple[int, bool]) -> Input:
    """Return the field of the chat pane. It takes the keys where `begun` is another than before: in
    a new chat, and the first moment something can be asked."""
    keys = ui.local(InputKeys)
    held = keys.field = keys.field or Input(draft)
    if held.text != draft:
        held.renew(draft)
    if begun != held.begun:
        held.begun = begun
        if held.touched and not held.text:  # what was typed in another chat is not undone here
            held.renew("")
        held.focus = keys.active or not imgui.get_io().want_text_input
    return held


def lines_height(ui: Ui, draft: str, width: float, least: int, most: int) -> float:
    """Return the height of a field whose words take so many lines, in a width, in pixels."""
    with ui.font():
        wanted = imgui.calc_text_size(draft + "|", wrap_width=width).y
    lines = min(most, max(least, round(wanted / ui.theme.text)))
    return lines * ui.theme.text + ui.u(3)


def draw_card(ui: Ui, at: ImVec2, width: float, height: float) -> None:
    draw, high = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, high, ui.color("raised"), ui.u(3))
    edge = "accent" if ui.local(InputKeys).active else "border"
    draw.add_rect(at, high, ui.color(edge), ui.u(3), ui.u(0.35))


def draw_field(ui: Ui, held: Input, name: str, spot: ImVec2, size: ImVec2, hint: str) -> Written:
    """Draw a field of several lines; `hint` stands in it while it is empty."""
    flags = imgui.InputTextFlags_
    imgui.set_cursor_screen_pos(spot)
    if held.focus:
        imgui.set_keyboard_focus_here()
        held.focus = False
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)
    with (
        ui.colored(frame_bg="-", frame_bg_hovered="-", frame_bg_active="-", nav_cursor="-"),
        ui.styled(frame_padding=(ui.u(1.5), ui.u(1.5)), window_padding=(0.0, 0.0)),
    ):
        sent, words = lines_field(
            f"##{name}{held.generation}",
            held.text,
            size,
            flags.ctrl_enter_for_new_line
            | flags.enter_returns_true
            | flags.word_wrap
            | flags.callback_always,
            held.place_caret,
        )
    ui.mark(name)
    ui.local(InputKeys).active = held.active = imgui.is_item_active()
    held.touched |= words != held.text
    ui.local(InputKeys).untouched = imgui.is_item_active() and not held.touched and not held.text
    if not held.text and not words:
        place = ImVec2(spot.x + ui.u(1.5), spot.y + ui.u(1.5))
        shown = fit(hint, size.x - ui.u(3))  # buttons stand beside the field
        imgui.get_window_draw_list().add_text(place, ui.color("muted"), shown)
    return Written(words, sent, escaped)


def pastes_no_text() -> bool:
    """Return whether the keys that paste were pressed, and the clipboard has no text: a picture,
    or nothing."""
    return pastes() and not imgui.get_clipboard_text()


def draw_send(ui: Ui, name: str, side: float, ready: bool, hint: str) -> bool:
    """Draw the button that sends at the cursor, and return whether it was pressed."""
    fill = "accent" if ready else "hover"
    colors = {"button": fill, "button_hovered": "accent_hover" if ready else fill}
    with (
        ui.colored(text="on_accent" if ready else "faint", button_active=fill, **colors),
        ui.styled(frame_padding=(0.0, 0.0), frame_rounding=ui.u(2)),
    ):
        clicked = imgui.button(f"{ICON_SEND}##{name}", ImVec2(side, side))
    ui.mark(name)
    tip(ui, hint)
    return clicked


def draw_stop(ui: Ui, name: str, side: float, stopping: bool) -> bool:
    """Draw the button that stops at the cursor, and return whether it was pressed."""
    colors = {"button": "hover", "button_hovered": "pressed", "button_active": "pressed"}
    with ui.colored(**colors), ui.styled(frame_rounding=ui.u(2)):
        clicked = imgui.button(f"##{name}", ImVec2(side, side))
    ui.mark(name)
    low, inset = imgui.get_item_rect_min(), side * 0.34
    end = ImVec2(low.x + side - inset, low.y + side - inset)
    fill, draw = ui.color("faint" if stopping else "text"), imgui.get_window_draw_list()
    draw.add_rect_filled(ImVec2(low.x + inset, low.y + inset), end, fill, ui.u(0.5))
    tip(ui, tr("Stopping") if stopping else with_keys(tr("Stop"), "escape"))
    return clicked


class EscapeKey(Struct):
    taken: bool = False  # something had the key in the frame before


def escape_is_free(state: AppState, ui: Ui) -> bool:
    """Tell whether Escape was pressed just now and closes no list, leaves no field and clears no
    selection. Call it in every frame: what had the key may be gone when this one is drawn."""
    key, taken = ui.local(EscapeKey), _is_taken(state, ui)
    was_taken, key.taken = key.taken, taken
    return imgui.is_key_pressed(imgui.Key.escape, False) and not (taken or was_taken)


def _is_taken(state: AppState, ui: Ui) -> bool:
    selected = selection(state, ui)
    return (
        imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
        or imgui.get_io().want_text_input
        or imgui.is_any_item_active()
        or is_find_open(ui)
        or (selected is not None and not selected.empty)
    )
