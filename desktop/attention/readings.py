"""The little that comes back to the host: a value under the pointer, sums of scores."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.inspect.attention_scores import means
from llm_lite.desktop.attention.slot import Slot
from llm_lite.desktop.attention.surface import WORD

SCORE_PERIOD = 0.6  # seconds between two readings of the scores
Probe = tuple[str, int, int]  # name of a picture, pixel row and column


class Readings:
    """What views have asked for in this frame, and what has come back of what they asked before."""

    def __init__(self) -> None:
        self.bytes = {"maps": 0, "pointer": 0, "scores": 0, "exports": 0}  # so far
        self.probe: Probe | None = None
        self.sums: NDArray[np.float32] | None = None
        self.means: dict[str, NDArray[np.float32]] | None = None
        self._values: dict[Probe, float] = {}
        self._wanted, self._at = False, 0.0

    def begin(self) -> None:
        self.probe, self._wanted = None, False

    def forget(self) -> None:
        """Another model."""
        self.forget_values()
        self.sums = self.means = None

    def forget_values(self) -> None:
        """The text has changed."""
        self._values.clear()

    def value(self, probe: Probe) -> float | None:
        """The value of a pixel, a few frames after it was first asked for."""
        self.probe = probe
        return self._values.get(probe)

    def want_scores(self) -> None:
        self._wanted = True

    def scores_due(self) -> bool:
        """Whether this frame reads the scores."""
        now = time.perf_counter()
        if not self._wanted or now - self._at < SCORE_PERIOD:
            return False
        self._at = now
        return True

    def read(self, slot: Slot) -> None:
        """Take what came back with the frame that used this slot before."""
        if slot.probed is not None:
            word = int(slot.probe.array(np.uint32)[0])
            self._values = {slot.probed: _float(word - 1)} if word else {}
            self.bytes["pointer"] += WORD
        if slot.summed:
            self.sums = slot.read_sums()
            self.means = means(self.sums)
            self.bytes["scores"] += self.sums.nbytes


def _float(bits: int) -> float:
    return float(np.array([bits], np.uint32).view(np.float32)[0])
