"""The part of an encoder that maps and gains of heads need: the rows and the tokens of its last
text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.moving import written_tensors
from llm_lite.core.finite import Values, checked
from llm_lite.core.inspect.attention import ring_tensor
from llm_lite.core.inspect.inspected import Committed, CommittedRows, SequenceGains
from llm_lite.core.messages import Gains
from llm_lite.core.plan.cache_layers import cache_layers


class InspectedEncoder:
    """The part that all who run an encoder one text at a time share.

    `committed` and `tokens` may be read from any thread, the rest belongs to one. `made_by` and
    `model` name weights, arithmetic and file in errors.
    """

    has_head = False  # that predicts tokens
    handed_states: tuple[str, ...] = ()  # what its decoder sees of a source, where it has a decoder

    def __init__(self, executor: Executor, *, made_by: str = "", model: str = "") -> None:
        self.executor = executor
        self.made_by, self.model = made_by, model
        ring = ring_tensor(executor.program)
        self._rows = CommittedRows(ring.shape[0] if ring else 0)
        self._oldest = (0,) * len(cache_layers(executor.program.plans[0]))
        self._gains = SequenceGains(executor)
        self._tokens: tuple[int, ...] = ()

    @property
    def committed(self) -> Committed:
        """Return the positions that maps can be computed for."""
        return self._rows.state

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """Return (): an encoder sees its own text alone."""
        return ()

    def tokens(self) -> tuple[int, ...]:
        """Return the tokens of the last text."""
        return self._tokens

    @property
    def gains(self) -> Gains:
        """Return the gains, a row for each layer."""
        return self._gains.current

    def check_gains(self, gains: Gains) -> None:
        """Raise RequestError unless there is a finite number for every head."""
        self._gains.check(gains)

    def set_gains(self, gains: Gains) -> None:
        """Weigh the heads from the next text on; RequestError where these are not the model's."""
        self._gains.check(gains)
        if gains != self.gains:
            self._gains.write(gains)
            self._gains.current = gains
            self._rows.gains_changed()

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        return checked(values, what, self.model, self.made_by)

    @contextmanager
    def scratch_steps(self, count: int) -> Iterator[None]:
        """Let steps inside overwrite the rows of the first `count` positions; everything is
        restored on exit. Readers of maps see no rows meanwhile."""
        executor, state, saved = self.executor, self._rows.state, []
        for tensor in written_tensors(executor.program.plans[0]):
            rows = executor.read_state(tensor.name, 0, min(count, tensor.ring_rows))
            saved.append((tensor.name, rows.copy()))
        self._rows.commit(0, 0, self._oldest)
        try:
            yield
        finally:
            for name, rows in saved:
                executor.write_state(name, 0, rows)
            self._rows.commit(state.length, state.rows.start, state.oldest)

    @contextmanager
    def _encoding(self, tokens: Sequence[int]) -> Iterator[None]:
        """Write over the rows within: they are this text's behind it, and none's if it fails."""
        self._tokens = ()
        self._rows.commit(0, 0, self._oldest)
        yield
        self._tokens = tuple(tokens)
        self._rows.commit(len(tokens), 0, self._oldest)
        self._rows.begin_epoch()
