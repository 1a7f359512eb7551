"""`Replay` of a response: its tokens in the pages that still hold it, also after its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import GoneError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.moving import written_tensors
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.generation.token_texts import text_of, with_texts
from llm_lite.core.kv_cache.states import State, StateSlots
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages import FollowToken, ReadAttentionRows, TokenTrace
from llm_lite.core.messages.interventions import UNCHANGED
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.plan.step import NO_STATE, PAGE, Segment, Step, pages_for
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.questions.attention_reader import AttentionRowsReader
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.replay import OtherText
from llm_lite.core.serving import inspect
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.inspect import NO_QUERIES, CachedResponse, ResponseRows

F32 = NDArray[np.float32]
# Tokens that run again for one request, between the steps of others: at 70 a second, which is slow,
# a client has its answer within a minute.
MOST_AGAIN = 4096


class ResponseReplay:
    """The first tokens of a response. It belongs to the engine's thread, between two steps; before
    each part of a question there, `renew` says what the cache has now."""

    no_rows = NO_QUERIES
    is_shared = True
    encoded: EncodedText | None = None
    decodes = True
    version = epoch = 0  # its tokens never change, and what they were computed with

    def __init__(
        self, batch: Batch, cached: CachedResponse, find: Callable[[str], CachedResponse]
    ) -> None:
        """Take what finds responses by name; only the engine's thread calls it."""
        self._batch, self._cached, self.length = batch, cached, len(cached.tokens)
        self._find, self._others = find, list[ResponseReplay]()
        self._slots = StateSlots(batch.executor)
        self._is_scratch = False
        self.model = LoadedModel(batch.runner.model_info.name, batch.runner.model_file)

    @property
    def executor(self) -> Executor:
        return self._batch.executor

    @property
    def files(self) -> MappedFiles:
        return self._batch.runner.session.files

    @property
    def weights(self) -> Mapping[str, TensorData]:
        return self._batch.runner.weights

    @property
    def rows(self) -> range:
        has_queries = any(layer.queries for layer in self._batch.layers)
        return range(self.length if has_queries else 0)

    @property
    def layers(self) -> tuple[AttentionLayer, ...]:
        return self._batch.layers

    def renew(self, batch: Batch, cached: CachedResponse) -> None:
        """Go on with the pages that the response has now; GoneError where these hold less of it, or
        are another executor's."""
        if batch is not self._batch or cached.tokens[: self.length] != self._cached.tokens:
            raise GoneError(f"the cache has begun to give up {self._cached.name}: ask again")
        self._cached = CachedResponse(
            cached.name,
            self._cached.tokens,
            cached.prompt_tokens,
            cached.pages,
            cached.changes,
            cached.windows_from,
        )
        for other in self._others:
            other.renew(batch, self._find(other._cached.name))

    def tokens(self) -> tuple[int, ...]:
        return self._cached.tokens

    def check(self) -> None:
        """Do nothing: copies stay, and `renew` checks the pages."""

    def token_text(self, token: int) -> str:
        return text_of(self._batch.runner.model_file.tokenizer, token)

    def reusable_prefix_length(self) -> int:
        return self.length

    def oldest(self, layer: CacheLayer) -> int:
        return inspect.first_held(self._cached, layer)

    def kept(self, tensor: Tensor, positions: range) -> F32:
        return inspect.kept(self._batch, self._cached, tensor, positions)

    @contextmanager
    def response(self, name: str) -> Iterator[OtherText]:
        """Return another response; `renew` renews its pages, too, inside."""
        other = ResponseReplay(self._batch, self._find(name), self._find)
        self._others.append(other)
        try:
            yield OtherText(decoded=other.tokens(), replay=other)
        finally:
            self._others.remove(other)

    def attended(self, layers: Collection[int], rows: range | None = None) -> ResponseRows:
        for layer in layers:
            inspect.check_attention(self._batch, layer, (0,))
        positions = range(self.length) if rows is None else rows
        return ResponseRows(self._batch, self._cached, layers, positions)

    def rows_reader(self, request: ReadAttentionRows) -> AttentionRowsReader:
        return AttentionRowsReader(inspect.copy_for(self._batch, self._cached, request))

    def trace(self, request: FollowToken) -> TokenTrace:
        """Raise RequestError for models with recurrent states, too."""
        found = inspect.trace(self._batch, self._cached, request)
        return with_texts(self._batch.runner.model_file.tokenizer, found)

    def nearest(self, length: int, end: int) -> tuple[int, State | None]:
        at, slot = self._last_state(length)
        if end - at > MOST_AGAIN:
            if self._batch.pool.states is None:
                raise RequestError(
                    f"{end - at:,} tokens would run again: at most {MOST_AGAIN:,} do for one "
                    "request, so ask for fewer positions"
                )
            raise RequestError(
                f"{end - at:,} tokens would run again for the recurrent states before token "
                f"{length}, of which the server holds those behind {at:,}: at most {MOST_AGAIN:,} "
                "run again for one request"
            )
        return at, None if slot is None else self._slots.read(slot)

    def _last_state(self, length: int) -> tuple[int, int | None]:
        """Return the most of the first `length` tokens behind which a step could go on, and the
        slot of the recurrent state there."""
        states = self._batch.pool.states
        if states is None:
            return length, None
        for index in range(length // PAGE - 1, -1, -1):
            slot = states.of(int(self._cached.pages[index]))
            if slot is not None:
                return (index + 1) * PAGE, slot
        return 0, None

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
        batch, cached, states = self._batch, self._cached, self._batch.pool.states
        if not self._is_scratch:
            cached.check_seen(start, batch.layers)
        slot = states.allocate() if states is not None else 0
        if slot is None:
            raise RequestError(
                "answers use all slots of recurrent states: ask again once one has ended"
            )
        try:
            if state:
                self._slots.write(slot, state)
            ids = np.array((cached.tokens if tokens is None else tokens)[start:end], np.int32)
            pages = cached.pages[: pages_for(end)]
            weighed = batch.slots.slot_of(UNCHANGED if plain else cached.changes)
            slots = slot if state else NO_STATE, slot
            run(batch.step(ids, (Segment(start, end - start, 1, pages, weighed, slots),)))
            return self._slots.read(slot)
        finally:
            if states is not None:
                states.release(slot)

    @contextmanager
    def scratch(self, start: int, end: int) -> Iterator[None]:
        batch, cached, saved = self._batch, self._cached, []
        if start:
            cached.check_seen(start, batch.layers)
        pages, windows = cached.pages[start // PAGE : pages_for(end)], batch.pool.windows
        room = len(cached.pages) * PAGE
        if end > room:
            raise RequestError(
                f"{end:,} tokens do not fit into the part of the cache that {cached.name} has, of "
                f"{room:,} positions"
            )
        if windows is not None and not all(windows.has(int(page)) for page in pages):
            raise RequestError(
                f"what token {start} sees is no longer in the caches of layers with a window: "
                f"expected a position from {cached.windows_from} on"
            )
        for tensor in written_tensors(batch.program.plans[0]):
            for row, count in self.places(tensor, range(start, end)):
                rows = batch.executor.read_state(tensor.name, row, count)
                saved.append((tensor.name, row, rows))
        self._is_scratch = True
        try:
            yield
        finally:
            self._is_scratch = False
            for name, row, rows in saved:
                batch.executor.write_state(name, row, rows)

    def places(self, tensor: Tensor, positions: range) -> list[tuple[int, int]]:
        return inspect.places(self._batch, self._cached, tensor, positions)

    def checked(self, values: Values, what: str) -> Values:
        return self._batch.runner.session.checked(values, what)
