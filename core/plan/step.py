"""What changes from step to step: a few words that every kernel reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HEADER_WORDS = 16
# Words of the header; kernels_cpp/base/step.h and kernels_glsl/common/step.glsl say the same.
N_TOKENS, START, KV_LENGTH, FIRST_OUTPUT, N_OUTPUTS = range(5)


@dataclass(frozen=True, slots=True)
class Step:
    """Tokens that enter the cache at position start and on; logits for the last `outputs`."""

    tokens: NDArray[np.int32]
    start: int
    outputs: int = 1

    @property
    def count(self) -> int:
        return len(self.tokens)

    @property
    def kv_length(self) -> int:
        """Positions in the cache once this step's tokens are in."""
        return self.start + len(self.tokens)

    def rows(self, rows: str, fixed: int) -> int:
        """Rows in use of a tensor whose `rows` is this and whose first dimension is `fixed`."""
        return {"tokens": self.count, "outputs": self.outputs}.get(rows, fixed)

    def pack(self, max_tokens: int) -> NDArray[np.int32]:
        """The step buffer: int32 [HEADER_WORDS + max_tokens], token ids behind the header."""
        words = np.zeros(HEADER_WORDS + max_tokens, np.int32)
        words[N_TOKENS] = self.count
        words[START] = self.start
        words[KV_LENGTH] = self.kv_length
        words[FIRST_OUTPUT] = self.count - self.outputs
        words[N_OUTPUTS] = self.outputs
        words[HEADER_WORDS : HEADER_WORDS + self.count] = self.tokens
        return words
