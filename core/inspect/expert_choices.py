"""The choices of experts as arrays, which the engine, a server and views read."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import RoutingRead

F32 = NDArray[np.float32]


class Routing(Struct, frozen=True):
    """The experts that tokens chose, and what each weighs in its layer's result."""

    first: int  # position of the first token
    layers: tuple[int, ...]  # that have experts, by number
    experts: int  # of a layer
    chosen: NDArray[np.uint16]  # [tokens, layers, k], the highest score first
    shares: F32  # [tokens, layers, k]

    @staticmethod
    def of(read: RoutingRead) -> Routing:
        """Return the arrays of a message."""
        shape = (-1, len(read.layers), read.chosen)
        chosen = np.frombuffer(read.experts_chosen, "<u2").reshape(shape)
        shares = np.frombuffer(read.shares, "<f4").reshape(shape)
        return Routing(read.first, read.layers, read.experts, chosen, shares)
