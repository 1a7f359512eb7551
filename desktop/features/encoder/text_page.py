"""One text: where it is written, its tokens, and how long it took."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import TextEncoded
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.field import draw_field, field_of
from llm_lite.desktop.features.encoder.model import ChooseEncoding
from llm_lite.desktop.features.encoder.spelling import Spelling
from llm_lite.desktop.features.encoder.tokens import draw_tokens
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import milliseconds, sentence
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, meter, text, wrapped

HINT = mark("Write a text")
KEYS = mark("Encoded at Enter, or after a pause")
UNREADABLE: dict[Spelling, str] = {
    "unknown": mark(
        "Most of these tokens are unknown ones: the model's vocabulary does not have this text, "
        "so its maps and vectors say little."
    ),
    "parts": mark(
        "The model's vocabulary does not have these words and cuts their characters into parts, "
        "so its maps and vectors say little."
    ),
}
EDGE = 0.9  # of what the model reads, from which the count is a warning


def draw(state: AppState, ui: Ui, encoder: EncoderInfo) -> list[Action]:
    choice = state.encoding.choice
    held = field_of(ui, choice.shown_text)
    width = imgui.get_content_region_avail().x
    done = draw_field(ui, held, "encoding.text", tr(HINT), choice.typing, width)
    actions: list[Action] = []
    if done.text != choice.shown_text or done.typing != choice.typing:
        changed = replace(choice, text=done.text, typing=done.typing)
        actions.append(ChooseEncoding(changed))
    draw_count(state, ui, encoder, tr(KEYS))
    return actions + draw_encoded(state, ui)


def draw_encoded(state: AppState, ui: Ui) -> list[Action]:
    """The tokens of what was encoded for this page, or why there are none."""
    told = state.encoding.shown
    if told is None:
        text(ui, tr("Encoding") if state.encoding.request else "", "muted", "small")
        return []
    if told.problem:
        wrapped(ui, sentence(told.problem), "warning")
        ui.mark("encoding.problem")
        return []
    if told.left_out:
        words = trn(
            "The last token is not read: the model reads no more.",
            "The last {n:,} tokens are not read: the model reads no more.",
            told.left_out,
        )
        wrapped(ui, words.format(n=told.left_out), "warning")
    if state.encoding.spelling != "words":
        wrapped(ui, tr(UNREADABLE[state.encoding.spelling]), "warning")
        ui.mark("encoding.unreadable")
    return draw_tokens(state, ui, told)


def draw_count(
    state: AppState, ui: Ui, encoder: EncoderInfo, words: str, *, bold: bool = False
) -> None:
    """Some words at the left; tokens, of those that are read, and milliseconds at the right."""
    told = state.encoding.shown
    count = count_words(told, encoder)
    with ui.font(style="small"):
        right = imgui.calc_text_size(count).x
    with ui.font("bold" if bold else "regular", "small"):
        words = fit(words, imgui.get_content_region_avail().x - right - ui.u(4))
    place = ui.right(right)
    text(ui, words, "text" if bold else "faint", "small", bold)
    imgui.same_line(place)
    share = len(told.tokens) / encoder.most_tokens if told else 0.0
    text(ui, count, "warning" if share > EDGE else "muted", "small")
    ui.mark("encoding.count")
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(1))
    shade = "warning" if share > EDGE else "accent"
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(0.5), shade)
    imgui.dummy(ImVec2(0, 0))


def count_words(told: TextEncoded | None, encoder: EncoderInfo) -> str:
    if told is None or told.problem:
        return tr("{most:,} tokens at most").format(most=encoder.most_tokens)
    words = tr("{n:,} of {most:,} tokens").format(n=len(told.tokens), most=encoder.most_tokens)
    return f"{words}  ·  {milliseconds(told.seconds)}"
