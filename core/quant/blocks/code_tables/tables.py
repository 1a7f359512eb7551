"""The common part of formats of 4-bit codes: a nibble stands for one of 16 numbers of a table.

Two codes lie in a byte. Whole bytes are looked up, in one pass for the low codes and one for the
high ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

I8 = NDArray[np.int8]


class CodeTable:
    """A table of 16 int8 numbers."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers: I8 = np.array(numbers, np.int8)
        whole = np.arange(256)
        self._low = self.numbers[whole & 15].tobytes()
        self._high = self.numbers[whole >> 4].tobytes()

    def decode(self, packed: NDArray[np.uint8], together: int) -> I8:
        """[n, bytes] -> [n, 2 * bytes]: of so many bytes the low codes first, then the high."""
        raw = packed.tobytes()
        out = np.empty((len(packed), packed.shape[1] // together, 2, together), np.int8)
        parts = out[:, :, 0].shape
        for half, table in enumerate((self._low, self._high)):
            out[:, :, half] = np.frombuffer(raw.translate(table), np.int8).reshape(parts)
        return out.reshape(len(packed), -1)


MINIFLOATS = CodeTable((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12))
"""E2M1, doubled: a sign, two bits of exponent, one of mantissa (OCP Microscaling Formats 1.0)."""

NONLINEAR = CodeTable((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113))
"""The levels of IQ4_NL and IQ4_XS (kvalues_iq4nl of ggml-common.h), closest together around 0."""
