"""The tokens of an encoded text as chips, which light up where a token looks."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.core.messages import TextEncoded
from llm_lite.core.messages.encoding import EncodedToken
from llm_lite.core.records import replace
from llm_lite.core.text.tokenization.spelling import shown as signs_shown
from llm_lite.desktop.features.attention.model import SetXRay
from llm_lite.desktop.features.figures.view import draw_save
from llm_lite.desktop.features.program.act import Action
from llm_lite.desktop.features.program.model import SetAttention
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokenizer.chips import (
    Chip,
    ChipColors,
    Paint,
    control_colors,
    draw_chips,
    kept_page,
)
from llm_lite.desktop.features.tokens.colors import shades
from llm_lite.desktop.features.tokens.tokens import draw_looks
from llm_lite.desktop.features.tokens.view import draw_legend_line, draw_look
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text

SPECIAL = mark("The tokenizer's own: it stands for no text.")
UNKNOWN = mark("It stands for a word that the model's vocabulary does not have.")
STRENGTHS = (0.16, 0.30)  # of the chips of neighbouring words
HUES = (0, 1)  # of the first and the second text


def draw_tokens(state: AppState, ui: Ui, told: TextEncoded) -> list[Action]:
    """Chips, and below them how tokens look; in what is left of the line."""
    chips = chips_of(ui, told)
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, "encoding.token.page", chips, chips, width, ui.u(0.5))
    pointed = draw_chips(ui, "encoding.token", chips, page, paint_of(state, ui, told))
    return _draw_bar(state, ui) + _follow(state, ui, told, pointed)


def paint_of(state: AppState, ui: Ui, told: TextEncoded) -> Paint:
    """Where a token looks, while one is pointed at or held; else words, one beside the other."""
    found, words = shades(state, ui), _made(ui, told)[1]
    held = {state.xray.at, state.attention.row}

    def paint(at: int) -> ChipColors:
        edge = ui.color("accent") if at in held else 0
        if found is not None and at < len(found.fills):
            color = found.texts[at] or ui.color("text")
            return ChipColors(found.fills[at], color, found.texts[at] or ui.color("muted"), edge)
        return replace(_plain(ui, told.tokens[at], words[at]), edge=edge or _edge(ui, told, at))

    return paint


def chips_of(ui: Ui, told: TextEncoded) -> list[Chip]:
    return _made(ui, told)[0]


def _plain(ui: Ui, token: EncodedToken, word: int) -> ChipColors:
    """A hue for each text, lighter and stronger from word to word."""
    if token.special:
        return control_colors(ui)
    hue = ui.theme.palette.series[HUES[token.segment % 2]]
    return ChipColors(u32(hue, STRENGTHS[word % 2]), ui.color("text"), ui.color("muted"))


def _edge(ui: Ui, told: TextEncoded, at: int) -> int:
    return ui.color("accent", 0.6) if told.tokens[at].special else 0


def _made(ui: Ui, told: TextEncoded) -> tuple[list[Chip], list[int]]:
    """Chips, and the number of the word that each stands in; made once for an answer."""
    held = ui.memory.get("encoding.tokens")
    if held is None or held[0] is not told:
        chips = [Chip(signs_shown(t.text) or "·", str(t.token)) for t in told.tokens]
        held = ui.memory["encoding.tokens"] = (told, chips, words_of(told.tokens))
    return held[1], held[2]


def words_of(tokens: tuple[EncodedToken, ...]) -> list[int]:
    """The number of the word of each token: a piece that continues one has the number before."""
    spaced = any(token.text.startswith(" ") for token in tokens)
    found, number = list[int](), 0
    for token in tokens:
        continues = not token.text.startswith(" ") if spaced else token.text.startswith("##")
        number += 0 if continues and not token.special else 1
        found.append(number)
    return found


def _draw_bar(state: AppState, ui: Ui) -> list[Action]:
    """By which heads tokens look, and what the colours mean."""
    imgui.dummy((0, ui.u(0.5)))
    side = ui.u(6)
    imgui.begin_group()
    xray, without = draw_look(state, ui, ui.right(side) - ui.u(2))
    imgui.end_group()
    imgui.same_line(ui.right(side))
    actions = draw_save(state, ui, "text", side)
    draw_legend_line(state, ui)
    if xray != state.xray:
        actions.append(SetXRay(xray))
    if without != state.attention.exclude_first:
        actions.append(SetAttention(replace(state.attention, exclude_first=without)))
    return actions


def _follow(state: AppState, ui: Ui, told: TextEncoded, pointed: int | None) -> list[Action]:
    """Where the token under the pointer looks, or the one that is held; a click holds it."""
    row = state.attention.row
    at = row if pointed is None and row is not None and row < len(told.tokens) else pointed
    flipped = bool(imgui.get_io().key_shift) and at is not None
    wanted = replace(state.xray, at=at, flipped=flipped)
    actions: list[Action] = [SetXRay(wanted)] if wanted != state.xray else []
    if pointed is None:
        return actions
    _draw_tip(state, ui, told.tokens[pointed], pointed)
    if imgui.is_mouse_clicked(0):
        held = None if pointed == row else pointed
        actions.append(SetAttention(replace(state.attention, row=held)))
    return actions


def _draw_tip(state: AppState, ui: Ui, token: EncodedToken, position: int) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1.25))):
        if not imgui.begin_tooltip():
            return
        text(ui, f"“{signs_shown(token.text)}”", bold=True)
        facts = (tr("token {n:,}").format(n=token.token), tr("position {n:,}").format(n=position))
        text(ui, "  ·  ".join(facts), "muted", "small")
        if token.special:
            text(ui, tr(UNKNOWN if token.unknown else SPECIAL), "muted", "small")
        draw_looks(state, ui, ui.u(60))
        imgui.end_tooltip()
