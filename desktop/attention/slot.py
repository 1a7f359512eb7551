"""The buffers of one frame of map work, and how much work they have room for.

The planner asks a buffer for its capacity, so that no second number is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.timing import Timestamps
from llm_lite.core.inspect.attention_scores import ROWS as KINDS
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.desktop.attention.cells import CELL_WORDS
from llm_lite.desktop.attention.store import Store
from llm_lite.desktop.attention.surface import STORAGE, WORD
from llm_lite.desktop.attention.work import FrameJobs

MOST_JOBS = 1024  # a frame
JOB_WORDS, SPAN_WORDS = 4, 2  # uint32 each, as the kernels read them
COLORS = 256  # entries of the table of colours
SCORE_SUMS = len(SCORES) + len(KINDS)


class WordTable:
    """`capacity` rows of `width` uint32 that the host writes and kernels read."""

    def __init__(self, device: Device, capacity: int, width: int) -> None:
        self.capacity, self.width = capacity, width
        self.buffer = Buffer(device, max(1, capacity) * width * WORD, STORAGE, host=True)

    @property
    def rows(self) -> NDArray[np.uint32]:
        """Return the memory itself, uint32 [capacity, width]."""
        words: NDArray[np.uint32] = self.buffer.array(np.uint32)
        return words.reshape(-1, self.width)

    def close(self) -> None:
        self.buffer.close()


class Slot:
    """Buffers of one frame in flight."""

    def __init__(self, device: Device, store: Store) -> None:
        self.jobs = WordTable(device, MOST_JOBS, JOB_WORDS)
        self.cells = WordTable(device, store.cells, CELL_WORDS)
        self.spans = WordTable(device, store.most_pieces, SPAN_WORDS)
        self.table = Buffer(device, COLORS * WORD, STORAGE, host=True)
        self.probe = Buffer(device, WORD, STORAGE, host=True)
        sums = len(store.heads) * SCORE_SUMS * WORD
        self.sums = Buffer(device, sums, STORAGE, host=True)
        timed = device.info.queue_families[device.family].timestamp_bits > 0
        self.times = Timestamps(device, 2) if timed else None
        self.cost = -1.0  # of the work recorded; -1: nothing was
        self.probed: Any = None  # what `probe` is the value of
        self.summed = False

    def empty_jobs(self, scratch_rows: int) -> FrameJobs:
        """Return an empty list of jobs; their rows will share `scratch_rows`."""
        return FrameJobs(self.jobs.capacity, scratch_rows)

    def read_sums(self) -> NDArray[np.float32]:
        """Return the scores that were read back, float32 [heads of all layers, SCORE_SUMS]."""
        return np.array(self.sums.array(np.float32)).reshape(-1, SCORE_SUMS)

    def close(self) -> None:
        for part in (self.jobs, self.cells, self.spans, self.table, self.probe, self.sums):
            part.close()
        if self.times:
            self.times.close()
