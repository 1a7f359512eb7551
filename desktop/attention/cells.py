"""A cell: the map of one head over a window of positions, and which of its rows are still to do."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

NO_ROWS = 0xFFFFFFFF
NO_SINK = -3.0e38  # finite, as shaders need it
CELL_WORDS = 10  # uint32 a cell in the kernels' table


class Cell(Struct):
    """`width` x `height` pixels, each the largest of 2^shift x 2^shift token pairs.

    Pixel (0, 0) begins at query position `row` and key position `column`. `origin` is the first
    pixel in the values of its surface, rows without gaps.
    """

    layer: int
    head: int
    index: int  # in the kernels' table
    origin: int
    width: int
    height: int
    row: int = 0
    column: int = 0
    shift: int = 0
    columns: int = 0  # key positions that each row sees; 0: those up to its own
    scores: int = NO_ROWS  # where its row scores begin; NO_ROWS: none
    seen: int = 0  # positions that it knows
    scale_number: int = -1  # of the colour scale of its pixels; -1: none yet
    fresh: bool = True  # must be cleared before anything is drawn
    todo: list[tuple[int, int]] = field(default_factory=list)  # [from, to), ascending, disjoint
    gone: list[tuple[int, int]] = field(default_factory=list)  # no longer to be computed

    @property
    def end(self) -> int:
        """Return the first query position below the cell."""
        return self.row + (self.height << self.shift)

    def words(self, sink: float) -> tuple[int, ...]:
        """Return the cell as the kernels' struct has it; `sink` is the head's, -inf if it has
        none."""
        return (
            self.origin, self.width, self.height, self.head,
            self.row, self.column, self.shift, self.scores,
            int(np.float32(max(sink, NO_SINK)).view(np.uint32)), self.columns,
        )  # fmt: skip

    def grow(self, length: int) -> None:
        """Note that positions up to `length` exist now."""
        first, last = max(self.seen, self.row), min(length, self.end)
        if first < last:
            if self.todo and self.todo[-1][1] == first:
                first = self.todo.pop()[0]
            self.todo.append((first, last))
        self.seen = max(self.seen, length)

    def shrink(self, length: int) -> int | None:
        """Note that positions from `length` on have changed; return the first pixel row to clear,
        if any. Rows that share the pixel row with the first changed position are to be done
        again."""
        if self.seen <= length:
            return None
        first = max(0, length - self.row) >> self.shift
        again = self.row + (first << self.shift)
        kept = [(a, min(b, again)) for a, b in self.todo if a < again]
        if again < length:
            kept.append((again, length))
        self.todo, self.seen = kept, length
        self.gone = [(a, min(b, again)) for a, b in self.gone if a < again]
        return first if first < self.height else None

    def restart(self, row: int, column: int, shift: int) -> None:
        """Show another window."""
        self.row, self.column, self.shift = row, column, shift
        self.redo()

    def redo(self) -> None:
        """Compute every row again, from the next `grow` on."""
        self.seen, self.fresh = 0, True
        self.todo.clear()
        self.gone.clear()

    def take(self, most: int, rows: range) -> tuple[int, int] | None:
        """Return the newest at most `most` rows to do, (first, count), among the `rows` that can be
        done; None if there are none."""
        while self.todo:
            first, last = self.todo.pop()
            low = max(first, rows.start)
            if first < low:  # their queries or keys are gone, and those of all rows before
                self.gone.append((first, min(last, low)))
            if last <= low:
                continue
            start = max(low, last - most)
            if low < start:
                self.todo.append((low, start))
            return start, last - start
        return None

    def put_back(self, first: int, count: int) -> None:
        """Undo a `take` that could not be staged."""
        last = first + count
        if self.todo and self.todo[-1][1] == first:
            first = self.todo.pop()[0]
        self.todo.append((first, last))

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """List the rows that the pixels do not show, [from, to), in no order."""
        return (*self.todo, *self.gone)

    @property
    def waiting(self) -> int:
        """Count the rows to do."""
        return sum(last - first for first, last in self.todo)
