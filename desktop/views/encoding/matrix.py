"""How alike sentences are: a coloured cell with the cosine for every two of them."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import TextsCompared
from llm_lite.core.records import dataclass
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.encoding.encoding_state import EncodingChoice
from llm_lite.desktop.state.units import signed
from llm_lite.desktop.views.tokens.colors import legible, mix
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text

WIDEST, NARROWEST = 15.0, 9.0  # spacing units of a cell
LEAST_WORDS = 30.0  # spacing units for the sentences beside it


@dataclass(frozen=True, slots=True)
class _Layout:
    """Pixels."""

    words: float  # width of the sentences
    cell: float  # width of a cell
    line: float  # height of one


def draw_matrix(
    ui: Ui, choice: EncodingChoice, places: Sequence[int], told: TextsCompared
) -> tuple[int, int]:
    """Of the sentences at `places`; the pair that is chosen, by its places."""
    laid = _laid(ui, len(places))
    chosen, top = choice.pair, imgui.get_cursor_screen_pos()
    _draw_numbers(ui, places, laid, top)
    sentences = choice.shown_sentences
    for row, one in enumerate(places):
        y = top.y + laid.line * (row + 1)
        _draw_sentence(ui, f"{one + 1}", sentences[one], ImVec2(top.x, y), laid)
        for at, other in enumerate(places):
            spot = ImVec2(top.x + laid.words + at * laid.cell, y)
            value = told.similarities[row][at]
            pair = (one, other)
            if _draw_cell(ui, pair, value, spot, laid, pair == choice.pair, sentences):
                chosen = pair
    imgui.set_cursor_screen_pos(top)
    size = ImVec2(laid.words + laid.cell * len(places), laid.line * (len(places) + 1))
    imgui.dummy(size)
    ui.mark("encoding.matrix")
    return chosen


def closest(told: TextsCompared) -> tuple[int, int]:
    """The two different texts that are most alike."""
    count = len(told.similarities)
    pairs = ((i, j) for i in range(count) for j in range(i + 1, count))
    return max(pairs, key=lambda pair: told.similarities[pair[0]][pair[1]])


def _laid(ui: Ui, count: int) -> _Layout:
    room = imgui.get_content_region_avail().x
    wanted = (room - ui.u(LEAST_WORDS)) / count
    cell = float(int(min(max(wanted, ui.u(NARROWEST)), ui.u(WIDEST))))
    words = max(room - cell * count, ui.u(6))
    return _Layout(words, cell, ui.theme.text + ui.u(3.5))


def _draw_numbers(ui: Ui, places: Sequence[int], laid: _Layout, top: ImVec2) -> None:
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    y = round(top.y + laid.line - small - ui.u(1))
    with ui.font(style="small"):
        name = fit(tr("Cosine similarity of sentences, 1: the same direction"), laid.words)
        draw.add_text(ImVec2(top.x, y), ui.color("muted"), name)
        for at, place in enumerate(places):
            words = f"{place + 1}"
            middle = top.x + laid.words + (at + 0.5) * laid.cell
            x = middle - imgui.calc_text_size(words).x / 2
            draw.add_text(ImVec2(round(x), y), ui.color("muted"), words)


def _draw_sentence(ui: Ui, number: str, words: str, at: ImVec2, laid: _Layout) -> None:
    draw = imgui.get_window_draw_list()
    y = round(at.y + (laid.line - ui.theme.size("small")) / 2)
    with ui.font(style="small"):
        draw.add_text(ImVec2(at.x, y), ui.color("muted"), number)
        one_line = " ".join(words.split())
        shown = fit(one_line, laid.words - ui.u(6))
        draw.add_text(ImVec2(at.x + ui.u(4), y), ui.color("text"), shown)


def _draw_cell(
    ui: Ui, pair: tuple[int, int], value: float, at: ImVec2, laid: _Layout, chosen: bool,
    sentences: Sequence[str],
) -> bool:  # fmt: skip
    """Whether it was pressed."""
    name = f"encoding.pair.{pair[0]}.{pair[1]}"
    imgui.set_cursor_screen_pos(at)
    pressed = press_area(name, ImVec2(laid.cell, laid.line))
    ui.mark(name)
    hovered = imgui.is_item_hovered()
    draw, gap = imgui.get_window_draw_list(), max(1.0, ui.u(0.25))
    low = ImVec2(at.x + gap, at.y + gap)
    high = ImVec2(at.x + laid.cell - gap, at.y + laid.line - gap)
    fill = shade(ui, value)
    draw.add_rect_filled(low, high, u32(fill), ui.u(1))
    if chosen or hovered:
        color = ui.color("text" if chosen else "muted")
        draw.add_rect(low, high, color, ui.u(1), max(1.0, ui.u(0.5)))
    with ui.font("bold" if chosen else "regular", "small"):
        words = cosine_words(value)
        size = imgui.calc_text_size(words)
        spot = ImVec2(at.x + (laid.cell - size.x) / 2, at.y + (laid.line - size.y) / 2)
        draw.add_text(ImVec2(round(spot.x), round(spot.y)), u32(legible(fill)), words)
    if hovered:
        _draw_tip(ui, pair, value, sentences)
    return pressed


def shade(ui: Ui, value: float) -> int:
    """The colour of a cosine, 0xRRGGBB: stronger the more alike; another hue below 0."""
    palette = ui.theme.palette
    toward = palette.accent if value >= 0 else palette.warning
    return mix(palette.hover, toward, min(abs(value), 1.0))


def cosine_words(value: float) -> str:
    """Of two digits, with a real minus; what rounds to nothing has none."""
    return signed(value, "z.2f")


def _draw_tip(ui: Ui, pair: tuple[int, int], value: float, sentences: Sequence[str]) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
        text(ui, tr("Cosine {value}").format(value=signed(value, "z.4f")), bold=True)
        with ui.font(style="small"):
            lines = [fit(" ".join(sentences[i].split()), ui.u(90)) for i in dict.fromkeys(pair)]
        for line in lines:
            text(ui, line, "muted", "small")
        text(ui, tr("Click to see its attention maps."), "faint", "small")
        imgui.end_tooltip()
