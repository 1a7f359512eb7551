"""Byte-pair encoding of a word, one merge after the other: pieces flow together where the rank of
their pair is the lowest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.inspecting.tokenizing import Merge, MergeSteps, TokenizedText, Word
from llm_lite.core.text.token_spelling import symbol_shown
from llm_lite.desktop.features.tokenizer.chips import (
    Chip,
    draw_chip,
    draw_facts,
    draw_word_tokens,
    symbol_facts,
    symbol_title,
    word_colors,
)
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import signed
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, wrapped

WHOLE = mark(
    "The whole word is a token of the vocabulary: this tokenizer takes it without merging."
)
FIRST = mark(
    "The word begins as its {n:,} smallest parts. Between two parts stands the rank of their pair; "
    "the lowest is merged first."
)
FIRST_SCORED = mark(
    "The word begins as its {n:,} characters. Between two parts stands the score of what they "
    "would become; the highest is merged first."
)
MERGED = mark("“{left}” and “{right}” become “{made}”, rank {rank}: the lowest there was.")
MERGED_SCORED = mark("“{left}” and “{right}” become “{made}”, score {rank}: the highest there was.")
DONE = mark("No pair that is left can merge: these are the tokens.")
FLOW = 0.28  # seconds in which two pieces flow together
MOST_ROWS = 4000


class Moment(Struct, frozen=True):
    """The pieces after some merges, the symbols that begin them, and the ranks between them."""

    starts: tuple[int, ...]
    pieces: tuple[str, ...]
    ranks: tuple[float | None, ...]

    @property
    def lowest(self) -> int | None:
        known = [(rank, at) for at, rank in enumerate(self.ranks) if rank is not None]
        return min(known)[1] if known else None


class MergesShown(Struct):
    """The step that was drawn last, and when its merge began to move."""

    steps: MergeSteps | None = None
    at: int = 0
    since: float = -math.inf  # seconds, as `Ui.now`


class MergeRows(Struct):
    """The list of merges of the word that is shown."""

    steps: MergeSteps | None = None
    rows: list[tuple[str, str]] = field(default_factory=list)


def moment(steps: MergeSteps, count: int) -> Moment:
    """Return the pieces after the first `count` merges."""
    starts, pieces, ranks = list(range(len(steps.symbols))), list(steps.symbols), list(steps.ranks)
    for merge in steps.merges[:count]:
        at = merge.at
        pieces[at : at + 2] = [merge.made]
        del starts[at + 1], ranks[at]
        if at > 0:
            ranks[at - 1] = merge.left
        if at < len(ranks):
            ranks[at] = merge.right
    return Moment(tuple(starts), tuple(pieces), tuple(ranks))


def draw(ui: Ui, tokenized: TokenizedText, word: Word, steps: MergeSteps, at: int) -> int | None:
    """Draw the word after `at` merges, and return the step that a click on the list chooses."""
    wrapped(ui, _sentence(tokenized, steps, at), "text")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    _draw_pieces(ui, tokenized, steps, at)
    if at >= len(steps.merges):
        draw_word_tokens(ui, tokenized, word)
    return _draw_list(ui, tokenized, steps, at) if steps.merges else None


def _sentence(tokenized: TokenizedText, steps: MergeSteps, at: int) -> str:
    if steps.whole:
        return tr(WHOLE)
    if at == 0 and steps.merges:
        return tr(FIRST_SCORED if steps.scored else FIRST).format(n=len(steps.symbols))
    if not steps.merges:
        return tr(DONE)
    before, merge = moment(steps, at - 1), steps.merges[at - 1]
    words = tr(MERGED_SCORED if steps.scored else MERGED).format(
        left=symbol_shown(before.pieces[merge.at], tokenized.of_bytes),
        right=symbol_shown(before.pieces[merge.at + 1], tokenized.of_bytes),
        made=symbol_shown(merge.made, tokenized.of_bytes),
        rank=rank_shown(merge.rank, steps.scored),
    )
    return words if at < len(steps.merges) else f"{words} {tr(DONE)}"


def rank_shown(rank: float, scored: bool) -> str:
    return signed(-rank, "z.2f") if scored else f"{rank:,.0f}"


class _Box(Struct, frozen=True):
    x: float
    y: float
    width: float
    gap: float  # behind it


def _draw_pieces(ui: Ui, tokenized: TokenizedText, steps: MergeSteps, at: int) -> None:
    """Draw the pieces after `at` merges; just after a step forward, on their way there."""
    width = imgui.get_content_region_avail().x
    share = _flow(ui, steps, at)
    now = moment(steps, at)
    boxes = _lay_out(ui, tokenized, now, steps.scored, width)
    corner, height = imgui.get_cursor_screen_pos(), _height(ui)
    if share < 1.0:
        before = moment(steps, at - 1)
        _draw_moving(
            ui, tokenized, before, boxes, steps.merges[at - 1], (share, steps.scored, width)
        )
    else:
        pointed = _draw_still(ui, tokenized, now, boxes, steps.scored)
        if pointed is not None:
            symbol = now.pieces[pointed]
            facts = symbol_facts(tokenized, symbol)
            draw_facts(ui, symbol_title(tokenized, symbol), facts)
    lowest = max((box.y for box in boxes), default=0.0) + height
    imgui.set_cursor_screen_pos(corner)
    imgui.dummy(ImVec2(width, lowest))
    ui.mark("tokenizer.merging")


def _height(ui: Ui) -> float:
    return ui.theme.text + ui.u(3)


def _lay_out(
    ui: Ui, tokenized: TokenizedText, now: Moment, scored: bool, width: float
) -> list[_Box]:
    boxes, x, y = list[_Box](), 0.0, 0.0
    for number, piece in enumerate(now.pieces):
        with ui.font():
            wide = imgui.calc_text_size(symbol_shown(piece, tokenized.of_bytes)).x + ui.u(3)
        wide, gap = min(max(wide, ui.u(5)), width), 0.0
        if number < len(now.ranks):
            with ui.font(style="small"):
                gap = imgui.calc_text_size(_label(now.ranks[number], scored)).x + ui.u(1.5)
        if x and x + wide + gap > width:
            x, y = 0.0, y + _height(ui) + ui.u(1.5)
        boxes.append(_Box(x, y, wide, gap))
        x += wide + gap
    return boxes


def _label(rank: float | None, scored: bool) -> str:
    return "·" if rank is None else rank_shown(rank, scored)


def _draw_still(
    ui: Ui, tokenized: TokenizedText, now: Moment, boxes: Sequence[_Box], scored: bool
) -> int | None:
    """Draw pieces at rest, and return the index of the one under the pointer."""
    corner, pointed = imgui.get_cursor_screen_pos(), None
    lowest, hovered = now.lowest, imgui.is_window_hovered()
    for number, (piece, box) in enumerate(zip(now.pieces, boxes, strict=True)):
        spot = (corner.x + box.x, corner.y + box.y)
        _draw_piece(ui, tokenized, piece, now.starts[number], spot, box.width)
        if hovered and ui.at_pointer((*spot, spot[0] + box.width, spot[1] + _height(ui))):
            pointed = number
        if number < len(now.ranks):
            _draw_rank(ui, now.ranks[number], scored, spot, box, number == lowest)
    return pointed


def _draw_piece(
    ui: Ui, tokenized: TokenizedText, piece: str, start: int, at: tuple[float, float], width: float
) -> None:
    chip = Chip(symbol_shown(piece, tokenized.of_bytes))
    colors = word_colors(ui, start, 1)
    draw_chip(ui, chip, (at[0], at[1] + ui.u(0.5)), (width, _height(ui) - ui.u(1)), colors)


def _draw_rank(
    ui: Ui, rank: float | None, scored: bool, at: tuple[float, float], box: _Box, best: bool
) -> None:
    """Draw the rank between two pieces. The pair that merges next has a line below."""
    words, small = _label(rank, scored), ui.theme.size("small")
    draw, face = imgui.get_window_draw_list(), ui.fonts["bold" if best else "regular"]
    with ui.font("bold" if best else "regular", "small"):
        wide = imgui.calc_text_size(words).x
    left = at[0] + box.width
    y = at[1] + (_height(ui) - small) / 2
    color = "link" if best else "faint"
    spot = ImVec2(round(left + (box.gap - wide) / 2), round(y))
    draw.add_text(face, small, spot, ui.color(color), words)
    if best:
        low = at[1] + _height(ui) - ui.u(0.25)
        thick = max(1.0, ui.u(0.5))
        end = ImVec2(left + box.gap + ui.u(1.5), low)
        draw.add_line(ImVec2(left - ui.u(1.5), low), end, ui.color("accent"), thick)


def _flow(ui: Ui, steps: MergeSteps, at: int) -> float:
    """Return how far the last merge has come, 0 to 1: it moves only after a step forward."""
    shown = ui.local(MergesShown)
    if shown.steps is not steps or shown.at != at:
        advanced = shown.steps is steps and shown.at == at - 1
        shown.steps, shown.at, shown.since = steps, at, ui.now if advanced else -math.inf
    share = (ui.now - shown.since) / FLOW
    if share < 1.0:
        ui.redraw_in(1 / 60)
    return float(min(1.0, max(0.0, share)))


def _draw_moving(
    ui: Ui,
    tokenized: TokenizedText,
    before: Moment,
    boxes: Sequence[_Box],
    merge: Merge,
    moving: tuple[float, bool, float],
) -> None:
    """Draw every earlier piece between its old and its new place; two arrive at one."""
    share, scored, width = moving
    share = share * share * (3 - 2 * share)  # it starts and ends slowly
    corner, old = imgui.get_cursor_screen_pos(), _lay_out(ui, tokenized, before, scored, width)
    for number, (piece, box) in enumerate(zip(before.pieces, old, strict=True)):
        target = boxes[number if number <= merge.at else number - 1]
        x, wide = target.x, target.width if number not in (merge.at, merge.at + 1) else box.width
        if number == merge.at + 1:
            x = target.x + target.width - box.width
        here = (box.x + (x - box.x) * share, box.y + (target.y - box.y) * share)
        spot = (corner.x + here[0], corner.y + here[1])
        _draw_piece(ui, tokenized, piece, before.starts[number], spot, wide)


def _draw_list(ui: Ui, tokenized: TokenizedText, steps: MergeSteps, at: int) -> int | None:
    """Draw all merges, the last one that is done framed; return the step that is clicked."""
    imgui.dummy(ImVec2(0, ui.u(1)))
    corner, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    row, clip = float(round(ui.theme.size("small") * 1.7)), imgui.get_window_draw_list()
    low, high = clip.get_clip_rect_min().y, clip.get_clip_rect_max().y
    rows, wanted = _rows(ui, tokenized, steps), None
    for number, words in enumerate(rows):
        y = corner.y + number * row
        if y + row < low or y > high:
            continue
        rect = (corner.x, y, corner.x + width, y + row)
        ui.rects[f"tokenizer.merge.{number}"] = rect
        if _draw_row(ui, rect, number, words, at) and imgui.is_mouse_clicked(0):
            wanted = number + 1
    imgui.dummy(ImVec2(width, row * len(rows)))
    return wanted


def _draw_row(
    ui: Ui, rect: tuple[float, float, float, float], number: int, words: tuple[str, str], at: int
) -> bool:
    """Draw a merge, and return whether the pointer is over it."""
    hovered = imgui.is_window_hovered() and ui.at_pointer(rect)
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    low, high = ImVec2(rect[0], rect[1]), ImVec2(rect[2], rect[3])
    if number == at - 1 or hovered:
        fill = ui.color("accent_soft" if number == at - 1 else "hover")
        draw.add_rect_filled(low, high, fill, ui.u(0.75))
    color = ui.color("text" if number < at else "muted")
    y = round(rect[1] + (rect[3] - rect[1] - small) / 2)
    font = ui.fonts["regular"]
    draw.add_text(font, small, ImVec2(rect[0] + ui.u(1), y), ui.color("muted"), f"{number + 1}")
    with ui.font(style="small"):
        wide = imgui.calc_text_size(words[1]).x
        left = rect[0] + ui.u(8)
        names = fit(words[0], rect[2] - wide - ui.u(3) - left)
    draw.add_text(font, small, ImVec2(left, y), color, names)
    draw.add_text(font, small, ImVec2(rect[2] - wide - ui.u(1), y), ui.color("muted"), words[1])
    return hovered


def _rows(ui: Ui, tokenized: TokenizedText, steps: MergeSteps) -> list[tuple[str, str]]:
    """Return what merges, and its rank, for each merge; the list is made once for a word."""
    kept = ui.local(MergeRows)
    if kept.steps is not steps:
        kept.steps, kept.rows = steps, _made_rows(tokenized, steps)
    return kept.rows


def _made_rows(tokenized: TokenizedText, steps: MergeSteps) -> list[tuple[str, str]]:
    rows, pieces = [], list(steps.symbols)
    for merge in steps.merges[:MOST_ROWS]:
        names = [*pieces[merge.at : merge.at + 2], merge.made]
        left, right, made = (symbol_shown(name, tokenized.of_bytes) for name in names)
        pieces[merge.at : merge.at + 2] = [merge.made]
        rows.append((f"{left}  +  {right}   →   {made}", rank_shown(merge.rank, steps.scored)))
    return rows
