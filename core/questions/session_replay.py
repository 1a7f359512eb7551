"""`Replay` of the conversation in a session: of the chat, or of a text in Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.moving import runs
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.inspect.lesson.collecting import trace_token
from llm_lite.core.kv_cache.contents import values_of
from llm_lite.core.kv_cache.states import State
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages import FollowToken, ReadAttentionRows, TokenTrace
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.replay import OtherText
from llm_lite.core.records import replace

F32 = NDArray[np.float32]


def no_responses(name: str) -> OtherText:
    """Raise RequestError, as nothing but a server has responses by name."""
    raise RequestError(
        f"source_response: expected nothing, as only a server has responses by name, found "
        f"{name[:80]!r}"
    )


class SessionReplay:
    """The tokens that a session's cache holds now; RequestError from `check`, and whatever reads or
    runs, once the cache was rewritten. `source` has its queries and keys."""

    no_rows = "no queries are kept of what is in the cache"
    is_shared = False
    encoded: EncodedText | None = None
    decodes = True
    model = LoadedModel()

    def __init__(
        self,
        session: InspectedSession,
        source: AttentionSource,
        weights: Mapping[str, TensorData] = MappingProxyType({}),
        token_text: Callable[[int], str] = str,
    ) -> None:
        self._session, self._source = session, source
        self.weights, self.token_text = weights, token_text
        self.length, self.epoch = session.context_used, session.committed.epoch
        self.no_rows = source.note or self.no_rows
        self._is_scratch = False
        self.find_response: Callable[[str], OtherText] = no_responses

    @property
    def executor(self) -> Executor:
        return self._session.executor

    @property
    def files(self) -> MappedFiles:
        return self._session.files

    @property
    def version(self) -> int:
        return self._session.committed.version

    @property
    def rows(self) -> range:
        return self._session.committed.rows

    @property
    def layers(self) -> tuple[AttentionLayer, ...]:
        return self._source.layers

    def tokens(self) -> tuple[int, ...]:
        return self._session.tokens()

    def check(self) -> None:
        session = self._session
        if session.committed.epoch != self.epoch or session.context_used < self.length:
            raise RequestError("the cache was rewritten while it was read: ask again")

    def reusable_prefix_length(self) -> int:
        return self._session.cache.reusable_prefix_length(self._session.conditions)

    def oldest(self, layer: CacheLayer) -> int:
        return self._session.cache.oldest(layer)

    def kept(self, tensor: Tensor, positions: range) -> F32:
        self.check()
        return values_of(self.executor, tensor, positions)

    def attended(self, layers: Collection[int], rows: range | None = None) -> AttentionSource:
        self.check()
        return self._source

    def response(self, name: str) -> AbstractContextManager[OtherText]:
        return nullcontext(self.find_response(name))

    def rows_reader(self, request: ReadAttentionRows) -> AttentionRowsReader:
        return AttentionRowsReader(self._source)

    def trace(self, request: FollowToken) -> TokenTrace:
        """Return the trace without texts of tokens."""
        return trace_token(self._session, self._source, request)

    def nearest(self, length: int, end: int) -> tuple[int, State | None]:
        states = self._session.cache.states
        at = states.longest(length)
        if at < length and self.reusable_prefix_length() < length:
            raise RequestError(
                f"the state behind {length} tokens is not held, and these were computed with other "
                "weights or interventions: send the conversation again"
            )
        return at, states.read(at) if at and states.slots else None

    def run(
        self,
        start: int,
        end: int,
        state: State | None,
        run: Callable[[Step], None],
        tokens: Sequence[int] | None = None,
        *,
        plain: bool = False,
    ) -> State:
        self.check()
        if not self._is_scratch:
            self._check_seen(start)
        session, states = self._session, self._session.cache.states
        with states.scratch_steps():
            if state is not None:
                states.write_scratch(start, state)
            step = session.step((session.tokens() if tokens is None else tokens)[start:end], start)
            if plain:
                session.write_gains(tuple((1.0,) * len(row) for row in session.gains))
            try:
                run(replace(step, shifted=False) if plain else step)
            finally:
                if plain:
                    session.write_gains(session.gains)
            if not states.slots:
                return {}
            states.note_scratch(start, end, step.states[0][1])
            return states.read(end)

    @contextmanager
    def scratch(self, start: int, end: int) -> Iterator[None]:
        self.check()
        context = self.executor.program.context
        if end > context:
            raise RequestError(f"{end:,} tokens do not fit into the context of {context:,}")
        self._check_seen(start)
        with self._session.scratch_steps(start, end - start):
            self._is_scratch = True
            try:
                yield
            finally:
                self._is_scratch = False

    def places(self, tensor: Tensor, positions: range) -> list[tuple[int, int]]:
        return list(runs(positions.start, positions.stop, tensor.ring_rows))

    def _check_seen(self, position: int) -> None:
        """Raise RequestError where a ring has lost keys that the token attended to."""
        cache = self._session.cache
        oldest = {layer.keys.name: cache.oldest(layer) for layer in cache.layers}
        for layer in self.layers:
            first = max(0, position - layer.window + 1) if layer.window else 0
            if oldest.get(layer.keys, 0) > first:
                raise RequestError(
                    f"the cache no longer holds what token {position} saw: choose a later token"
                )

    def checked(self, values: Values, what: str) -> Values:
        return self._session.checked(values, what)
