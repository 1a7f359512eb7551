"""The text that an encoder has read: of an encoder, or the source of an encoder-decoder.

Each token sees all others, so it runs again as a whole, over the keys and values that its caches
still hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.encoding.session import check_text
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.inspected_encoder import InspectedEncoder
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step


class EncodedText:
    """The text as it is now; RequestError from `check` and `step` once another was read. For the
    executor's thread, between two steps."""

    def __init__(self, session: InspectedEncoder, files: MappedFiles) -> None:
        self._session, self.files = session, files
        self.length, self._epoch = session.committed.length, session.committed.epoch

    @property
    def executor(self) -> Executor:
        return self._session.executor

    @property
    def plan(self) -> Plan:
        """Return a plan of its program; others differ in sizes."""
        return self.executor.program.plans[0]

    @property
    def has_head(self) -> bool:
        """Return whether a head behind the layers predicts tokens."""
        return self._session.has_head

    @property
    def hands_over(self) -> bool:
        """Return whether it is the source of an encoder-decoder."""
        return bool(self._session.handed_states)

    def tokens(self) -> tuple[int, ...]:
        return self._session.tokens()

    def check(self) -> None:
        if self._session.committed.epoch != self._epoch:
            raise RequestError("another text was encoded meanwhile: ask again")

    def step(self, outputs: int = 0, first: int = 0, tokens: Sequence[int] | None = None) -> Step:
        """Return the step over the whole text, or over others than its `tokens`, within `scratch`;
        where a head stands behind the layers, with outputs from the token `first` on. RequestError
        for tokens that the encoder cannot take."""
        self.check()
        if tokens is None:
            tokens = self.tokens()
        else:
            program = self.executor.program
            context = min(program.context, program.max_tokens)
            check_text(tokens, context=context, vocabulary=program.vocabulary)
        return Step(np.asarray(tokens, np.int32), 0, outputs, first_output=first)

    def scratch(self, count: int) -> AbstractContextManager[None]:
        """Let steps inside store rows of the first `count` positions; afterwards all is as it
        was."""
        return self._session.scratch_steps(count)

    def handed_rows(self, count: int) -> dict[str, NDArray[np.uint8]]:
        """Return what the decoder sees of `count` tokens: rows of keys and values, by state."""
        return {
            name: self.executor.read_state(name, 0, count).copy()
            for name in self._session.handed_states
        }

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        return self._session.checked(values, what)
