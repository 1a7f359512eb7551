"""The model of a Markdown text: blocks in order, each with the quotes and items that it is in.

The list is flat, so that a frame can skip what is out of sight, and blocks compare by value, so
that one that did not change is laid out once.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from llm_lite.desktop.widgets.ui import Face

Kind = Literal["paragraph", "heading", "code", "rule", "table", "math"]
SpanKind = Literal["text", "code", "math", "display"]
Align = Literal["left", "center", "right"]
BULLET, OPEN_TASK, DONE_TASK = "•", "☐", "☑"


class StyledSpan(Struct, frozen=True):
    """A run of text of one style. The `text` of a formula is its TeX without the marks around
    it."""

    text: str
    style: Face = "regular"
    kind: SpanKind = "text"
    link: str = ""  # an address that can be opened
    strike: bool = False


class Container(Struct, frozen=True):
    kind: Literal["quote", "item"]
    wide: int = 0  # characters of the widest marker of an item's list


QUOTE = Container("quote")
Spans = tuple[StyledSpan, ...]


def has_math(spans: Spans) -> bool:
    return any(span.kind in ("math", "display") for span in spans)


class TableCells(Struct, frozen=True):
    """Rows of cells, the first of them the head."""

    aligns: tuple[Align, ...]
    rows: tuple[tuple[Spans, ...], ...]


class Block(Struct, frozen=True):
    kind: Kind
    spans: Spans = ()
    level: int = 0  # of a heading
    label: str = ""  # a code block's language
    path: tuple[Container, ...] = ()  # from the outermost
    joined: int = 0  # how many of `path` hold the block before too
    markers: tuple[str, ...] = ()  # for each of `path`: of an item that begins here, else ""
    tight: bool = False  # in a list without empty lines
    cells: TableCells | None = None
    math: bool = False  # whether formulas are in it

    @property
    def text(self) -> str:
        """Return what can be copied."""
        if self.cells is not None:
            rows = self.cells.rows
            return "\n".join("\t".join("".join(s.text for s in c) for c in row) for row in rows)
        return "".join(span.text for span in self.spans)
