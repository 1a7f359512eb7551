"""Answers of a server can be inspected: questions find their tokens, queries and keys here.

All of it is made of the pages that still hold an answer, also after its end, until others need
them. Only the engine's thread, between two steps, finds, copies or runs; the thread that asks
computes with the copies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import GoneError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.lesson.collecting import trace_run
from llm_lite.core.inspect.lesson.recording import TracedRun, check_position
from llm_lite.core.messages import (
    FollowToken,
    Gains,
    ReadAttentionRows,
    TokenTrace,
)
from llm_lite.core.messages.interventions import LiveChanges
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.plan.cache_layers import CacheLayer
from llm_lite.core.plan.plan import Kind, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import PAGE, Segment, Step, pages_for
from llm_lite.core.quant import rows
from llm_lite.core.questions.attention_reader import check_rollout
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.pages import PagePool, Ticket
from llm_lite.core.serving.service import F32

_MOST_RESPONSES = 512  # that are known by name after their end
NO_QUERIES = "no queries are kept, so there are no attention maps: their memory budget is too small"


class CachedResponse(Struct, frozen=True):
    """The tokens and pages of a response that the cache still has."""

    name: str
    tokens: tuple[int, ...]
    prompt_tokens: int  # of the whole response
    pages: NDArray[np.int32]
    changes: LiveChanges
    windows_from: int  # the first position that caches with a window still have

    def first_row(self, window: int) -> int:
        """Return the first position for which the cache has all keys that it sees in a layer with
        this window, 0 for none."""
        return self.windows_from + window - 1 if window and self.windows_from else 0

    def check_seen(self, position: int, layers: Iterable[AttentionLayer]) -> None:
        """Raise RequestError unless the cache has all that a token sees in these layers."""
        first = max((self.first_row(layer.window) for layer in layers), default=0)
        if position < first:
            raise RequestError(
                f"what token {position} sees is no longer in the caches of layers with a window: "
                f"expected a position from {first} on"
            )


class _Ended(Struct, frozen=True):
    tokens: tuple[int, ...]
    prompt_tokens: int
    tickets: tuple[Ticket, ...]
    changes: LiveChanges


class Responses:
    """Answers that have ended are known here by name, as long as the cache has pages of them."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, _Ended] = OrderedDict()

    def add(self, answer: ServedAnswer, pool: PagePool) -> None:
        """Remember an answer that ends now, before it releases its pages."""
        paged, name = answer.paged, answer.request.response
        if paged.computed:
            tokens = tuple(paged.tokens[: paged.computed])
            tickets = paged.tickets(pool)
            self._ended[name] = _Ended(tokens, answer.writer.prompt_tokens, tickets, paged.changes)
            self._ended.move_to_end(name)
        while len(self._ended) > _MOST_RESPONSES:
            self._ended.popitem(last=False)

    def clear(self) -> None:
        self._ended.clear()

    def find(self, name: str, running: Sequence[ServedAnswer], pool: PagePool) -> CachedResponse:
        """Return what is left of a response; raise GoneError where nothing is."""
        for answer in running:
            if answer.request.response == name:
                paged = answer.paged
                read, prompt = paged.tokens[: paged.computed], answer.writer.prompt_tokens
                return _cached(name, read, prompt, paged.pages, paged.changes, pool)
        ended = self._ended.get(name)
        pages = list[int]()
        for ticket in ended.tickets if ended else ():
            if not pool.is_valid(ticket):  # the last ones are given up first
                break
            pages.append(ticket.page)
        if ended is None or not pages:
            self._ended.pop(name, None)
            raise GoneError(
                f"{name} is no longer in the cache, whose {pool.count} pages of {PAGE} tokens "
                "newer answers needed"
                if ended
                else f"there is no answer of the name {name}, or it has not begun"
            )
        tokens = ended.tokens[: len(pages) * PAGE]
        return _cached(name, tokens, ended.prompt_tokens, pages, ended.changes, pool)


def _cached(
    name: str,
    tokens: Sequence[int],
    prompt_tokens: int,
    pages: Sequence[int],
    changes: LiveChanges,
    pool: PagePool,
) -> CachedResponse:
    windows_from, windows = 0, pool.windows
    if windows is not None:
        has = [windows.has(page) for page in pages[: pages_for(len(tokens))]]
        lost = len(has) - has[::-1].index(False) if False in has else 0
        windows_from = min(lost * PAGE, len(tokens))
    table = np.array(pages, np.int32)
    return CachedResponse(name, tuple(tokens), prompt_tokens, table, changes, windows_from)


class ResponseRows:
    """Copies of the queries at some positions of a response, and of all its keys, of some layers,
    as the caches have them: an `AttendedSequence` (core/inspect/attention.py), for any thread."""

    note = ""  # where no queries are kept nothing is copied: `check_attention`

    def __init__(
        self, batch: Batch, response: CachedResponse, layers: Collection[int], rows: range
    ) -> None:
        """Copy, on the engine's thread."""
        self._batch, self._response = batch, response
        self.layers = batch.layers
        self.rows = rows
        self._queries = {
            layer: _read(batch, name, response, rows.start, rows.stop)
            for layer in layers
            if (name := self.layers[layer].queries)
        }
        length = len(response.tokens)
        self._keys = {
            layer: _read(batch, self.layers[layer].keys, response, 0, length)
            for layer in layers
            if self.layers[layer].attends
        }

    @property
    def length(self) -> int:
        return len(self._response.tokens)

    @property
    def ring_rows(self) -> int:
        return self.length  # pages have as many rows of queries as of keys

    def first_held(self, layer: CacheLayer) -> int:
        """Return the first position whose key a layer's cache has."""
        return first_held(self._response, layer)

    def rows_of(self, layer: int) -> range:
        first = max(self.rows.start, self._response.first_row(self.layers[layer].window))
        return range(min(first, self.rows.stop), self.rows.stop)

    def common_rows(self, layers: Iterable[int]) -> range:
        first = max((self.rows_of(layer).start for layer in layers), default=self.rows.start)
        return range(first, self.rows.stop)

    def tokens(self) -> tuple[int, ...]:
        return self._response.tokens

    def columns(self, layer: int) -> int:
        return self.length

    def queries(self, layer: int, rows: range | None = None) -> F32:
        rows, shape = self.rows if rows is None else rows, self.layers[layer]
        first = self.rows.start
        data = self._queries[layer][rows.start - first : rows.stop - first]
        return _decoded(self._batch, shape.queries or "", data, shape.heads)

    def keys(self, layer: int) -> F32:
        shape = self.layers[layer]
        return _decoded(self._batch, shape.keys, self._keys[layer], shape.kv_heads)

    def bias(self, layer: int) -> F32 | None:
        name = self.layers[layer].bias
        return None if name is None else self._batch.runner.weights[name].dequantize()

    def checked(self, values: Values, what: str) -> Values:
        return self._batch.runner.session.checked(values, what)


def check_attention(batch: Batch, layer: int, heads: Sequence[int]) -> AttentionLayer:
    """Return the layer. Raises RequestError where the model has no such layer or heads, keeps no
    queries, or the layer attends to a source, which is not kept."""
    if not 0 <= layer < len(batch.layers):
        raise RequestError(f"layer {layer}: the model has layers 0 to {len(batch.layers) - 1}")
    attention = batch.layers[layer]
    if not attention.attends:
        raise RequestError(f"layer {layer} has a recurrent state instead of attention")
    if not heads or not all(0 <= head < attention.heads for head in heads):
        raise RequestError(
            f"layer {layer} has heads 0 to {attention.heads - 1}, asked for {list(heads)}"
        )
    if attention.queries is None:
        raise RequestError(NO_QUERIES)
    if attention.cross:
        raise RequestError(f"layer {layer} is cross-attention, whose source is no longer kept")
    return attention


def copy_for(batch: Batch, response: CachedResponse, request: ReadAttentionRows) -> ResponseRows:
    """Copy what these attention rows are made of: of the layers that are asked for, or of all
    for a rollout. What is not there is left out: the reader of the rows says so."""
    if request.mode == "rollout":
        layers = set(range(len(batch.layers)))
        check_rollout(len(layers), len(response.tokens))
    else:
        wanted = (
            {layer for layer, _ in request.heads} if request.mode == "heads" else {request.layer}
        )
        layers = {layer for layer in wanted if 0 <= layer < len(batch.layers)}
    if request.mode == "rollout":  # whose reader says what it lacks
        layers = {layer for layer in layers if batch.layers[layer].attends}
    for layer in layers:
        check_attention(batch, layer, (0,))
    rows, position = range(len(response.tokens)), request.position
    windows = [batch.layers[layer] for layer in layers]
    if request.mode == "rollout" and any(response.first_row(layer.window) for layer in windows):
        raise RequestError(
            "a rollout begins with the first token, whose keys are no longer in the caches of "
            "layers with a window"
        )
    if request.direction == "from":
        response.check_seen(position, windows)
    if request.direction == "from" and request.mode != "rollout" and position in rows:
        rows = range(position, position + 1)  # the engine's thread copies no query in vain
    return ResponseRows(batch, response, layers, rows)


def first_held(response: CachedResponse, layer: CacheLayer) -> int:
    """Return the first position that a layer's cache has."""
    return response.windows_from if layer.window else 0


class TracedResponse(Struct, frozen=True):
    """A response as a `TracedSession` (core/inspect/lesson/recording.py)."""

    batch: Batch
    response: CachedResponse

    @property
    def executor(self) -> Executor:
        return self.batch.executor

    @property
    def files(self) -> MappedFiles:
        return self.batch.runner.session.files

    @property
    def gains(self) -> Gains:
        ones = tuple((1.0,) * len(row) for row in self.batch.runner.session.gains)
        return ones if self.response.changes.gains is None else self.response.changes.gains

    def tokens(self) -> tuple[int, ...]:
        return self.response.tokens

    def checked(self, values: Values, what: str) -> Values:
        return self.batch.runner.session.checked(values, what)


def trace(batch: Batch, response: CachedResponse, asked: FollowToken) -> TokenTrace:
    """Return all numbers of a token as the lesson has them, without texts; the cache stays as it
    is. Errors as of `trace_run`, and RequestError for models with recurrent states."""
    check_position(asked.position, response.tokens)
    if batch.pool.states is not None:
        raise RequestError(
            "of models with recurrent states only tokens of the chat, and of texts in Python, are "
            "traced"
        )
    step = _step_again(batch, response, asked.position)
    plan = batch.program.plan_of(step)
    read = partial(kept, batch, response)
    run = TracedRun(TracedResponse(batch, response), plan, step, 0, asked.position, read)
    return trace_run(run, batch.runner.attention, asked)


def _step_again(batch: Batch, response: CachedResponse, position: int) -> Step:
    """Return the step that runs a token of a response once more, over what the cache holds;
    raise RequestError where it holds not all that the token sees."""
    response.check_seen(position, batch.layers)
    pages, slot = response.pages[: pages_for(position + 1)], batch.slots.slot_of(response.changes)
    token = np.array([response.tokens[position]], np.int32)
    return batch.step(token, (Segment(position, 1, 1, pages, slot),))


def kept(batch: Batch, response: CachedResponse, tensor: Tensor, positions: range) -> F32:
    """Return the values of a cache's rows, float32 [positions, columns]."""
    data = _read(batch, tensor.name, response, positions.start, positions.stop)
    return rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)


def _read(
    batch: Batch, name: str, response: CachedResponse, first: int, last: int
) -> NDArray[np.uint8]:
    """Return copies of the rows of positions first..last-1, page by page; those of others where
    a cache with a window does not have them."""
    tensor = _state(batch, name)
    parts = [np.zeros((0, tensor_row_bytes(tensor)), np.uint8)]
    for row, count in places(batch, response, tensor, range(first, last)):
        parts.append(batch.executor.read_state(name, row, count))
    return np.concatenate(parts)


def places(
    batch: Batch, response: CachedResponse, tensor: Tensor, positions: range
) -> list[tuple[int, int]]:
    """Return the runs (row, count) of a state tensor in which positions of a response lie, page by
    page."""
    shape, found = batch.program.pages, []
    assert shape is not None
    pages = shape.places(response.pages, tensor.shape[0], tensor.ring, batch.pool.window_table)
    for index in range(positions.start // PAGE, pages_for(positions.stop)):
        begin = max(positions.start, index * PAGE)
        end = min(positions.stop, (index + 1) * PAGE)
        found.append((int(pages[index]) * PAGE + begin % PAGE, end - begin))
    return found


def _decoded(batch: Batch, name: str, data: NDArray[np.uint8], heads: int) -> F32:
    """Return the values as float32 [positions, heads, head_dim]."""
    tensor = _state(batch, name)
    values = rows.decode(data, tensor.dtype, tensor.shape[1], tensor.block)
    return values.reshape(len(data), heads, -1)


def _state(batch: Batch, name: str) -> Tensor:
    tensors = batch.program.plans[0].tensors
    return next(t for t in tensors if t.kind is Kind.STATE and t.name == name)
