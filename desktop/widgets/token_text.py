"""Text laid out token by token: lines of boxes, each the part of a token that stands on a line.

Positions are in pixels from the upper left corner of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.widgets.markdown.wrapping import WORD
from llm_lite.desktop.widgets.ui import Ui

OPAQUE = 224  # alpha, of 255
BREAK = "↵"
NO_TOKEN = -1
WIDTHS = 20_000  # words whose width is remembered
PIECE = 8  # characters


class Box(Struct, frozen=True):
    x: float
    line: int
    width: float
    text: str
    token: int  # or NO_TOKEN


class TokenPage(Struct, frozen=True):
    boxes: tuple[Box, ...]  # line by line
    lines: int
    line: float  # height of one

    @property
    def height(self) -> float:
        return self.lines * self.line

    def between(self, low: float, high: float) -> tuple[Box, ...]:
        """Return the boxes of the lines that touch low..high."""
        first = bisect_left(self.boxes, int(low // self.line), key=_line)
        return self.boxes[first : bisect_right(self.boxes, int(high // self.line), key=_line)]

    def at(self, x: float, y: float) -> int:
        """Return the token there, or NO_TOKEN."""
        for box in self.between(y, y):
            if box.line * self.line <= y and box.x <= x < box.x + box.width:
                return box.token
        return NO_TOKEN


def _line(box: Box) -> int:
    return box.line


def lay_out(ui: Ui, text: str, spans: tuple[tuple[int, int], ...], width: float) -> TokenPage:
    """`text` in `width` pixels; `spans` are the characters of its tokens, in order."""
    boxes: list[Box] = []
    x, line = 0.0, 0
    with ui.font():
        measure = _measure(ui)
        for parts, advance in _words(text, spans, measure, width):
            blank = not parts[0][0].strip(" \t")
            if x > 0 and x + advance > width and not blank and parts[0][0] != "\n":
                x, line = 0.0, line + 1
            if blank and x == 0 and boxes and boxes[-1].text != BREAK and line:
                continue
            for word, token, wide in parts:
                _add(boxes, Box(x, line, wide, BREAK if word == "\n" else word, token))
                x += wide
            if parts[0][0] == "\n":
                x, line = 0.0, line + 1
    return TokenPage(tuple(boxes), line + 1, ui.theme.line + ui.u(1))


def _add(boxes: list[Box], box: Box) -> None:
    """Add a box. Parts of a token that follow each other on a line are one box."""
    last = boxes[-1] if boxes else None
    joined = last is not None and (last.line, last.token) == (box.line, box.token)
    if last is None or not joined or BREAK in (last.text, box.text):
        boxes.append(box)
        return
    wide, words = last.width + box.width, last.text + box.text
    boxes[-1] = Box(last.x, last.line, wide, words, last.token)


def _words(
    text: str,
    spans: tuple[tuple[int, int], ...],
    measure: Callable[[str], float],
    width: float,
) -> Iterator[tuple[list[tuple[str, int, float]], float]]:
    """Yield unbreakable words as parts (text, token, width) and their width together."""
    token = 0
    for match in WORD.finditer(text):
        parts: list[tuple[str, int, float]] = []
        at, stop, total = match.start(), match.end(), 0.0
        while at < stop:
            while token < len(spans) and spans[token][1] <= at:
                token += 1
            inside = token < len(spans) and spans[token][0] <= at
            owner = token if inside else NO_TOKEN
            end = spans[token][1 if inside else 0] if token < len(spans) else stop
            word = text[at : min(end, stop)]
            wide = measure(word)
            parts.append((word, owner, wide))
            total += wide
            at += len(word)
        if total <= width:
            yield parts, total
            continue
        for (
            word,
            owner,
            _,
        ) in parts:  # longer than a line: broken anywhere, but not letter by letter
            for first in range(0, len(word), PIECE):
                piece = word[first : first + PIECE]
                yield [(piece, owner, measure(piece))], measure(piece)


class TokenWidths(Struct):
    """Widths of words in pixels, by the word and the size of the font."""

    known: dict[tuple[str, float], float] = field(default_factory=dict)


def _measure(ui: Ui) -> Callable[[str], float]:
    """Return a function that measures widths in the current font, and remembers them."""
    known = ui.local(TokenWidths).known
    size = ui.theme.text
    if len(known) > WIDTHS:
        known.clear()

    def measure(word: str) -> float:
        found = known.get((word, size))
        if found is None:
            shown = BREAK if word == "\n" else word.replace("\t", "    ")
            found = known[word, size] = float(imgui.calc_text_size(shown).x)
        return found

    return measure


def draw_boxes(
    ui: Ui,
    page: TokenPage,
    at: tuple[float, float],
    color_of: Callable[[int], tuple[int, int]],
    marked: dict[int, int],
    draw: imgui.ImDrawList,
) -> None:
    """Draw the boxes in sight. `color_of` gives the colours behind and of a token's text, 0 for
    nothing; `marked` tokens get a line around in a colour."""
    low, high = draw.get_clip_rect_min().y - at[1], draw.get_clip_rect_max().y - at[1]
    size, pad, least = ui.theme.text, ui.u(0.25), ui.u(1.75)
    font, faint = ui.fonts["regular"], ui.color("faint")
    boxes = list(page.between(low, high))
    looks = [color_of(box.token) for box in boxes]
    for box, (fill, _) in zip(boxes, looks, strict=True):
        if fill:
            # A full stop is narrow, and its colour counts as much; tints would show an overlap.
            more = max(0.0, (least - box.width) / 2) if fill >> 24 >= OPAQUE else 0.0
            left, top = at[0] + box.x - more, at[1] + box.line * page.line
            corner = ImVec2(left + box.width + 2 * more, top + page.line - pad)
            draw.add_rect_filled(ImVec2(left, top + pad), corner, fill, ui.u(0.5))
    for box, (fill, color) in zip(boxes, looks, strict=True):
        top = at[1] + box.line * page.line
        left, right = at[0] + box.x, at[0] + box.x + box.width
        corners = ImVec2(left, top + pad), ImVec2(right, top + page.line - pad)
        spot = ImVec2(left, round(top + (page.line - size) / 2))
        draw.add_text(
            font, size, spot, faint if box.text == BREAK and not fill else color, box.text
        )
        if box.token in marked:
            thick = max(1.0, ui.u(0.4))  # outside of the box, or it would lie on its letters
            outer = ImVec2(corners[0].x - thick, corners[0].y - thick / 2)
            end = ImVec2(corners[1].x + thick, corners[1].y + thick / 2)
            draw.add_rect(outer, end, marked[box.token], ui.u(0.5), thick)


LABEL_CHARACTERS = 12
NAMED = re.compile(
    r"(<[|｜]?)([^<>|｜]+)([|｜]?>)$"
)  # a token that stands for no text, as <|im_end|>


def visible(words: str, most: int = LABEL_CHARACTERS) -> str:
    """A token on one line: what cannot be seen has a sign."""
    shown = words.replace("\n", "⏎").replace("\t", "→").strip(" ") or "␣"
    if not shown.isprintable() and len(shown) == 1:
        shown = f"U+{ord(shown):04X}"
    if len(shown) <= most:
        return shown
    named = NAMED.match(shown)
    if named is not None and most > 6:  # its marks stay, or it would look like a word of the text
        opens, name, closes = named.groups()
        return f"{opens}{name[: most - 1 - len(opens + closes)]}…{closes}"
    return shown[: most - 1] + "…"
