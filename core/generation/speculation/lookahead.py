"""Logits that are known ahead, of drafted tokens that a step has verified."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages.interventions import UNCHANGED, LiveChanges


class Lookahead(Struct, frozen=True):
    """Rows of the caches from position `first` on that hold these tokens, as if they had been
    decoded with `changes`; the cache does not count them yet. They hold nothing of use once another
    step has run or positions have moved (another `epoch` of the cache)."""

    first: int = 0
    tokens: tuple[int, ...] = ()
    logits: NDArray[np.float32] | None = None  # [tokens, V], of what follows each
    changes: LiveChanges = UNCHANGED
    epoch: int = 0

    def next_token(self, position: int, changes: LiveChanges, epoch: int) -> int | None:
        """Return the token that is known ahead at this position; None if none is."""
        index = position - self.first
        if not 0 <= index < len(self.tokens) or (changes, epoch) != (self.changes, self.epoch):
            return None
        return self.tokens[index]

    def row(self, position: int) -> NDArray[np.float32]:
        """Return logits float32 [V] of what follows the token at this position."""
        assert self.logits is not None
        row: NDArray[np.float32] = self.logits[position - self.first]
        return row


NOTHING_AHEAD = Lookahead()
