"""The plan of a frame: newest rows first, heads on screen in turn, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec import Struct, field

from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.kernels import FEW_ROWS, ROWS

IDLE_MS, SOFTWARE_IDLE_MS = 4.0, 12.0  # of the device's time a frame
BUSY_MS, SOFTWARE_BUSY_SHARE = 2.0, 0.03  # while the model writes; the share is of elapsed time
SOFTWARE_BUSY_PERIOD = 0.25  # seconds: recording and drawing cost the host as much as the work
LONGEST_MS = 30.0  # of one frame's work, whatever has elapsed
VISIT_ROWS = 4 * ROWS  # rows of a cell before its neighbour has a turn
FIRST_RATE = 100_000.0  # pairs of values a millisecond, before anything has been measured
PANEL_SHARE = 0.7  # of the budget, for large maps while thumbnails wait too
JOB_PAIRS = 2_000  # what a job costs beside its keys


class Job(Struct, frozen=True):
    cell: Cell
    first: int
    count: int


class FrameJobs(Struct):
    """The jobs of a frame, never more than there is room for."""

    most_jobs: int
    most_rows: int  # of all jobs together: rows of scratch
    jobs: list[Job] = field(default_factory=list)
    rows: int = 0
    cost: float = 0.0  # pairs of values

    @property
    def room(self) -> int:
        """Count the rows of one cell that still fit."""
        return max(0, min(ROWS * (self.most_jobs - len(self.jobs)), self.most_rows - self.rows))

    def add(self, cell: Cell, first: int, count: int, layer: AttentionLayer) -> None:
        """Add `count` rows of a cell, in jobs of ROWS. ValueError where there is no room for
        them."""
        if count > self.room:
            raise ValueError(f"expected at most {self.room} rows in this frame, got {count}")
        for start in range(first, first + count, ROWS):
            job = Job(cell, start, min(ROWS, first + count - start))
            self.jobs.append(job)
            self.rows += job.count
            self.cost += job_pairs(layer, job)


class Budget:
    """Converts milliseconds of the device's time a frame to work on this device."""

    def __init__(self, software: bool) -> None:
        self.rate = FIRST_RATE
        self._software, self._last = software, 0.0

    def measured(self, pairs: float, milliseconds: float) -> None:
        if pairs > 50_000 and milliseconds > 0.02:
            self.rate += 0.3 * (pairs / milliseconds - self.rate)

    def pairs(self, busy: bool) -> float:
        """Return how many pairs this frame may compute; `busy` while the model is writing."""
        return self._milliseconds(busy) * self.rate

    def _milliseconds(self, busy: bool) -> float:
        now = time.perf_counter()
        elapsed = now - self._last
        if busy and self._software and elapsed < SOFTWARE_BUSY_PERIOD:
            return 0.0
        self._last = now
        if not busy:
            return SOFTWARE_IDLE_MS if self._software else IDLE_MS
        return min(elapsed * 1e3 * SOFTWARE_BUSY_SHARE, LONGEST_MS) if self._software else BUSY_MS


class Planner:
    """Remembers whose turn it is among the cells on screen."""

    def __init__(self) -> None:
        self._turn = 0

    def plan(
        self,
        panels: Sequence[Cell],
        thumbnails: Sequence[Cell],
        others: Sequence[Cell],
        layers: Sequence[AttentionLayer],
        rows: Callable[[int], range],
        pairs: float,
        jobs: FrameJobs,
        ensure: Callable[[int, int, int], bool],
    ) -> None:
        """Fill `jobs`; `others` come when nothing on the screen waits.

        `rows(layer)` can be computed.
        `ensure(layer, first, count)` brings rows to the device; False when it cannot now.
        """
        work = _Work(layers, rows, jobs, ensure)
        waiting = any(cell.todo for cell in thumbnails)
        work.visit(panels, pairs * (PANEL_SHARE if waiting else 1.0), rounds=True)
        if thumbnails:
            turn = self._turn % len(thumbnails)
            order = chain(thumbnails[turn:], thumbnails[:turn])
            self._turn = turn + work.visit(order, pairs, rounds=False)
        if not any(cell.todo for cell in thumbnails):
            work.visit(others, pairs, rounds=False)


class _Work:
    def __init__(
        self,
        layers: Sequence[AttentionLayer],
        rows: Callable[[int], range],
        jobs: FrameJobs,
        ensure: Callable[[int, int, int], bool],
    ) -> None:
        self._layers, self._rows, self._jobs, self._ensure = layers, rows, jobs, ensure

    def visit(self, cells: Iterable[Cell], until: float, *, rounds: bool) -> int:
        """Take rows of each cell in turn until the cost is reached; return how many had their turn.
        With `rounds` it begins again with the first while there is budget."""
        visited, cells = 0, list(cells)
        while True:
            before = self._jobs.rows
            for cell in cells:
                if self._jobs.cost >= until or not self._jobs.room:
                    return visited
                if not self._take(cell):
                    return visited
                visited += 1
            if not rounds or self._jobs.rows == before:
                return visited

    def _take(self, cell: Cell) -> bool:
        most = min(VISIT_ROWS, self._jobs.room)
        taken = cell.take(most, self._rows(cell.layer))
        if taken is None:
            return True
        first, count = taken
        if not self._ensure(cell.layer, first, count):
            cell.put_back(first, count)
            return False
        self._jobs.add(cell, first, count, self._layers[cell.layer])
        return True


def job_pairs(layer: AttentionLayer, job: Job) -> float:
    """Count the pairs of values that are multiplied: keys x half of a head's values, and a little
    more."""
    end = job.first + job.count
    keys = job.cell.columns or (min(end, layer.window + ROWS) if layer.window else end)
    rows = ROWS if job.count > FEW_ROWS else FEW_ROWS
    return JOB_PAIRS + keys * (rows + 1) * (layer.head_dim / 2)
