"""Chips: parts of a text in lines, with small notes below, in colours, with tips about each.

Only those in sight are drawn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText, TokenPiece, Word
from llm_lite.core.text.token_spelling import (
    code_points,
    data_shown,
    hexadecimal,
    shown,
    symbol_bytes,
    symbol_shown,
)
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text

Fact = tuple[str, str]  # what it is, its value
MOST_WIDTHS = 40_000  # words whose width is remembered
MARKED = 400  # chips whose places the tour and the tests can find
_HUES = (0, 1, 2, 3, 4, 5)
_STRENGTHS = (0.20, 0.34)  # of neighbours in a word


class Chip(Struct, frozen=True):
    words: str
    below: str = ""  # small, under it
    breaks: bool = False  # the next one begins a line


class ChipBox(Struct, frozen=True):
    """Pixels from the upper left corner of all chips."""

    x: float
    line: int
    width: float


class ChipPage(Struct, frozen=True):
    boxes: tuple[ChipBox, ...]
    firsts: tuple[int, ...]  # index of each line's first box
    pitch: float  # from line to line
    chip: float  # height of one
    width: float

    @property
    def height(self) -> float:
        return len(self.firsts) * self.pitch

    def between(self, low: float, high: float) -> range:
        """Return the indices of boxes in lines that touch low..high."""
        if not self.boxes:
            return range(0)
        first = max(0, int(low // self.pitch))
        last = int(high // self.pitch) + 1
        ends = [*self.firsts, len(self.boxes)]
        if first >= len(self.firsts) or last <= 0:
            return range(0)
        return range(ends[first], ends[min(last, len(self.firsts))])

    def at(self, x: float, y: float) -> int | None:
        line = int(y // self.pitch) if y >= 0 else -1
        if not 0 <= line < len(self.firsts) or y - line * self.pitch > self.chip:
            return None
        ends = [*self.firsts, len(self.boxes)]
        row = self.boxes[ends[line] : ends[line + 1]]
        found = bisect_right(row, x, key=lambda box: box.x) - 1
        inside = found >= 0 and x < row[found].x + row[found].width
        return ends[line] + found if inside else None


class ChipColors(Struct, frozen=True):
    """Packed colours of a chip; 0: nothing is drawn."""

    fill: int
    text: int
    below: int
    edge: int = 0  # a line around


Paint = Callable[[int], ChipColors]


class KeptPage(Struct):
    """A layout of chips, and what it was made for."""

    made_of: object
    size: tuple[float, float, float]  # pixels: width, gap, size of text
    page: ChipPage


class ChipMeasures(Struct):
    """Layouts by name, and widths of words by style and size of text."""

    pages: dict[str, KeptPage] = field(default_factory=dict)
    widths: dict[tuple[str, float], dict[str, float]] = field(default_factory=dict)


class WordChips(Struct):
    """The chips of the tokens that the word in sight becomes."""

    word: Word | None = None
    chips: list[Chip] = field(default_factory=list)


def kept_page(
    ui: Ui, name: str, made_of: object, chips: Sequence[Chip], width: float, gap: float
) -> ChipPage:
    """Lay out chips once for what they are made of, a width and a size of text."""
    pages, size = ui.local(ChipMeasures).pages, (width, gap, ui.theme.text)
    kept = pages.get(name)
    if kept is None or kept.made_of is not made_of or kept.size != size:
        kept = pages[name] = KeptPage(made_of, size, lay_out_chips(ui, chips, width, gap))
    return kept.page


def lay_out_chips(ui: Ui, chips: Sequence[Chip], width: float, gap: float) -> ChipPage:
    """Lay out chips in lines of `width` pixels, with `gap` between neighbours."""
    pad, least = ui.u(1.25), ui.u(4)
    has_below = any(chip.below for chip in chips)
    height = ui.theme.text + ui.u(1.5) + (ui.theme.size("small") + ui.u(0.5) if has_below else 0)
    wide = _widths(ui, [chip.words for chip in chips], "body")
    if has_below:
        below = _widths(ui, [chip.below for chip in chips], "small")
        wide = list(map(max, wide, below))
    boxes, firsts, x, line, fresh = list[ChipBox](), list[int](), 0.0, -1, True
    for chip, one in zip(chips, wide, strict=True):
        taken = min(max(one + 2 * pad, least), width)
        if fresh or x + taken > width:
            x, line = 0.0, line + 1
            firsts.append(len(boxes))
        boxes.append(ChipBox(x, line, taken))
        x += taken + gap
        fresh = chip.breaks
    return ChipPage(tuple(boxes), tuple(firsts), height + ui.u(1.25), height, width)


def _widths(ui: Ui, words: Sequence[str], style: str) -> list[float]:
    """Measure words, in pixels; widths that were measured before are kept."""
    known = ui.local(ChipMeasures).widths.setdefault((style, ui.theme.size(style)), {})
    if len(known) > MOST_WIDTHS:
        known.clear()
    with ui.font(style=style):
        for word in set(words).difference(known):
            known[word] = float(imgui.calc_text_size(word).x)
    return [known[word] for word in words]


def draw_chips(
    ui: Ui, name: str, chips: Sequence[Chip], page: ChipPage, paint: Paint
) -> int | None:
    """Draw chips from the cursor on, and return the index of the one under the pointer."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    low, high = draw.get_clip_rect_min().y - at.y, draw.get_clip_rect_max().y - at.y
    for number in page.between(low, high):
        box = page.boxes[number]
        spot = (at.x + box.x, at.y + box.line * page.pitch)
        draw_chip(ui, chips[number], spot, (box.width, page.chip), paint(number))
        if number < MARKED:
            end = (spot[0] + box.width, spot[1] + page.chip)
            ui.rects[f"{name}.{number}"] = (*spot, *end)
    imgui.dummy(ImVec2(page.width, max(page.height - ui.u(1.25), 1.0)))
    ui.mark(name)
    if not imgui.is_item_hovered():
        return None
    mouse = imgui.get_mouse_pos()
    return page.at(mouse.x - at.x, mouse.y - at.y)


def draw_chip(
    ui: Ui, chip: Chip, at: tuple[float, float], size: tuple[float, float], colors: ChipColors,
    draw: imgui.ImDrawList | None = None,
) -> None:  # fmt: skip
    draw, text = draw or imgui.get_window_draw_list(), ui.theme.text
    low, high = ImVec2(*at), ImVec2(at[0] + size[0], at[1] + size[1])
    if colors.fill:
        draw.add_rect_filled(low, high, colors.fill, ui.u(1))
    if colors.edge:
        draw.add_rect(low, high, colors.edge, ui.u(1), max(1.0, ui.u(0.4)))
    top = at[1] + ui.u(0.75)
    room = size[0] - ui.u(1)
    with ui.font():
        words = fit(chip.words, room)
        x = at[0] + (size[0] - imgui.calc_text_size(words).x) / 2
        draw.add_text(ImVec2(round(x), round(top)), colors.text, words)
    if chip.below:
        with ui.font(style="small"):
            words = fit(chip.below, room)
            x = at[0] + (size[0] - imgui.calc_text_size(words).x) / 2
            draw.add_text(ImVec2(round(x), round(top + text + ui.u(0.25))), colors.below, words)


def draw_word_tokens(ui: Ui, tokenized: TokenizedText, word: Word) -> None:
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    text(ui, tr("Tokens"), style="small", bold=True)
    kept = ui.local(WordChips)
    if kept.word is not word:
        kept.word = word
        kept.chips = [Chip(data_shown(piece.data), str(piece.id)) for piece in word.pieces]
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, "tokenizer.result.page", word, kept.chips, width, ui.u(0.5))

    def paint(number: int) -> ChipColors:
        return word_colors(ui, number, 1)

    pointed = draw_chips(ui, "tokenizer.token", kept.chips, page, paint)
    if pointed is not None:
        piece = word.pieces[pointed]
        draw_facts(ui, piece_title(piece), piece_facts(tokenized, piece))


def word_colors(ui: Ui, word: int, part: int = 0, *, edge: bool = False) -> ChipColors:
    series = ui.theme.palette.series
    hue = series[_HUES[word % len(_HUES)]]
    line = ui.color("accent") if edge else 0
    return ChipColors(u32(hue, _STRENGTHS[part % 2]), ui.color("text"), ui.color("muted"), line)


def control_colors(ui: Ui) -> ChipColors:
    """Return the colours of a control token."""
    accent = ui.color("link")
    return ChipColors(ui.color("accent_soft"), accent, accent, ui.color("accent", 0.6))


def template_colors(ui: Ui, part: int) -> ChipColors:
    """Return the colours of what the chat template writes."""
    fill = ui.color("hover", 0.55 if part % 2 else 1.0)
    return ChipColors(fill, ui.color("muted"), ui.color("faint"))


def is_typed(tokenized: TokenizedText, start: int) -> bool:
    """Return whether a character is of a message, not of the template, or of a plain text."""
    return not tokenized.typed or any(low <= start < high for low, high in tokenized.typed)


def draw_facts(ui: Ui, title: str, facts: Sequence[Fact], note: str = "") -> None:
    """Draw a tooltip: a title, and values beside their names."""
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
        text(ui, title, bold=True)
        column = 0.0
        with ui.font(style="small"):
            names = [imgui.calc_text_size(name).x for name, _ in facts]
            column = max(names, default=0.0) + ui.u(3)
        start = imgui.get_cursor_pos_x()
        for name, value in facts:
            text(ui, name, "muted", "small")
            imgui.same_line(start + column)
            text(ui, value, style="small")
        if note:
            imgui.push_text_wrap_pos(start + ui.u(64))
            text(ui, note, "muted", "small")
            imgui.pop_text_wrap_pos()
        imgui.end_tooltip()


def piece_facts(tokenized: TokenizedText, piece: TokenPiece) -> list[Fact]:
    facts = [
        (tr("Token"), f"{piece.id:,}"),
        (tr("In the vocabulary"), shown_as_spelled(piece.token)),
    ]
    facts.append((tr("Bytes"), hexadecimal(piece.data)))
    characters = tokenized.text[piece.start : piece.end]
    if characters:
        facts.append((tr("Characters"), shown(characters)))
        facts.append((tr("Code points"), code_points(characters)))
    return facts


def piece_title(piece: TokenPiece) -> str:
    return f"“{data_shown(piece.data)}”"


def symbol_facts(tokenized: TokenizedText, symbol: str) -> list[Fact]:
    data = symbol_bytes(symbol, tokenized.of_bytes)
    return [
        (tr("In the vocabulary"), shown_as_spelled(symbol)),
        (tr("Bytes"), hexadecimal(data)),
    ]


def symbol_title(tokenized: TokenizedText, symbol: str) -> str:
    return f"“{symbol_shown(symbol, tokenized.of_bytes)}”"


def shown_as_spelled(token: str) -> str:
    """Show a token as the vocabulary spells it, "Ġthe" or "▁the", with dots for unprintables."""
    return "".join(char if char.isprintable() else "·" for char in token[:48])
