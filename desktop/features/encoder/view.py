"""The page of an encoder: three ways to use it, under one bar."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.encoding import Candidate, EncoderInfo, Mask
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder import pairs, text_page
from llm_lite.desktop.features.encoder.model import (
    ENCODED,
    ChooseEncoding,
    PutWord,
    UndoWord,
    encoder_of,
)
from llm_lite.desktop.features.encoder.state import EncodingMode
from llm_lite.desktop.features.encoder.text_page import (
    KEYS,
    TextField,
    draw_count,
    draw_encoded,
    draw_field,
    field_of,
    same_height,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_NEW, ICON_UNDO
from llm_lite.desktop.widgets.plots.shares import draw_bar, share_words
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, column, fit, text, tip, wrapped

HINT = mark("Write a text with a masked token in it")
NONE = mark("There is no masked token in the text: put one in, or write {mask}.")
PUT_IN = mark("Replace the masked token with {word}")
COLUMN = 74.0  # spacing units that the candidates of a mask take at least


MODES: tuple[tuple[EncodingMode, str], ...] = (
    ("text", mark("Text")), ("pairs", mark("Pairs")), ("fill", mark("Fill in")),
)  # fmt: skip
ABOUT: dict[EncodingMode, str] = {
    "text": mark(
        "An encoder reads a whole text at once and writes none: each token looks at those before "
        "and behind it. Attention shows where."
    ),
    "pairs": mark(
        "Each sentence becomes one vector. The cosine of two vectors says how alike the sentences "
        "are: 1 means the same, 0 nothing in common."
    ),
    "fill": mark(
        "The model guesses a masked token from what stands on both sides of it. That is what it "
        "was trained on."
    ),
}
NO_HEAD = mark(
    "This model has no masked-token head, so it cannot fill in words. Checkpoints that were made "
    "for it, as bert-base-uncased, have one."
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    encoder = encoder_of(state)
    if encoder is None:
        return []
    offset, width = column(ui)
    imgui.begin_child("encoding", ImVec2(0, 0), FLAT, imgui.WindowFlags_.no_saved_settings)
    imgui.set_cursor_pos(ImVec2(offset, ui.u(2)))
    imgui.begin_child("encoding.column", ImVec2(width, 0), imgui.ChildFlags_.auto_resize_y | FLAT)
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(2))):
        actions = _draw_modes(state, ui)
        actions += _draw_page(state, ui, encoder)
    imgui.end_child()
    imgui.end_child()
    return actions


def _draw_modes(state: AppState, ui: Ui) -> list[Action]:
    choice = state.encoding
    mode = chooser(ui, "encoding.mode", tr_labels(MODES), choice.mode)
    wrapped(ui, tr(ABOUT[choice.mode]))
    if mode == choice.mode:
        return []
    return [ChooseEncoding(replace(choice, mode=mode, typing=False))]


def _draw_page(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    mode = state.encoding.mode
    if mode == "pairs":
        return pairs.draw(state, ui, encoder)
    if mode == "text":
        return text_page.draw(state, ui, encoder)
    if not encoder.mask_token:
        wrapped(ui, tr(NO_HEAD), "text")
        ui.mark("encoding.no_head")
        return []
    return draw_fill(state, ui, encoder)


def draw_fill(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    choice = state.encoding
    words = choice.shown_filled(encoder.mask_token)
    held, width = field_of(ui, words), imgui.get_content_region_avail().x
    done = draw_field(ui, held, "encoding.filled", tr(HINT), choice.typing, width)
    draw_count(state, ui, encoder, tr(KEYS))
    actions, inserted = _draw_buttons(state, ui, held, encoder)
    if done.text != words or done.typing != choice.typing or inserted:
        typing = done.typing and not inserted
        changed = replace(choice, filled=held.text, typing=typing)
        actions.append(ChooseEncoding(changed))
    with same_height(state, ui, ENCODED, "masks"):
        actions += _draw_masks(state, ui, encoder)
    imgui.dummy(ImVec2(0, ui.u(1)))
    return actions + draw_encoded(state, ui)


def _draw_buttons(
    state: AppState, ui: Ui, held: TextField, encoder: EncoderInfo
) -> tuple[list[Action], bool]:
    """Draw buttons that insert a mask at the caret, and restore the text before a word was put in;
    return whether a mask was inserted."""
    label = tr("Insert {mask}").format(mask=encoder.mask_token)
    inserted = button(ui, "encoding.mask", label, ICON_NEW)
    if inserted:
        held.insert(encoder.mask_token)
    if not state.encoding.before:
        return [], inserted
    imgui.same_line(0, ui.u(1.5))
    hint = tr("The text as it was before the last word was put in")
    back = button(ui, "encoding.back", tr("Undo the replacement"), ICON_UNDO, hint)
    return ([UndoWord()] if back else []), inserted


def _draw_masks(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    """Draw the candidates of all masks, side by side where there is room for two."""
    answer = ENCODED.answer(state)
    if answer is None:
        return []
    if not answer.masks:
        wrapped(ui, tr(NONE).format(mask=encoder.mask_token))
        return []
    room, gap = imgui.get_content_region_avail().x, ui.u(5)
    columns = max(1, min(len(answer.masks), int((room + gap) / (ui.u(COLUMN) + gap))))
    width = (room - gap * (columns - 1)) / columns
    top, actions = imgui.get_cursor_screen_pos(), list[Action]()
    y = bottom = top.y
    for number, one in enumerate(answer.masks):
        column = number % columns
        if column == 0:
            y = bottom
        imgui.set_cursor_screen_pos(ImVec2(top.x + column * (width + gap), y))
        imgui.begin_group()
        actions += _draw_mask(ui, number, len(answer.masks), one, width)
        imgui.end_group()
        bottom = max(bottom, imgui.get_item_rect_max().y + ui.u(1.5))
    imgui.set_cursor_screen_pos(ImVec2(top.x, bottom))
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_mask(ui: Ui, number: int, count: int, one: Mask, width: float) -> list[Action]:
    if count > 1:
        title = tr("Mask {n} of {count}").format(n=number + 1, count=count)
        text(ui, title, style="small", bold=True)
    for place, candidate in enumerate(one.candidates):
        if _draw_candidate(ui, f"encoding.word.{number}.{place}", candidate, width):
            return [PutWord(number, candidate.text)]
    return []


def _draw_candidate(ui: Ui, name: str, one: Candidate, width: float) -> bool:
    """Draw a word, a bar and its probability in a line, and return whether it was pressed."""
    at, height = imgui.get_cursor_screen_pos(), ui.theme.text + ui.u(2)
    pressed = press_area(name, ImVec2(width, height))
    ui.mark(name)
    if imgui.is_item_hovered():
        end = ImVec2(at.x + width, at.y + height)
        imgui.get_window_draw_list().add_rect_filled(at, end, ui.color("hover"), ui.u(1))
    tip(ui, tr(PUT_IN).format(word=one.text))
    draw, y, room = imgui.get_window_draw_list(), at.y + ui.u(1), ui.u(34)
    with ui.font():
        draw.add_text(ImVec2(at.x + ui.u(1), y), ui.color("text"), fit(one.text, room - ui.u(2)))
    share = share_words(one.probability)
    right = ui.u(13)
    long, thick = max(width - room - right, ui.u(8)), ui.u(1.25)
    spot = ImVec2(at.x + room, at.y + (height - thick) / 2)
    draw_bar(ui, f"{name}.bar", spot, one.probability, long, thick)
    with ui.font(style="small"):
        size = imgui.calc_text_size(share)
        spot = ImVec2(at.x + width - size.x - ui.u(1), at.y + (height - size.y) / 2)
        draw.add_text(ImVec2(round(spot.x), round(spot.y)), ui.color("muted"), share)
    return pressed
