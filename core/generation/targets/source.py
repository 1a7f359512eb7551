"""An encoder-decoder's source: encoded once, then seen by every step of the decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.finite import Values, checked
from llm_lite.core.inspect.attention import ring_tensor
from llm_lite.core.inspect.committed import Committed, CommittedRows
from llm_lite.core.inspect.head_gains import HeadGains
from llm_lite.core.messages import Gains
from llm_lite.core.plan.attention_layers import cross_states
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.step import Step

F32 = NDArray[np.float32]


def check_source(tokens: Sequence[int], most: int, vocabulary: int = 1 << 31) -> None:
    """RequestError unless there are 1 to `most` tokens, all of them in the vocabulary."""
    if not 0 < len(tokens) <= most:
        raise RequestError(f"the source has {len(tokens)} tokens, expected 1 to {most}")
    if (wrong := next((t for t in tokens if not 0 <= t < vocabulary), None)) is not None:
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")


class SourceEncoder:
    """Runs an encoder's program, and hands keys and values on to executors of its decoder.

    `committed` and `tokens` may be read from any thread, the rest belongs to one. `made_by` and
    `model` name weights, arithmetic and file in errors.
    """

    def __init__(
        self, executor: Executor, decoder_layers: int, *, made_by: str = "", model: str = ""
    ) -> None:
        self.executor = executor
        self._states = [name for i in range(decoder_layers) for name in cross_states(i)]
        self._made_by, self._model = made_by, model
        ring = ring_tensor(executor.program)
        self._rows = CommittedRows(ring.shape[0] if ring else 0)
        self._oldest = (0,) * len(cache_layers(executor.program.plans[0]))
        self._gains = HeadGains(executor)
        self._tokens: tuple[int, ...] = ()
        self.hidden: F32 | None = None  # [tokens, width], of what was encoded last

    @property
    def committed(self) -> Committed:
        """What maps of the encoder can be made of."""
        return self._rows.state

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """None: an encoder sees its own text alone."""
        return ()

    def tokens(self) -> tuple[int, ...]:
        """Those that were encoded last."""
        return self._tokens

    @property
    def gains(self) -> Gains:
        """A row for each layer of the encoder."""
        return self._gains.current

    def check_gains(self, gains: Gains) -> None:
        """RequestError unless there is a finite number for every head of the encoder."""
        self._gains.check(gains)

    def set_gains(self, gains: Gains) -> None:
        """Weigh the encoder's heads from the next source on."""
        self._gains.check(gains)
        if gains != self.gains:
            self._gains.write(gains)
            self._gains.current = gains

    def checked(self, values: Values, what: str) -> Values:
        """The same values; NotFiniteError that names the model where one is NaN or infinite."""
        return checked(values, what, self._model, self._made_by)

    def encode(self, tokens: Sequence[int], should_stop: StopCheck | None = None) -> F32:
        """Hidden states float32 [tokens, width]; RequestError where the source is too long."""
        check_source(tokens, self.executor.program.max_tokens)
        self._tokens = ()
        self._rows.commit(0, 0, self._oldest)  # the rows are written over
        step = Step(np.asarray(tokens, np.int32), 0, len(tokens))
        hidden = self.checked(self.executor.run(step, should_stop), "the encoder's hidden states")
        self._tokens, self.hidden = tuple(tokens), hidden
        self._rows.commit(len(tokens), 0, self._oldest)
        self._rows.begin_epoch()
        return hidden

    def hand_to(self, decoder: Executor) -> None:
        """The keys and values of what was encoded last; steps then say `len(self.tokens())`."""
        for name in self._states:
            decoder.write_state(name, 0, self.executor.read_state(name, 0, len(self._tokens)))
