"""WordPiece, one look-up after the other: the longest candidate first, until one is a token."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.tokenizing import LongestMatches, TokenizedText, Word
from llm_lite.core.text.tokenization.matching import candidate
from llm_lite.core.text.tokenization.spelling import shown
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.views.tokenizing import colors
from llm_lite.desktop.views.tokenizing.chips import Chip, Look, draw_chip
from llm_lite.desktop.views.tokenizing.word_tokens import draw_word_tokens
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_CLOSE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import wrapped

START = mark(
    "The longest beginning of the word that is a token is taken; then again, for the rest."
)
TOO_LONG = mark("The word has more characters than this tokenizer looks at: it is unknown.")
HIT = mark("“{candidate}” is a token, and the longest here: it is taken.")
MISS = mark("“{candidate}” is no token: the next candidate is one character shorter.")
NOTHING = mark("“{candidate}” is no token, and nothing shorter is left: the whole word is unknown.")


def draw(ui: Ui, told: TokenizedText, word: Word, found: LongestMatches, at: int) -> None:
    """After `at` look-ups."""
    tries = found.tries
    wrapped(ui, _sentence(word, found, at), "text")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    _draw_word(ui, word, found, at)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if at >= len(tries):
        draw_word_tokens(ui, told, word)
        imgui.dummy(ImVec2(0, ui.u(0.5)))
    _draw_tries(ui, word, found, at)


def _sentence(word: Word, found: LongestMatches, at: int) -> str:
    if found.too_long:
        return tr(TOO_LONG)
    if at == 0:
        return tr(START)
    start, end, hit = found.tries[at - 1]
    last = at == len(found.tries) and not hit
    words = HIT if hit else NOTHING if last else MISS
    return tr(words).format(candidate=shown(candidate(word.spelled, start, end, found.prefix)))


def _draw_word(ui: Ui, word: Word, found: LongestMatches, at: int) -> None:
    """Its characters: what is taken in the colours of tokens, the candidate framed."""
    taken = [(start, end) for start, end, hit in found.tries[:at] if hit]
    looked = found.tries[at - 1] if at else None
    corner, height = imgui.get_cursor_screen_pos(), ui.theme.text + ui.u(2)
    width, x, y = imgui.get_content_region_avail().x, 0.0, 0.0
    for number, char in enumerate(word.spelled[:400]):
        part = next((n for n, (a, b) in enumerate(taken) if a <= number < b), None)
        look = colors.of_word(ui, part, 1) if part is not None else _plain(ui)
        if looked is not None and looked[0] <= number < looked[1]:
            edge = ui.color("good" if looked[2] else "warning")
            look = Look(look.fill, look.text, look.below, edge)
        with ui.font():
            wide = imgui.calc_text_size(shown(char)).x + ui.u(2)
        if x + wide > width:
            x, y = 0.0, y + height + ui.u(0.5)
        spot = (corner.x + x, corner.y + y)
        draw_chip(ui, Chip(shown(char)), spot, (wide, height), look)
        x += wide + ui.u(0.25)
    imgui.dummy(ImVec2(width, y + height))
    ui.mark("tokenizer.matching")


def _plain(ui: Ui) -> Look:
    return Look(ui.color("hover"), ui.color("text"), ui.color("muted"))


def _draw_tries(ui: Ui, word: Word, found: LongestMatches, at: int) -> None:
    """What was looked up, the newest first; only lines in sight are drawn."""
    corner, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    small = ui.theme.size("small")
    row = float(round(small * 1.6))
    low, high = draw.get_clip_rect_min().y, draw.get_clip_rect_max().y
    for line, (start, end, hit) in enumerate(reversed(found.tries[:at])):
        y = corner.y + line * row
        if y + row < low or y > high:
            continue
        color = ui.color("good" if hit else "faint")
        icon, font = ICON_CHECK if hit else ICON_CLOSE, ui.fonts["bold" if hit else "regular"]
        draw.add_text(font, small, ImVec2(corner.x + ui.u(1), round(y)), color, icon)
        words = shown(candidate(word.spelled, start, end, found.prefix))
        ink = ui.color("text" if hit else "muted")
        draw.add_text(font, small, ImVec2(corner.x + ui.u(7), round(y)), ink, words)
    imgui.dummy(ImVec2(imgui.get_content_region_avail().x, row * at))
