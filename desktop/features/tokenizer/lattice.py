"""A Unigram model's lattice: every token that fits a word is a bar over its characters; the best
path is found from left to right, and read from right to left."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import Edge, Lattice, TokenizedText, Word
from llm_lite.core.text.token_spelling import shown
from llm_lite.desktop.features.tokenizer.chips import draw_facts, draw_word_tokens
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import signed
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, wrapped

START = mark(
    "Each bar is a token that fits; its number is the score, the logarithm of how likely it is. "
    "Of all ways from the left to the right, the one with the highest sum is taken."
)
SO_FAR = mark(
    "The best way to cut the first {n:,} characters has the sum {total}; it ends with “{token}”."
)
NOWHERE = mark("No token ends after {n:,} characters: no way leads there.")
BEST = mark("The best path has the sum {total}: its bars are the tokens.")
MOST_ROWS = 24


class Bars(Struct, frozen=True):
    """Rows of bars, by edge. They are filled from the top, so that no bars overlap."""

    rows: tuple[int, ...]
    count: int


class LatticeBars(Struct):
    """The rows of the lattice that is shown."""

    lattice: Lattice | None = None
    bars: Bars = Bars((), 0)


def draw(ui: Ui, tokenized: TokenizedText, word: Word, lattice: Lattice, at: int) -> None:
    """Draw the lattice after `at` steps: each reaches one more place, the last reads the path."""
    done = at >= lattice.count
    reached = min(at, len(word.spelled))
    wrapped(ui, _sentence(lattice, reached, at, done), "text")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    bars = _bars(ui, lattice)
    column = _column(ui, word, lattice)
    height = ui.theme.text + ui.u(8) + min(bars.count, MOST_ROWS) * _row(ui)
    height += imgui.get_style().scrollbar_size + imgui.get_style().item_spacing.y
    width = imgui.get_content_region_avail().x
    flags = imgui.WindowFlags_.horizontal_scrollbar | imgui.WindowFlags_.no_saved_settings
    imgui.begin_child("lattice", ImVec2(width, height), FLAT, flags)
    _draw_bars(ui, word, lattice, bars, (column, reached, done))
    imgui.end_child()
    if done:
        draw_word_tokens(ui, tokenized, word)


def _sentence(lattice: Lattice, reached: int, at: int, done: bool) -> str:
    if done:
        return tr(BEST).format(total=signed(lattice.totals[-1] or 0.0, "z.2f"))
    if at == 0:
        return tr(START)
    total, edge = lattice.totals[reached], arriving(lattice, reached)
    if total is None or edge is None:
        return tr(NOWHERE).format(n=reached)
    return tr(SO_FAR).format(n=reached, total=signed(total, "z.2f"), token=shown(edge.token))


def arriving(lattice: Lattice, end: int) -> Edge | None:
    """Return the last token of the best path to a place; of equal paths the first that is found."""
    found, best = None, 0.0
    for edge in lattice.edges:
        before = lattice.totals[edge.start]
        if edge.end != end or before is None:
            continue
        total = edge.score + before
        if found is None or total > best:
            found, best = edge, total
    return found


def _bars(ui: Ui, lattice: Lattice) -> Bars:
    kept = ui.local(LatticeBars)
    if kept.lattice is not lattice:
        kept.lattice, kept.bars = lattice, stacked(lattice)
    return kept.bars


def stacked(lattice: Lattice) -> Bars:
    """Put the best path into the first row, and each other bar into the next row with room."""
    on_path = set(lattice.best)
    taken: list[list[tuple[int, int]]] = [
        [(lattice.edges[number].start, lattice.edges[number].end) for number in lattice.best]
    ]
    rows = []
    for number, edge in enumerate(lattice.edges):
        if number in on_path:
            rows.append(0)
            continue
        row = 1
        while row < len(taken) and any(a < edge.end and edge.start < b for a, b in taken[row][-8:]):
            row += 1
        if row == len(taken):
            taken.append([])
        taken[row].append((edge.start, edge.end))
        rows.append(row)
    return Bars(tuple(rows), len(taken))


def _row(ui: Ui) -> float:
    return ui.theme.size("small") + ui.u(3)


def _column(ui: Ui, word: Word, lattice: Lattice) -> float:
    """Return the width of a character: all the room, within limits in spacing units."""
    room = imgui.get_content_region_avail().x - ui.u(1)
    return float(max(ui.u(11), min(room / max(len(word.spelled), 1), ui.u(22))))


def _draw_bars(
    ui: Ui, word: Word, lattice: Lattice, bars: Bars, how: tuple[float, int, bool]
) -> None:
    column, reached, done = how
    corner, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    low, high = draw.get_clip_rect_min().x, draw.get_clip_rect_max().x
    first = max(0, int((low - corner.x) // column) - 1)
    last = min(len(word.spelled), int((high - corner.x) // column) + 2)
    for at in range(first, last):
        _draw_character(ui, word.spelled[at], corner.x + at * column, corner.y, column)
    top = corner.y + ui.theme.text + ui.u(2)
    on_path, arrived = (
        set(lattice.best),
        None if done or not reached else arriving(lattice, reached),
    )
    for number, edge in enumerate(lattice.edges):
        row = bars.rows[number]
        if row >= MOST_ROWS or edge.end < first or edge.start > last:
            continue
        spot = (corner.x + edge.start * column, top + row * _row(ui))
        strong = (done and number in on_path) or edge is arrived
        seen = done or edge.end <= reached
        _draw_bar(ui, edge, spot, (edge.end - edge.start) * column, (seen, strong))
    rows = min(bars.count, MOST_ROWS)
    _draw_totals(ui, lattice, (corner.x, top + rows * _row(ui)), column, (reached, done))
    imgui.dummy(ImVec2(len(word.spelled) * column, ui.theme.text + rows * _row(ui) + ui.u(6)))
    ui.mark("tokenizer.lattice")


def _draw_character(ui: Ui, char: str, x: float, y: float, column: float) -> None:
    words = shown(char)
    with ui.font("bold"):
        wide = imgui.calc_text_size(words).x
    spot = ImVec2(round(x + (column - wide) / 2), round(y))
    draw = imgui.get_window_draw_list()
    draw.add_text(ui.fonts["bold"], ui.theme.text, spot, ui.color("text"), words)


def _draw_bar(
    ui: Ui, edge: Edge, at: tuple[float, float], width: float, how: tuple[bool, bool]
) -> None:
    seen, strong = how
    draw, small, gap = imgui.get_window_draw_list(), ui.theme.size("small"), ui.u(0.25)
    low, high = (
        ImVec2(at[0] + gap, at[1] + gap),
        ImVec2(at[0] + width - gap, at[1] + _row(ui) - gap),
    )
    series = ui.theme.palette.series[5 if edge.id is None else edge.end - edge.start - 1 & 3]
    fill = ui.color("accent") if strong else u32(series, 0.30 if seen else 0.10)
    draw.add_rect_filled(low, high, fill, ui.u(1))
    ink = ui.color("on_accent" if strong else "text" if seen else "muted")
    with ui.font(style="small"):
        score = signed(edge.score, "z.1f")
        words = f"{shown(edge.token)}  {score}" if edge.end - edge.start > 1 else score
        words = fit(words, width - ui.u(1.5))
        wide = imgui.calc_text_size(words).x
    spot = ImVec2(round(at[0] + (width - wide) / 2), round(at[1] + (_row(ui) - small) / 2))
    draw.add_text(ui.fonts["regular"], small, spot, ink, words)
    if imgui.is_window_hovered() and ui.at_pointer((low.x, low.y, high.x, high.y)):
        number = tr("no token: an unknown character") if edge.id is None else f"{edge.id:,}"
        facts = [(tr("Token"), number), (tr("Score"), signed(edge.score, "z.4f"))]
        draw_facts(ui, f"“{shown(edge.token)}”", facts)


def _draw_totals(
    ui: Ui, lattice: Lattice, at: tuple[float, float], column: float, how: tuple[int, bool]
) -> None:
    """Draw the best sum up to each border between characters, below it."""
    reached, done = how
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    with ui.font(style="small"):
        for place, total in enumerate(lattice.totals):
            if place == 0 or total is None or (place > reached and not done):
                continue
            words = signed(total, "z.1f")
            x = at[0] + place * column - imgui.calc_text_size(words).x - ui.u(0.5)
            color = ui.color("link" if place == reached and not done else "muted")
            spot = ImVec2(round(x), round(at[1] + ui.u(0.5)))
            draw.add_text(ui.fonts["regular"], small, spot, color, words)
