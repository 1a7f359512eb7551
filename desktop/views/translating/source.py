"""Where a source is typed: its task, how many hypotheses are kept, and the button that begins."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import TranslatorInfo
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.requests import obstacle
from llm_lite.desktop.actions.texts.translating import (
    ChooseBeams,
    ChooseTask,
    SetSource,
    StopTarget,
    WriteTarget,
)
from llm_lite.desktop.commands.dispatch import UNTOUCHED
from llm_lite.desktop.commands.hints import keys_of, with_keys
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_SEND
from llm_lite.desktop.widgets.text_input import Input
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, tip

LEAST_LINES, MOST_LINES = 3, 8
WIDTHS = (1, 2, 4, 8)  # beams that are offered, beside the model's own
BEAMS = mark(
    "A beam keeps several hypotheses and continues all of them; the likeliest wins. Greedy "
    "decoding keeps one: it takes the likeliest token each time."
)
TASK = mark("What goes before the source, as the model was trained: its file names these tasks.")


def draw_source(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_title(state, ui)
    held = _held(state, ui)
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    field, foot = _field_height(state, ui, width), ui.u(10)
    _draw_card(ui, at, width, field + foot)
    actions += _draw_field(state, ui, held, at, width, field)
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(2), at.y + field + ui.u(1)))
    actions += _draw_beams(state, ui)
    corner = ImVec2(at.x + width - ui.u(9.5), at.y + field + ui.u(1))
    actions += _draw_button(state, ui, held, corner)
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + field + foot + ui.u(1)))
    ui.rects["chat.composer"] = (at.x, at.y, at.x + width, at.y + field + foot)
    _draw_hint(state, ui)
    return actions


def _info(state: AppState) -> TranslatorInfo:
    known = state.model.translator if state.model else None
    return known or TranslatorInfo()


def _draw_title(state: AppState, ui: Ui) -> list[Action]:
    """With the tasks, where the model's file names any."""
    text(ui, tr("Source"), bold=True)
    prefixes, chosen = _info(state).prefixes, state.translating.prefix
    if not prefixes:
        return []
    width = ui.u(60)
    imgui.same_line(ui.right(width))
    options = [("", tr("No task prefix")), *((one, one.strip()) for one in prefixes)]
    known = chosen if chosen in prefixes else ""
    prefix = picker(ui, "translating.task", options, known, width, tr(TASK))
    return [ChooseTask(prefix)] if prefix != chosen else []


def _held(state: AppState, ui: Ui) -> Input:
    """The field that has the keys of the pane, as the chat's composer has them."""
    draft = state.translating.draft
    held: Input = ui.memory.setdefault("input", Input(draft))
    if held.text != draft:
        held.renew(draft)
    begun = (state.chat, True)
    if begun != held.begun:
        held.begun, held.focus = begun, not imgui.get_io().want_text_input
    return held


def _field_height(state: AppState, ui: Ui, width: float) -> float:
    with ui.font():
        wanted = imgui.calc_text_size(state.translating.draft + "|", wrap_width=width - ui.u(10)).y
    lines = min(MOST_LINES, max(LEAST_LINES, round(wanted / ui.theme.text)))
    return lines * ui.theme.text + ui.u(5)


def _draw_card(ui: Ui, at: ImVec2, width: float, height: float) -> None:
    draw, high = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, high, ui.color("raised"), ui.u(3))
    edge = "accent" if ui.memory.get("input.active") else "border"
    draw.add_rect(at, high, ui.color(edge), ui.u(3), ui.u(0.35))


def _draw_field(
    state: AppState, ui: Ui, held: Input, at: ImVec2, width: float, height: float
) -> list[Action]:
    flags = imgui.InputTextFlags_
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(2), at.y + ui.u(1.5)))
    if held.focus:
        imgui.set_keyboard_focus_here()
        held.focus = False
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)
    with (
        ui.colored(frame_bg="-", frame_bg_hovered="-", frame_bg_active="-", nav_cursor="-"),
        ui.styled(frame_padding=(ui.u(1.5), ui.u(1.5)), window_padding=(0.0, 0.0)),
    ):
        sent, words = imgui.input_text_multiline(
            f"##translating.source{held.generation}",
            held.text,
            ImVec2(width - ui.u(4), height - ui.u(1.5)),
            flags.ctrl_enter_for_new_line
            | flags.enter_returns_true
            | flags.word_wrap
            | (flags.callback_always if held.to_end else 0),
            held.place_caret if held.to_end else None,
        )
    ui.mark("translating.source")
    active = ui.memory["input.active"] = imgui.is_item_active()
    held.touched |= words != held.text
    ui.memory[UNTOUCHED] = active and not held.touched and not held.text
    if not held.text and not words:
        _draw_invitation(ui, at)
    if escaped and state.translating.running:
        return [StopTarget()]
    if escaped:  # the field would bring back what it held before
        return []
    actions: list[Action] = []
    if words != held.text:
        held.text = words
        actions.append(SetSource(words))
    if sent:
        held.focus = True
        actions.append(WriteTarget(words))
    return actions


def _draw_invitation(ui: Ui, at: ImVec2) -> None:
    spot = ImVec2(at.x + ui.u(3.5), at.y + ui.u(3))
    words = tr("Type a source")
    imgui.get_window_draw_list().add_text(spot, ui.color("faint"), words)


def _draw_beams(state: AppState, ui: Ui) -> list[Action]:
    own, chosen = _info(state).beams, state.translating.beams
    options = [("0", tr("{choice} (the model's own)").format(choice=_named(own)))]
    options += [(str(n), _named(n)) for n in WIDTHS if n != own]
    value = str(chosen) if chosen != own else "0"
    wanted = picker(ui, "translating.beams", options, value, ui.u(52), tr(BEAMS))
    return [ChooseBeams(int(wanted))] if wanted != value else []


def _named(beams: int) -> str:
    return tr("Greedy") if beams == 1 else tr("Beam of {n}").format(n=beams)


def _draw_button(state: AppState, ui: Ui, held: Input, at: ImVec2) -> list[Action]:
    imgui.set_cursor_screen_pos(at)
    side = ui.u(8)
    if state.translating.running:
        return _draw_stop(state, ui, side)
    said, hindrance = bool(held.text.strip()), obstacle(state)
    ready = said and not hindrance
    fill = "accent" if ready else "hover"
    colors = {"button": fill, "button_hovered": "accent_hover" if ready else fill}
    with (
        ui.colored(text="on_accent" if ready else "faint", button_active=fill, **colors),
        ui.styled(frame_padding=(0.0, 0.0), frame_rounding=ui.u(2)),
    ):
        clicked = imgui.button(f"{ICON_SEND}##translate", ImVec2(side, side))
    ui.mark("translating.write")
    tip(ui, (hindrance if said else "") or with_keys(tr("Write the target"), "send"))
    return [WriteTarget(held.text)] if clicked else []


def _draw_stop(state: AppState, ui: Ui, side: float) -> list[Action]:
    colors = {"button": "hover", "button_hovered": "pressed", "button_active": "pressed"}
    with ui.colored(**colors), ui.styled(frame_rounding=ui.u(2)):
        clicked = imgui.button("##translating.stop", ImVec2(side, side))
    ui.mark("translating.stop")
    low, inset = imgui.get_item_rect_min(), side * 0.34
    end = ImVec2(low.x + side - inset, low.y + side - inset)
    stopping = state.translating.stopping
    fill = ui.color("faint" if stopping else "text")
    draw = imgui.get_window_draw_list()
    draw.add_rect_filled(ImVec2(low.x + inset, low.y + inset), end, fill, ui.u(0.5))
    tip(ui, tr("Stopping") if stopping else with_keys(tr("Stop"), "escape"))
    return [StopTarget()] if clicked else []


def _draw_hint(state: AppState, ui: Ui) -> None:
    words = tr("{send} writes the target  ·  {broken} breaks the line").format(
        send=keys_of("send"), broken=keys_of("break_line")
    )
    if state.translating.running:
        words = tr("{keys} stops").format(keys=keys_of("escape"))
    text(ui, words, "faint", "small")
