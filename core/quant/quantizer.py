"""From float32 to the best bytes of a format, by all cores: what `convert` and variants use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.feedback import Feedback, quantize_int4
from llm_lite.core.quant.registry import FORMATS

F32 = NDArray[np.float32]


def encode(name: str, values: F32, importance: F32 | None = None) -> NDArray[np.uint8]:
    """values [N, K] -> bytes of a format; importance [K] >= 0 weighs squared errors by column.

    Tiles are searched (`core.quant.search` says how); other formats round.
    """
    if FORMATS[name].tile_rows == 1:
        return FORMATS[name].quantize(values)
    from llm_lite_kernels import _cpp

    from llm_lite.core.processor import default_threads, isa_name

    if importance is None:
        importance = np.ones(values.shape[1], np.float32)
    found: NDArray[np.uint8] = _cpp.quantize(
        name, values, importance, isa_name(), default_threads()
    )
    return found


class Calibrated:
    """Bytes for one matrix whose inputs' second moment is known.

    moment: [K, K] or its diagonal [K]; `also_rows`: rows of the matrix are read as they are too (an
    embedding that is the output head as well), so that no column may be neglected.
    """

    def __init__(self, name: str, moment: F32, *, also_rows: bool = False) -> None:
        self._name, self._feedback = name, None
        diagonal = np.diag(moment) if moment.ndim == 2 else moment
        mean = float(diagonal.mean(dtype=np.float64)) or 1.0
        share = _ROWS_SHARE if also_rows else 0.0
        self._importance = (diagonal / mean + (_LEAST + share)).astype(np.float32)
        if name == "int4" and moment.ndim == 2:
            self._feedback = Feedback.of(moment, share)

    def encode(self, values: F32) -> NDArray[np.uint8]:
        """values [N, K], any rows of the matrix from a multiple of 16 on."""
        if self._feedback is None or not np.isfinite(values).all():
            return encode(self._name, values, self._importance)
        return quantize_int4(
            values, self._feedback, lambda part, weight: encode(self._name, part, weight)
        )


_LEAST = 0.01  # importance that a column has which calibration never saw in use
_ROWS_SHARE = 0.1
