"""The page of an encoder-decoder: a source to write, its target, and its other hypotheses."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import OtherTarget, TranslatorInfo
from llm_lite.desktop.features.chat.input_card import (
    draw_card,
    draw_field,
    draw_send,
    draw_stop,
    escape_is_free,
    held_input,
    lines_height,
)
from llm_lite.desktop.features.commands.keys import InputKeys, keys_of, with_keys
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import hindrance
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.translator.model import (
    ChooseBeams,
    ChooseHypothesis,
    ChooseLongest,
    ChooseTask,
    RestoreTarget,
    SetSource,
    StopTarget,
    WriteTarget,
)
from llm_lite.desktop.features.translator.target import draw_target
from llm_lite.desktop.language.incoming import SENTENCE, fit_lines
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import signed
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.controls import picker, picker_width
from llm_lite.desktop.widgets.icons import ICON_UNDO
from llm_lite.desktop.widgets.text_input import Input
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, column, help_mark, text, tip, wrapped

LEAST_LINES, MOST_LINES = 3, 8
WIDTHS = (1, 2, 4, 8)  # beams that are offered, beside the model's own
LENGTHS = (50, 100, 200, 400)  # tokens of a target that are offered
FOOT = 10.0  # spacing units of a row below the field
GAP = 2.0  # of them between two lists
BEAMS = mark(
    "A beam keeps several hypotheses and continues all of them; the likeliest wins. Greedy "
    "decoding keeps one: it takes the likeliest token each time."
)
TASK = mark("What goes before the source, as the model was trained: its file names these tasks.")
LONGEST = mark(
    "A target ends where the model writes its end. One that finds no end stops here: left to "
    "itself, at twice the tokens of the source and 200 more."
)
SCORE = mark(
    "The mean of the tokens' log probabilities, or as the model's length penalty has it: the "
    "higher, the likelier. The beam chose the highest."
)
LOOK = mark("Show this one as the target: its tokens, and where they look.")
GUTTER = 16.0  # spacing units of the column of scores
ABOUT = mark(
    "This model is an encoder-decoder: its encoder reads the source, all of it at once, and its "
    "decoder writes a target about it. It holds no conversation."
)
POINT = mark(
    "Point at a token: of the target, to see where in the source it looks; of the source, to see "
    "which tokens of the target look at it. A click holds its row in the maps."
)


def draw_page(state: AppState, ui: Ui) -> list[Action]:
    """Draw the page in what is left of the chat pane; it scrolls."""
    actions: list[Action] = []
    offset, width = column(ui)  # before the scrollbar takes its part
    imgui.begin_child("translating", ImVec2(0, 0), FLAT, imgui.WindowFlags_.no_saved_settings)
    imgui.set_cursor_pos((imgui.get_cursor_pos_x() + offset, ui.u(2)))
    imgui.begin_child("column", ImVec2(width, 0), imgui.ChildFlags_.auto_resize_y | FLAT)
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(1.5))):
        actions += draw_source(state, ui)
        if state.translating.asked:
            actions += draw_target(state, ui)
            actions += draw_others(state, ui)
        else:
            imgui.dummy(ImVec2(0, ui.u(2)))
            wrapped(ui, tr(ABOUT))
            wrapped(ui, tr(POINT), "faint")
    imgui.dummy(ImVec2(0, ui.u(4)))
    imgui.end_child()
    imgui.end_child()
    return actions


def draw_source(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_title(state, ui)
    held = held_input(ui, state.translating.draft, (state.chat, True))
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    field, room = _field_height(state, ui, width), width - ui.u(16)
    foot = ui.u(FOOT) * (2 if _stacked(state, ui, room) else 1)
    draw_card(ui, at, width, field + foot)
    actions += _draw_field(state, ui, held, at, ImVec2(width, field))
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(2), at.y + field + ui.u(1)))
    actions += _draw_choices(state, ui, room)
    imgui.set_cursor_screen_pos(ImVec2(at.x + width - ui.u(9.5), at.y + field + ui.u(0.75)))
    actions += _draw_button(state, ui, held)
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + field + foot + ui.u(1)))
    ui.rects["chat.composer"] = (at.x, at.y, at.x + width, at.y + field + foot)
    return actions + _draw_hint(state, ui)


def _info(state: AppState) -> TranslatorInfo:
    known = state.model.translator if state.model else None
    return known or TranslatorInfo()


def _draw_title(state: AppState, ui: Ui) -> list[Action]:
    """Draw the title, and the list of tasks if the model's file names any."""
    imgui.align_text_to_frame_padding()
    text(ui, tr("Source"), bold=True)
    prefixes, chosen = _info(state).prefixes, state.translating.prefix
    if not prefixes:
        return []
    width = min(ui.u(72), imgui.get_content_region_avail().x - ui.u(24))
    imgui.same_line(ui.right(width))
    options = [("", tr("No task prefix")), *((one, one.strip()) for one in prefixes)]
    known = chosen if chosen in prefixes else ""
    prefix = picker(ui, "translating.task", options, known, width, tr(TASK))
    return [ChooseTask(prefix)] if prefix != chosen else []


def _field_height(state: AppState, ui: Ui, width: float) -> float:
    draft = state.translating.draft
    return lines_height(ui, draft, width - ui.u(10), LEAST_LINES, MOST_LINES)


def _draw_field(state: AppState, ui: Ui, held: Input, at: ImVec2, size: ImVec2) -> list[Action]:
    was_active, free = ui.local(InputKeys).active, escape_is_free(state, ui)
    spot = ImVec2(at.x + ui.u(2), at.y + ui.u(1.5))
    inner = ImVec2(size.x - ui.u(4), size.y - ui.u(1.5))
    hint = tr("Write a source, the text that the encoder reads")
    written = draw_field(ui, held, "translating.source", spot, inner, hint)
    if written.escaped and was_active:  # Dear ImGui would restore the text from before; we keep it
        held.renew(held.text)
        return [StopTarget()] if state.translating.running else []
    if free and state.translating.running:
        return [StopTarget()]
    actions: list[Action] = []
    if written.words != held.text:
        held.text = written.words
        actions.append(SetSource(written.words))
    if written.sent:
        held.focus = True
        actions.append(WriteTarget(written.words))
    return actions


def _draw_choices(state: AppState, ui: Ui, room: float) -> list[Action]:
    """Draw the lists of beams and lengths, one above the other if there is no room for both."""
    stacked, at = _stacked(state, ui, room), imgui.get_cursor_screen_pos()
    wide = max(ui.u(52), _widest(state, ui))
    width = min(wide, room if stacked else (room - ui.u(GAP)) / 2)
    actions = _draw_beams(state, ui, width)
    if stacked:
        imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(FOOT - 1)))
    else:
        imgui.same_line(0, ui.u(GAP))
    return actions + _draw_longest(state, ui, width)


def _stacked(state: AppState, ui: Ui, room: float) -> bool:
    return _widest(state, ui) > (room - ui.u(GAP)) / 2


def _widest(state: AppState, ui: Ui) -> float:
    """Return the width of a list that shows its longest choice whole, in pixels."""
    labels = [label for _, label in (*_beam_options(state), *_length_options(state))]
    with ui.font(style="small"):
        return max(picker_width(ui, label) for label in labels)


def _beam_options(state: AppState) -> list[tuple[str, str]]:
    own = _info(state).beams
    options = [("0", tr("{choice} (the model's own)").format(choice=_named(own)))]
    return options + [(str(n), _named(n)) for n in WIDTHS if n != own]


def _draw_beams(state: AppState, ui: Ui, width: float) -> list[Action]:
    own, chosen = _info(state).beams, state.translating.beams
    value = str(chosen) if chosen != own else "0"
    wanted = picker(ui, "translating.beams", _beam_options(state), value, width, tr(BEAMS))
    return [ChooseBeams(int(wanted))] if wanted != value else []


def _named(beams: int) -> str:
    return tr("Greedy") if beams == 1 else tr("Beam of {n}").format(n=beams)


def _length_options(state: AppState) -> list[tuple[str, str]]:
    """Return the lengths that the context has room for, and its whole length."""
    whole = state.model.context - 1 if state.model else 0
    options = [("0", tr("Length: by the source"))]
    words = tr("Up to {n:,} tokens")
    options += [(str(n), words.format(n=n)) for n in LENGTHS if n < whole]
    return [*options, (str(whole), tr("Up to {n:,}: the whole context").format(n=whole))]


def _draw_longest(state: AppState, ui: Ui, width: float) -> list[Action]:
    options, value = _length_options(state), str(state.translating.longest)
    known = value if value in dict(options) else "0"
    wanted = picker(ui, "translating.longest", options, known, width, tr(LONGEST))
    return [ChooseLongest(int(wanted))] if wanted != known else []


def _draw_button(state: AppState, ui: Ui, held: Input) -> list[Action]:
    side, translating = ui.u(8), state.translating
    if translating.running:
        return (
            [StopTarget()] if draw_stop(ui, "translating.stop", side, translating.stopping) else []
        )
    filled, problem = bool(held.text.strip()), hindrance(state)
    hint = (problem if filled else "") or with_keys(tr("Write the target"), "send")
    clicked = draw_send(ui, "translating.write", side, filled and not problem, hint)
    return [WriteTarget(held.text)] if clicked else []


def _draw_hint(state: AppState, ui: Ui) -> list[Action]:
    """Draw what keys do, and a button that brings back what was cleared."""
    words = tr("{send} writes the target  ·  {broken} breaks the line").format(
        send=keys_of("send"), broken=keys_of("break_line")
    )
    if state.translating.running:
        words = tr("{keys} stops").format(keys=keys_of("escape"))
    wrapped(ui, words, "faint")
    if state.translating.cleared is None or state.translating.running:
        return []
    hint = with_keys(tr("The source and target that were here before"), "undo")
    back = button(ui, "translating.restore", tr("Bring back"), ICON_UNDO, hint)
    return [RestoreTarget()] if back else []


def draw_others(state: AppState, ui: Ui) -> list[Action]:
    result = state.translating.result
    if result is None or not result.others:
        return []
    imgui.dummy(ImVec2(0, ui.u(2)))
    text(ui, tr("Other hypotheses of the beam"), bold=True)
    help_mark(ui, tr(SCORE))
    actions: list[Action] = []
    for number, other in enumerate(result.others):
        if _draw_other(ui, number, other):
            actions.append(ChooseHypothesis(number))
    return actions


def _draw_other(ui: Ui, number: int, other: OtherTarget) -> bool:
    """Draw a hypothesis with its score, and return whether it was pressed."""
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    words, room = fit_lines(other.text, SENTENCE) or tr("(no text)"), width - ui.u(GUTTER)
    with ui.font():
        height = imgui.calc_text_size(words, wrap_width=room).y + ui.u(1)
    pressed = press_area(f"translating.other.{number}", ImVec2(width, height))
    ui.mark(f"translating.other.{number}")
    tip(ui, tr(LOOK))
    draw, below = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    if imgui.is_item_hovered():
        end = ImVec2(at.x + width, at.y + height)
        draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    drop = (ui.theme.text - ui.theme.size("small")) / 2
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ui.u(0.5) + drop))
    with ui.font("mono", "small"), ui.colored(text="muted"):
        imgui.text_unformatted(signed(other.score, "8.3f"))
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(GUTTER), at.y + ui.u(0.5)))
    imgui.push_text_wrap_pos(0.0)
    imgui.text_unformatted(words)
    imgui.pop_text_wrap_pos()
    imgui.set_cursor_screen_pos(below)
    imgui.dummy(ImVec2(0, 0))
    return pressed
