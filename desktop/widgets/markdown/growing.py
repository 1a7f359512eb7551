"""Blocks of a text that grows: only its end is parsed again.

A block is final once another follows it that begins on a whole line: what comes later can no more
change it. In the text behind (the tail) a line that goes on changes only the paragraph that it is
in, whose marks are looked for again; a line that begins has the tail parsed again.
"""

from __future__ import annotations

import re
from typing import Protocol

from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.desktop.widgets.markdown.blocks import (
    DONE_TASK,
    OPEN_TASK,
    Block,
    Spans,
    StyledSpan,
    TableCells,
    has_math,
)
from llm_lite.desktop.widgets.markdown.reading import Parsed, Piece, Reader, References, signature

HEAD_LINES = 2  # of a table


class Parts(Protocol):
    """The known parts of the block that the tail continues."""

    @property
    def head(self) -> str:
        """Return the text behind which the tail is parsed."""
        ...

    def merged(self, parsed: Parsed) -> Parsed | None:
        """Return the tail's blocks as they are behind what was kept; None where it does not go on
        so."""
        ...


class ListParts(Struct, frozen=True):
    kind: str
    mark: str
    wide: int
    tight: bool
    number: int  # of the tail's first item
    head: str = ""

    def merged(self, parsed: Parsed) -> Parsed | None:
        if not parsed.tops or parsed.tops[0].first:
            return None
        top = parsed.tops[0]
        alike = (top.kind, top.mark) == (self.kind, self.mark)
        if not alike or (self.tight and not top.tight):
            return None
        ordered, number = self.kind.startswith("ordered"), self.number
        end = parsed.tops[1].first if len(parsed.tops) > 1 else None
        for piece in parsed.pieces:
            block = piece.block
            if end is not None and piece.first >= end:
                break
            if ordered and block.markers[0]:
                marker = block.markers[0]
                if marker not in (OPEN_TASK, DONE_TASK):
                    marker = f"{number}{self.mark}"
                number += 1
                if len(marker) > self.wide:
                    return None
                block = replace(block, markers=(marker, *block.markers[1:]))
            item = replace(block.path[0], wide=self.wide)
            outer = sum(one.kind == "item" for one in block.path) == 1
            tight = self.tight if outer else block.tight
            piece.block = replace(block, path=(item, *block.path[1:]), tight=tight)
        return parsed


class TableParts(Struct, frozen=True):
    head: str
    rows: tuple[tuple[Spans, ...], ...]
    math: bool

    def merged(self, parsed: Parsed) -> Parsed | None:
        if not parsed.pieces or parsed.pieces[0].block.cells is None:
            return None
        first = parsed.pieces[0]
        cells = first.block.cells
        assert cells is not None
        rows = (*self.rows, *cells.rows[1:])
        math = self.math or first.block.math
        first.block = replace(first.block, cells=TableCells(cells.aligns, rows), math=math)
        for piece in parsed.pieces:
            piece.first, piece.last = piece.first - HEAD_LINES, piece.last - HEAD_LINES
        parsed.tops = [
            replace(top, first=top.first - HEAD_LINES, certain=top.certain - HEAD_LINES)
            for top in parsed.tops
        ]
        parsed.parts = [part - HEAD_LINES for part in parsed.parts]
        return parsed


class Split(Struct, frozen=True):
    parts: Parts
    line: int  # of the tail, on which its last part begins
    kept: list[Block]  # final


LONG = 4_000  # characters of a paragraph whose marks are not looked for at each token
UNREAD = 8  # such a part of it may be without
LONGEST = 400_000  # characters in which Markdown is looked for
PLAIN = re.compile(r"(?:[^\W_]|[ ,.'\"?%/])*\Z")  # what has no meaning behind a word
WORD_END = re.compile(r"[^\W_]\Z|[^\W_] \Z")
SETTLED = re.compile(r"[^\W\d_].*[^\W_]")  # a line with so much of a word stays what it is
BEGINNING = 200  # characters of a line that say what it is
FENCE = re.compile(r"[\s>]*(`|~)")


class GrowingText:
    """The blocks of a text, asked for again and again while it grows at its end."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.text = ""
        self.blocks: tuple[Block, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._kept: list[Block] = []  # final
        self._start = 0  # of the tail, in characters
        self._tail: list[Piece] = []
        self._before: References = {}  # those that stand before the tail
        self._known: References = {}  # all
        self._parts: Parts | None = None  # of the block that the tail goes on
        self._unread = 0  # last characters whose marks were not looked for

    def follows(self, text: str) -> bool:
        """Return whether `text` is the one before, grown."""
        return bool(self.text) and text.startswith(self.text)

    def read(self, text: str, *, live: bool = False) -> tuple[Block, ...]:
        """Return the blocks of `text`. A `live` one will be another one soon: the end of a long
        paragraph may be without its marks."""
        try:
            return self._read(clean(text), live)
        except UnicodeEncodeError:  # an address with half of a character
            self._forget()
            return self._read(clean(text).encode("utf-8", "replace").decode(), live)

    def _read(self, text: str, live: bool) -> tuple[Block, ...]:
        if text == self.text and self.blocks and (live or not self._unread):
            return self.blocks
        if not text.startswith(self.text):
            self._forget()
        if not (live and self._put_off(text)):
            if self._unread or not self._go_on(text):
                self._parse(text)
            self._unread = 0
        self.text = text
        self.blocks = (*self._kept, *(piece.block for piece in self._tail))
        return self.blocks

    def _put_off(self, text: str) -> bool:
        """Add what the last paragraph grew by as it is, if that is little of it; return whether it
        was."""
        more = text[len(self.text) :]
        last = self._tail[-1] if self._tail else None
        if last is None or "\n" in more or last.last != self._lines():
            return False
        known, unread = len(last.source or ""), self._unread + len(more)
        if known < LONG or unread > known // UNREAD:
            return False
        self._unread, spans = unread, last.block.spans
        if spans and spans[-1] == StyledSpan(spans[-1].text):
            spans, more = spans[:-1], spans[-1].text + more
        last.block = replace(last.block, spans=(*spans, StyledSpan(more)))
        return True

    def _go_on(self, text: str) -> bool:
        """Read the last block again where the last line only went on, if that is enough; return
        whether it was."""
        more = text[len(self.text) :]
        if self._more_fence(text):
            return True
        if not self._tail or "\n" in more or len(text) > LONGEST:
            return False
        last, line = self._tail[-1], self.text[self.text.rfind("\n") + 1 :]
        if last.last != self._lines():
            return False
        if last.block.kind == "code":
            return self._more_code(last, line, more)
        content = last.source
        shown = self.text.rstrip()
        if (
            content is None
            or content.startswith("[")
            or not SETTLED.search(line, 0, BEGINNING)
            or not shown.endswith(content[content.rfind("\n") + 1 :])
            or "#" in more
            or "$$" in content + more
            or "\\[" in content + more
            or "\\begin{" in content + more
        ):
            return False
        added = text[len(shown) :]
        last.source = (content + added).rstrip()
        self._reader.use(self._known)
        last.block = self._respanned(last, added)
        return True

    def _lines(self) -> int:
        """Return the number of lines of the tail."""
        return self.text.count("\n", self._start) + 1

    def _respanned(self, last: Piece, added: str) -> Block:
        block, words = last.block, last.block.spans
        plain = PLAIN.match(added) and WORD_END.search(words[-1].text[-2:] if words else "")
        if plain and words[-1] == StyledSpan(words[-1].text):
            grown = StyledSpan((words[-1].text + added).rstrip())
            return replace(block, spans=(*words[:-1], grown))
        spans = self._reader.spans(last.source or "")
        return replace(block, spans=spans, math=has_math(spans))

    def _more_fence(self, text: str) -> bool:
        """A fence that nothing closes has whole lines more."""
        if len(self._tail) != 1 or len(text) > LONGEST or self.text[self._start] not in "`~":
            return False
        block = self._tail[0].block
        begin = self.text.find("\n", self._start) + 1
        if block.kind != "code" or not begin or _body(self.text, begin) != block.text:
            return False
        changed = text[self.text.rfind("\n") + 1 :].split("\n")
        if any(FENCE.match(line) for line in changed):
            return False
        spans = (StyledSpan(_body(text, begin), "mono", "code"),)
        lines = text.count("\n", self._start) + (not text.endswith("\n"))
        self._tail = [Piece(replace(block, spans=spans), 0, lines)]
        return True

    def _more_code(self, last: Piece, line: str, more: str) -> bool:
        """An open fence's last line goes on."""
        body = last.block.text
        inside = last.last - last.first > 1 and bool(last.block.spans)
        if not inside or not line.strip() or "\t" in line + more or FENCE.match(line + more):
            return False
        if not body.endswith(line.lstrip()[-200:]) or last.block.label == "math":
            return False
        grown = StyledSpan(body + more, "mono", "code")
        last.block = replace(last.block, spans=(grown,))
        return True

    def _parse(self, text: str) -> None:
        """Read the tail, and let go of what is final in it."""
        cut = text
        if len(text) > LONGEST:
            self._forget()
            cut = text[: text.rfind("\n", 0, LONGEST) + 1 or LONGEST]
        tail = cut[self._start :]
        parsed = self._parsed(tail)
        if parsed is None:
            self._forget()
            tail, parsed = cut, self._reader.read(cut, {})
        self._known = parsed.references
        self._tail = parsed.pieces
        self._settle(tail, parsed)
        if len(text) > LONGEST:
            rest = Block("paragraph", (StyledSpan(text[len(cut) :]),))
            self._tail.append(Piece(rest, 0, 0))

    def _parsed(self, tail: str) -> Parsed | None:
        """Parse the tail alone; return None where more than it is another one now."""
        head = self._parts.head if self._parts else ""
        found: Parsed | None = self._reader.read(head + tail, self._before)
        assert found is not None
        if self._start and signature(found.references) != signature(self._known):
            return None  # an address that is known from now on may make links of earlier words
        return self._parts.merged(found) if self._parts else found

    def _settle(self, tail: str, parsed: Parsed) -> None:
        """Keep what can no more change: all before the last block that begins on a whole line."""
        whole = tail.count("\n")  # lines
        starts = [top.first for top in parsed.tops if top.certain <= whole]
        line = starts[-1] if starts else 0
        parts, final = None, [piece.block for piece in parsed.pieces if piece.first < line]
        if line <= 0:
            found = split(tail, parsed, whole, self._parts)
            if found is None:
                return
            line, parts, final = found.line, found.parts, found.kept
        self._kept += final
        self._parts = parts
        self._start += _line_start(tail, line)
        lines = line + (2 if parts is not None and parts.head else 0)
        self._before = {
            **self._before,
            **{k: v for k, v in parsed.references.items() if v.get("map", [0])[0] < lines},
        }
        rest = parsed.pieces if parts is not None and parts.head else parsed.pieces[len(final) :]
        self._tail = [Piece(p.block, p.first - line, p.last - line, p.source) for p in rest]


def _body(text: str, begin: int) -> str:
    """Return code as it is shown, of a fence at the left edge: without an unfinished line of
    spaces."""
    last = text.rfind("\n") + 1
    if text[last:].isspace():
        text = text[:last]
    return text[begin:].removesuffix("\n").expandtabs(4)


def _line_start(text: str, line: int) -> int:
    at = 0
    for _ in range(line):
        at = text.index("\n", at) + 1
    return at


def clean(text: str) -> str:
    """Return the text as markdown-it takes it: one kind of line break, no NUL."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd") if "\0" in text else text


def split(text: str, parsed: Parsed, whole: int, before: Parts | None) -> Split | None:
    """Return where the only block of `text` can be cut: before the last part that begins on one of
    so many whole lines."""
    lines = [line for line in parsed.parts if 0 < line < whole]
    if len(parsed.tops) != 1 or not lines:
        return None
    top, line = parsed.tops[0], lines[-1]
    first = parsed.pieces[0].block
    if first.cells is not None:
        known = before.head if isinstance(before, TableParts) else ""
        head = known or "".join(text.splitlines(keepends=True)[:HEAD_LINES])
        behind = sum(part >= line for part in parsed.parts)
        return Split(TableParts(head, first.cells.rows[:-behind], first.math), line, [])
    final = [piece.block for piece in parsed.pieces if piece.first < line]
    loose = isinstance(before, ListParts) and not before.tight
    tight = False if loose else top.tight
    if tight is None or not _is_certain(parsed.pieces, line):
        return None
    start = before.number if isinstance(before, ListParts) else top.start
    count = start + parsed.parts.index(line)
    item = first.path[0]
    return Split(ListParts(top.kind, top.mark, item.wide, tight, count), line, final)


def _is_certain(pieces: list[Piece], line: int) -> bool:
    """Return whether the part that begins on a line shows its marker."""
    return any(piece.first == line and piece.block.markers[0] for piece in pieces)
