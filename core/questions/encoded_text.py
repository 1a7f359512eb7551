"""The text that an encoder has read: of an encoder, or the source of an encoder-decoder.

Each token sees all others, so it runs again as a whole, over the keys and values that its caches
still hold.
"""

from __future__ import annotations

import numpy as np

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

    def check(self) -> None:
        if self._session.committed.epoch != self._epoch:
            raise RequestError("another text was encoded meanwhile: ask again")

    def step(self, outputs: int = 0, first: int = 0) -> Step:
        """Return the step over the whole text; where a head stands behind the layers, with outputs
        from the token `first` on."""
        self.check()
        tokens = np.asarray(self._session.tokens(), np.int32)
        return Step(tokens, 0, outputs, first_output=first)

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        return self._session.checked(values, what)
