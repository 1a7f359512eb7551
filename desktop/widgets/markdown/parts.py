"""Lists and tables that grow: only their last item or row is parsed again.

An item that another follows does not change, but for two things that all items share: whether the
list is tight, and how wide its markers are. Where these change, the whole text is read again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from llm_lite.core.records import dataclass
from llm_lite.desktop.widgets.markdown.blocks import (
    DONE_TASK,
    OPEN_TASK,
    Block,
    Spans,
    TableCells,
)
from llm_lite.desktop.widgets.markdown.reading import Parsed, Piece

HEAD_LINES = 2  # of a table


class Parts(Protocol):
    """What is known of the block that the tail goes on."""

    @property
    def head(self) -> str:
        """What the tail is parsed behind."""
        ...

    def merged(self, parsed: Parsed) -> Parsed | None:
        """The tail's blocks, as they are behind what was kept; None: it does not go on so."""
        ...


@dataclass(frozen=True, slots=True)
class ListParts:
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


@dataclass(frozen=True, slots=True)
class TableParts:
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


@dataclass(frozen=True, slots=True)
class Split:
    parts: Parts
    line: int  # of the tail, on which its last part begins
    kept: list[Block]  # final


def split(text: str, parsed: Parsed, whole: int, before: Parts | None) -> Split | None:
    """Where the only block of `text` can be cut: before the last part that begins on one of so many
    whole lines."""
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
    """Whether the part that begins on a line shows its marker."""
    return any(piece.first == line and piece.block.markers[0] for piece in pieces)
