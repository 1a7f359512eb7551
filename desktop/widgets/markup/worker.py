"""In a process apart: formulas to outlines, code to colours. Started by `process`, in no other way.

TeX is a language in which little makes much, and a lexer is full of regular expressions: here the
system bounds what they take, and no frame waits for them.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from html import unescape
from typing import Any

from llm_lite.core.text.code_classes import CLASSES
from llm_lite.core.text.sandbox.serving import Action, Answer, serve

EM = 1000.0  # units of outlines
LETTER = "letter"  # an element of ours in the drawing
HANGUL, FULL = 0.79, 0.93  # em that letters of the text's font are wide, at the size of the text
BODY = (-0.12, 0.78)  # em below and above the baseline
FLAT = 6  # straight pieces of a curve
MOST_POINTS, MOST_EMS = 60_000, 120.0
NUMBER = re.compile(r"[MLQCZ]|-?\d+(?:\.\d+)?(?:e-?\d+)?")
UNKNOWN = re.compile(r"<m[ion][^>]*>(?:\\|&#x0005C;)[A-Za-z]")
TEXT = re.compile(r">([^<]+)<")

Point = tuple[float, float]


def main() -> None:
    serve(_actions)


def _actions() -> Mapping[str, Action]:
    return {"formula": _formula, "highlight": _highlight}


def _formula(request: dict[str, Any], data: bytes) -> Answer:
    """Return the contours of a formula, in thousandths of an em from the left end of its baseline,
    y downwards: lists of x and y in turn."""
    from latex2mathml.converter import convert
    from ziamath.config import config
    from ziamath.zmath import Latex

    config.svg2 = False
    lend_letters()
    _measure_rows_once()
    tex, display = request["tex"], request["display"]
    if UNKNOWN.search(convert(tex)):
        raise ValueError("it has a command that is not known")
    made = Latex(tex, size=EM, inline=not display, margin=0.0)
    _check_letters(made)
    drawn = made.svgxml()
    left, top, width, height = (float(part) for part in drawn.attrib["viewBox"].split())
    if width > MOST_EMS * EM or height > MOST_EMS * EM:
        raise ValueError("it is too large")
    contours: list[list[int]] = []
    letters: list[list[Any]] = []
    for element in drawn.iter():
        if element.tag == LETTER:
            x, y, em = (float(element.attrib[name]) for name in ("x", "y", "em"))
            letters.append([element.attrib["letter"], round(x - left), round(y), round(em)])
        for contour in _contours(element):
            contours.append([round(v) for x, y in contour for v in (x - left, y)])
    if sum(map(len, contours)) > 2 * MOST_POINTS:
        raise ValueError("it has too many points")
    farthest = max((abs(value) for contour in contours for value in contour), default=0)
    if farthest > MOST_EMS * EM or height < 0:
        raise ValueError("a part of it lies far away")
    shape = {"width": width, "ascent": -top, "descent": top + height}
    return {"contours": contours, "letters": letters, **shape}


@cache
def _measure_rows_once() -> None:
    """Measure a row only once where no sign stretches. ziamath lays a row out twice, first to know
    how far its signs stretch, and within that the rows in it twice again: a depth of 12 takes
    seconds."""
    from ziamath.nodes.mrow import Mrow

    measured = Mrow._get_height_nostretch

    def height(row: Any, line: Any, **style: Any) -> tuple[float, float]:
        return (0.0, 0.0) if style.get("nostretch") else measured(row, line, **style)

    setattr(Mrow, "_get_height_nostretch", height)  # noqa: B010 - for the type checker


def _check_letters(made: Any) -> None:
    """The mathematical font has few scripts; what it lacks, and is not lent, would be a box."""
    for words in TEXT.findall(made.mathmlstr()):
        for letter in unescape(words):
            if letter.isascii() or letter.isspace() or lent_width(letter):
                continue
            if not made.font.glyphindex(letter):
                raise ValueError(f"the font for formulas has no {letter!r}")


def lent_width(letter: str) -> float:
    """Return the width in em of a letter that the text's font draws in the place of the
    mathematical one; 0: none."""
    if unicodedata.east_asian_width(letter) != "W" or ord(letter) > 0xFFFF:
        return 0.0
    return HANGUL if "\uac00" <= letter <= "\ud7a3" else FULL


@cache
def lend_letters() -> None:
    """From now on, formulas keep a place for letters that only the text's font has; they are told
    beside the outlines."""
    from xml.etree.ElementTree import Element

    from ziafont.fonttypes import BBox
    from ziafont.glyph import SimpleGlyph
    from ziamath.mathfont import MathFont

    find = MathFont.findglyph

    class Lent(SimpleGlyph):  # type: ignore[misc, unused-ignore]
        def __init__(self, letter: str, font: Any) -> None:
            em = font.info.layout.unitsperem
            self._wide, self._letter = round(lent_width(letter) * em), letter
            low, high = (round(part * em) for part in BODY)
            super().__init__(0, (), BBox(0, self._wide, low, high), font)

        def advance(self, nextchr: Any = None) -> int:
            return int(self._wide)

        def place(self, x: float, y: float, point_size: float) -> Element:
            where = {"x": str(x), "y": str(y), "em": str(point_size)}
            return Element(LETTER, {**where, "letter": self._letter})

    def findglyph(self: Any, char: str, variant: Any) -> Any:
        if not char.isascii() and lent_width(char) and not self.glyphindex(char):
            return Lent(char, self)
        return find(self, char, variant)

    setattr(MathFont, "findglyph", findglyph)  # noqa: B010 - for the type checker


def _contours(element: Any) -> list[list[Point]]:
    kind, given = element.tag.rpartition("}")[2], element.attrib
    stroke = float(given.get("stroke-width", 0)) if "stroke" in given else 0.0
    if kind == "path":
        lines = _path(given["d"])
        return [bar for line in lines for bar in _bars(line, stroke)] if stroke else lines
    if kind != "rect":
        return []
    x, y, wide, high = (float(given[name]) for name in ("x", "y", "width", "height"))
    corners = [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)]
    return _bars([*corners, corners[0]], stroke) if stroke else [corners]


def _bars(line: list[Point], stroke: float) -> list[list[Point]]:
    """Return a line as thick as a pen, a piece a contour."""
    made = []
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        if length:  # turning as letters do: where they cross, both are ink
            dx, dy = (y1 - y0) / length * stroke / 2, (x0 - x1) / length * stroke / 2
            made.append(
                [(x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy)]
            )
    return made


def _path(words: str) -> list[list[Point]]:
    """Return an SVG path of absolute commands as polygons."""
    parts = NUMBER.findall(words)
    contours: list[list[Point]] = []
    at = 0

    def point() -> Point:
        nonlocal at
        at += 2
        return float(parts[at - 2]), float(parts[at - 1])

    command = "M"
    while at < len(parts):
        if parts[at] in "MLQCZ":
            command = parts[at]
            at += 1
        if command == "Z":
            continue
        if command == "M":
            contours.append([point()])
            command = "L"
        elif command == "L":
            contours[-1].append(point())
        elif command == "Q":
            contours[-1] += _curve([contours[-1][-1], point(), point()])
        else:
            contours[-1] += _curve([contours[-1][-1], point(), point(), point()])
    return contours


def _curve(control: list[Point]) -> list[Point]:
    """Return the points of a Bézier curve behind its first."""
    made = []
    for step in range(1, FLAT + 1):
        t, points = step / FLAT, control
        while len(points) > 1:
            points = [
                (x0 + (x1 - x0) * t, y0 + (y1 - y0) * t)
                for (x0, y0), (x1, y1) in itertools.pairwise(points)
            ]
        made.append(points[0])
    return made


def _highlight(request: dict[str, Any], data: bytes) -> Answer:
    """Return the classes of a code's characters, as lengths and names in turn; none for plain
    text."""
    from pygments.lexers import get_lexer_by_name

    code = request["code"]
    lexer = get_lexer_by_name(request["language"], stripnl=False, ensurenl=False)
    parts: list[list[Any]] = []
    for token, words in lexer.get_tokens(code):
        name = _class_of(str(token).removeprefix("Token."))
        if parts and parts[-1][1] == name:
            parts[-1][0] += len(words)
        else:
            parts.append([len(words), name])
    return {"parts": parts}


def _class_of(token: str) -> str:
    while token:
        if token in CLASSES:
            return CLASSES[token]
        token = token.rpartition(".")[0]
    return ""
