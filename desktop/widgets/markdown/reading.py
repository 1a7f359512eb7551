"""Markdown's tokens to our blocks. markdown-it does the parsing, CommonMark and GFM's tables and
strike-through; HTML is text like any other.

markdown-it is imported when the first text with Markdown is read: the first frame has none.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field

from llm_lite.core.plain_text import LONGEST_ADDRESS, can_be_opened, one_line
from llm_lite.core.records import replace
from llm_lite.desktop.widgets.markdown.blocks import (
    BULLET,
    DONE_TASK,
    OPEN_TASK,
    QUOTE,
    Align,
    Block,
    Container,
    Spans,
    StyledSpan,
    TableCells,
    has_math,
)
from llm_lite.desktop.widgets.ui import Face


class _Line:
    def __init__(self) -> None:
        self.spans: list[StyledSpan] = []
        self._strong = self._soft = self._struck = 0
        self._links: list[tuple[str, int]] = []  # address, first span

    def take(self, token: Any) -> None:
        kind, nesting = token.type.partition("_")[0], token.nesting
        if kind == "strong":
            self._strong += nesting
        elif kind == "em":
            self._soft += nesting
        elif kind == "s":
            self._struck += nesting
        elif token.type == "link_open":
            self._links.append((str(token.attrs.get("href", "")), len(self.spans)))
        elif token.type == "link_close":
            self._end_link()
        elif kind == "code":
            self._add(token.content, "mono", "code")
        elif kind == "math":
            self._add(token.content, "mono", token.markup)
        elif kind == "image":
            self._image(token)
        elif kind in ("softbreak", "hardbreak"):
            self._add("\n")
        else:
            self._add(token.content)

    def _add(self, words: str, style: Face | None = None, kind: Any = "text") -> None:
        if words:
            link = self._link() if self._links else ""
            face = style or self._face()
            self.spans.append(StyledSpan(words, face, kind, link, self._struck > 0))

    def _face(self) -> Face:
        if self._strong > 0:
            return "bold_italic" if self._soft > 0 else "bold"
        return "italic" if self._soft > 0 else "regular"

    def _link(self) -> str:
        address = self._links[-1][0]
        return address if can_be_opened(address) else ""

    def _end_link(self) -> None:
        """An address that is not opened is told behind the words."""
        address, first = self._links.pop()
        words = "".join(span.text for span in self.spans[first:])
        if not can_be_opened(address) and _shown(address) not in ("", words):
            self._add(f" ({_shown(address)})")

    def _image(self, token: Any) -> None:
        """Show what a picture says and where it is, for pictures are not fetched."""
        address = str(token.attrs.get("src", ""))
        words = "".join(child.content for child in token.children or ()) or token.content
        self._links.append((address, len(self.spans)))
        self._add(words or _shown(address) or "image")
        if can_be_opened(address) and words:
            self._add(f" ({_shown(address)})")
        self._end_link()


DEPTH = 24  # of containers and of marks in a line: what is deeper is not opened
LONGEST_LINE = 50_000  # characters of a paragraph in which marks are looked for
KEPT = 1_000_000  # characters of paragraphs whose spans are known
NEVER = 1 << 60
MOST_EPOCHS = 64
BREAK = re.compile(r"[ \t]*<br[ \t]*/?>[ \t]*", re.IGNORECASE)
TASK = re.compile(r"\[([ xX])\][ \t]")
References = dict[str, Any]
Signature = tuple[tuple[str, str, str], ...]


@lru_cache(maxsize=1)
def parser() -> Any:
    """Return the MarkdownIt of this program."""
    from markdown_it import MarkdownIt

    from llm_lite.core.cjk_emphasis import add_cjk_emphasis
    from llm_lite.core.text.markdown_rules import add_footnotes, add_math

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": DEPTH})
    made.enable(["table", "strikethrough"])
    add_math(made)
    add_footnotes(made)
    add_cjk_emphasis(made)
    return made


class Piece(Struct):
    """A block, and where in the text it comes from."""

    block: Block
    first: int  # line
    last: int  # the line behind
    source: str | None = None  # what its spans were read from


class Outermost(Struct, frozen=True):
    """A block that no other holds."""

    kind: str  # of its token
    mark: str
    first: int  # line
    certain: int  # so many whole lines must be there, else more text may undo that it begins here
    start: int  # of a list with numbers
    tight: bool | None  # of a list; None where it has no paragraph of its own to tell by


class Parsed(Struct):
    pieces: list[Piece]
    tops: list[Outermost]
    references: References
    parts: list[int]  # where the only block's items or rows begin, in lines


class Reader:
    """Reads texts; it remembers what is in their lines."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], Spans] = OrderedDict()
        self._size = 0  # characters of those
        self._references: References = {}
        self._epochs: dict[Signature, int] = {}
        self._epoch = 0  # of the references: with others, brackets mean something else

    def read(self, text: str, references: References) -> Parsed:
        """Return the blocks of `text`; `references` are those that stand before it."""
        made = parser()
        tokens: list[Any] = []
        env: dict[str, Any] = {"references": dict(references)}
        made.block.parse(text, made, env, tokens)
        self.use(env["references"])
        walk = _Walk(self)
        walk.read(tokens)
        tops = [
            _outermost(token, _is_tight(tokens, at + 1))
            for at, token in enumerate(tokens)
            if token.level == 0 and token.nesting >= 0 and token.map
        ]
        parts = _parts(tokens) if len(tops) == 1 else []
        return Parsed(walk.pieces, tops, env["references"], parts)

    def spans(self, content: str) -> Spans:
        """Return the styled parts of a paragraph."""
        key = (content, self._epoch if "[" in content else 0)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(content)
            self._size += len(content)
            while self._size > KEPT:
                (old, _), _ = self._known.popitem(last=False)
                self._size -= len(old)
        return found

    def _read(self, content: str) -> Spans:
        if len(content) > LONGEST_LINE:
            return (StyledSpan(content),)
        children: list[Any] = []
        made = parser()
        made.inline.parse(content, made, {"references": self._references}, children)
        return spans_of(children)

    def use(self, references: References) -> None:
        """Resolve brackets by these references from now on."""
        self._references = references
        if len(self._epochs) > MOST_EPOCHS:
            self._epochs.clear()
            self._known.clear()
            self._size = 0
        self._epoch = self._epochs.setdefault(signature(references), len(self._epochs))


def signature(references: References) -> Signature:
    """Return where references lead: two of one signature make the same links."""
    return tuple(sorted((k, v.get("href", ""), v.get("title", "")) for k, v in references.items()))


class _List(Struct):
    number: int | None  # of the next item; None in a list with bullets
    after: str  # the number
    tight: bool
    wide: int  # characters of its widest marker


class _Open(Struct):
    """A quote or an item that is open; `serial` tells two of the same look apart."""

    container: Container
    serial: int
    lines: tuple[int, int]
    marker: str = ""


class _Walk(Struct):
    reader: Reader
    pieces: list[Piece] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _lists: list[_List] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)  # serials around the block before
    _serial: int = 0

    def read(self, tokens: list[Any]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if token.type == "table_open":
                at = self._table(tokens, at)
            elif token.type.endswith("_list_open"):
                ordered = token.type == "ordered_list_open"
                number = int(token.attrs.get("start", 1)) if ordered else None
                wide = len(str(_last_number(tokens, at, number))) + 1 if number is not None else 1
                self._lists.append(
                    _List(number, token.markup, _is_tight(tokens, at) is not False, wide)
                )
            elif token.type.endswith("_list_close"):
                self._lists.pop()
            elif token.type in ("blockquote_open", "list_item_open"):
                self._enter(token)
            elif token.type in ("blockquote_close", "list_item_close"):
                self._leave()
            elif token.type == "heading_open":
                self._leaf("heading", tokens[at], level=int(token.tag[1:]))
                at += 1
            elif token.type == "inline":
                self._leaf("paragraph", token)
            elif token.type in ("fence", "code_block", "hr", "math_block"):
                self._solid(token)

    def _enter(self, token: Any) -> None:
        self._serial += 1
        first, last = token.map
        if token.type == "blockquote_open":
            self._open.append(_Open(QUOTE, self._serial, (first, last)))
            return
        held, marker = self._lists[-1], BULLET
        if held.number is not None:
            marker = f"{held.number}{held.after}"
            held.number += 1
        self._open.append(_Open(Container("item", held.wide), self._serial, (first, last), marker))

    def _leave(self) -> None:
        """An item or a quote with nothing in it is an empty paragraph."""
        top = self._open[-1]
        if top.serial not in self._before:
            self._add(Block("paragraph"), *top.lines, None)
        self._open.pop()

    def _leaf(self, kind: Any, token: Any, level: int = 0) -> None:
        content = token.content
        if kind == "paragraph" and self._open:
            content = self._task(content, self._open[-1])
        spans = self.reader.spans(content)
        if kind == "paragraph" and len(spans) == 1 and spans[0].kind == "display":
            kind = "math"
        first, last = token.map
        self._add(Block(kind, spans, level), first, last, token.content)

    def _task(self, content: str, item: _Open) -> str:
        """Return `content` without the box of a task that begins with it."""
        match = TASK.match(content) if item.marker and item.serial not in self._before else None
        if match is None:
            return content
        item.marker = OPEN_TASK if match[1] == " " else DONE_TASK
        return content[match.end() :]

    def _solid(self, token: Any) -> None:
        first, last = token.map
        if token.type == "hr":
            self._add(Block("rule"), first, last, None)
            return
        if token.type == "math_block":
            is_open = token.info == "open"
            words = StyledSpan(token.content, "mono", "code" if is_open else "display")
            label = "math" if is_open else ""
            self._add(
                Block("code" if is_open else "math", (words,), label=label), first, last, None
            )
            return
        body = token.content.removesuffix("\n").expandtabs(4)
        language = token.info.strip().split(maxsplit=1)[0] if token.info.strip() else ""
        block = Block("code", (StyledSpan(body, "mono", "code"),), label=language)
        self._add(block, first, last, None)

    def _table(self, tokens: list[Any], at: int) -> int:
        """Add the table whose tokens begin at `at`; return the place behind it."""
        rows: list[list[Spans]] = []
        aligns: list[Align] = []
        first, last = tokens[at - 1].map
        while tokens[at].type != "table_close":
            token = tokens[at]
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                aligns.append(_align(str(token.attrs.get("style", ""))))
            elif token.type == "inline":
                rows[-1].append(_with_breaks(self.reader.spans(token.content)))
            at += 1
        cells = TableCells(tuple(aligns), tuple(tuple(row) for row in rows))
        self._add(Block("table", cells=cells), first, last, None)
        return at + 1

    def _add(self, block: Block, first: int, last: int, source: str | None) -> None:
        """Add `block` at the place where the walk is."""
        path = tuple(one.container for one in self._open)
        serials = [one.serial for one in self._open]
        joined = 0
        while joined < min(len(serials), len(self._before)) and (
            serials[joined] == self._before[joined]
        ):
            joined += 1
        fresh = [one.marker if one.serial not in self._before else "" for one in self._open]
        self._before = serials
        cells = (cell for row in block.cells.rows for cell in row) if block.cells else ()
        math = any(map(has_math, (block.spans, *cells)))
        tight = bool(self._lists) and self._lists[-1].tight
        placed = Block(
            block.kind, block.spans, block.level, block.label, path, joined,
            tuple(fresh), tight, block.cells, math,
        )  # fmt: skip
        self.pieces.append(Piece(placed, first, last, source))


def _outermost(token: Any, tight: bool | None) -> Outermost:
    """Return the outermost part without its later lines, in which formulas and tables continue the
    paragraph above them."""
    first, last = token.map
    certain = first + 1
    if token.type == "math_block":
        certain = NEVER if token.info == "open" else last
    elif token.type == "table_open":
        certain = first + 2
    start = int(token.attrs.get("start", 1))
    return Outermost(token.type, token.markup, first, certain, start, tight)


def _parts(tokens: list[Any]) -> list[int]:
    """Return the first lines of the parts of a list or table."""
    kinds = ("list_item_open", 1), ("tr_open", 2)
    return [t.map[0] for t in tokens if (t.type, t.level) in kinds and t.map]


def _last_number(tokens: list[Any], at: int, first: int) -> int:
    """Return the last number of the list that begins before `at`."""
    level, count = tokens[at - 1].level, 0
    for token in tokens[at:]:
        if token.level <= level:
            break
        count += token.type == "list_item_open" and token.level == level + 1
    return first + count - 1


def _is_tight(tokens: list[Any], at: int) -> bool | None:
    """Return whether the list that begins before `at` is tight: paragraphs of tight lists are
    hidden."""
    level = tokens[at - 1].level
    for token in tokens[at:]:
        if token.level <= level:
            break
        if token.type == "paragraph_open" and token.level == level + 2:
            return bool(token.hidden)
    return None


def _with_breaks(spans: Spans) -> Spans:
    """Replace HTML's line breaks, the only ones that a cell can have."""
    return tuple(
        replace(span, text=BREAK.sub("\n", span.text)) if span.kind == "text" else span
        for span in spans
    )


def _align(style: str) -> Align:
    if style.endswith("center"):
        return "center"
    return "right" if style.endswith("right") else "left"


def spans_of(tokens: Iterable[Any]) -> Spans:
    """Return styled spans; neighbours differ in their style."""
    line = _Line()
    for token in tokens:
        line.take(token)
    return _joined(line.spans)


def _shown(address: str) -> str:
    return one_line(unquote(address, errors="replace"))[:LONGEST_ADDRESS]


def _joined(spans: list[StyledSpan]) -> Spans:
    made: list[StyledSpan] = []
    for span in spans:
        last = made[-1] if made else None
        alike = last is not None and span.kind == "text" and replace(last, text=span.text) == span
        if last is not None and alike:
            made[-1] = replace(last, text=last.text + span.text)
        else:
            made.append(span)
    return tuple(made)
