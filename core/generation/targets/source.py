"""An encoder-decoder's source: encoded once, then seen by every step of the decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.inspect.inspected_encoder import InspectedEncoder
from llm_lite.core.plan.attention_layers import cross_states
from llm_lite.core.plan.step import Step

F32 = NDArray[np.float32]


def check_source(tokens: Sequence[int], most: int, vocabulary: int = 1 << 31) -> None:
    """Raise RequestError unless there are 1 to `most` tokens, all of them in the vocabulary."""
    if not 0 < len(tokens) <= most:
        raise RequestError(f"the source has {len(tokens)} tokens, expected 1 to {most}")
    if (wrong := next((t for t in tokens if not 0 <= t < vocabulary), None)) is not None:
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")


class SourceEncoder(InspectedEncoder):
    """Runs an encoder's program, and hands keys and values on to executors of its decoder."""

    def __init__(
        self, executor: Executor, decoder_layers: int, *, made_by: str = "", model: str = ""
    ) -> None:
        super().__init__(executor, made_by=made_by, model=model)
        self._states = [name for i in range(decoder_layers) for name in cross_states(i)]
        self.hidden: F32 | None = None  # [tokens, width], of what was encoded last

    def encode(self, tokens: Sequence[int], should_stop: StopCheck | None = None) -> F32:
        """Encode a source and return its hidden states float32 [tokens, width]. RequestError if the
        source is too long."""
        check_source(tokens, self.executor.program.max_tokens)
        step = Step(np.asarray(tokens, np.int32), 0, len(tokens))
        with self._encoding(tokens):
            found = self.executor.run(step, should_stop)
            self.hidden = self.checked(found, "the encoder's hidden states")
        return self.hidden

    def hand_to(self, decoder: Executor) -> None:
        """Write the keys and values of the last source to the decoder; its steps then have
        `source=len(self.tokens())`."""
        for name in self._states:
            decoder.write_state(name, 0, self.executor.read_state(name, 0, len(self._tokens)))
