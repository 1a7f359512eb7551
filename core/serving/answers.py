"""`AnswerService` is the `Service` of an engine: requests of any thread, answered in shared steps.

The thread that asks makes and encodes the prompt, as templates and tokenizers may run on any
thread; so a broken request is refused before it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.encoding.pooling import check_makes_vectors
from llm_lite.core.errors import CancelledError, GoneError, RequestError
from llm_lite.core.generation.prompt import check_size, encode
from llm_lite.core.generation.token_texts import completed_texts, with_texts
from llm_lite.core.handles import Handle
from llm_lite.core.inspect.attention_rows import AttentionRowsReader
from llm_lite.core.inspect.cache_statistics import (
    ReceivedAttention,
    norms_name,
    norms_of,
    readers_of,
)
from llm_lite.core.inspect.state_reads import StateReading
from llm_lite.core.inspect.text_maps import by_layer, layer_scores
from llm_lite.core.messages import (
    AnswerRequest,
    AttentionRows,
    ChatMessage,
    EngineOptions,
    ExecutorInfo,
    FollowToken,
    Measure,
    ModelInfo,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    ServingStatus,
    StatesRead,
    TokenTrace,
    ToolSpec,
)
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.step import PAGE
from llm_lite.core.records import replace
from llm_lite.core.serving import inspect
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.embedding import Embedding, check_texts
from llm_lite.core.serving.inspect import CachedResponse, Responses
from llm_lite.core.serving.request_queue import RequestQueue
from llm_lite.core.serving.response_tokens import ResponseTokens, lens_parts
from llm_lite.core.serving.service import (
    F32,
    AnswerTokens,
    CacheStatistics,
    Embeddings,
    Emit,
    LensLayer,
    ModeController,
)
from llm_lite.core.serving.tally import Tally

_MOST_LENS = 100  # likeliest tokens of a layer
_MOST_TEXTS = 4096  # in one call for embeddings
MOST_WEIGHTS = 1 << 32  # of maps that are scored at once: half a minute of one core
Copied = TypeVar("Copied")


class AnswerService:
    def __init__(
        self,
        queue: RequestQueue,
        responses: Responses,
        tally: Tally,
        parallel: int,
        modes: ModeController,
    ) -> None:
        self._queue, self._responses, self._tally = queue, responses, tally
        self._parallel = parallel
        self.modes = modes

    @property
    def model(self) -> ModelInfo:
        return self._queue.batch().runner.model_info

    @property
    def executor(self) -> ExecutorInfo:
        return self._queue.batch().runner.executor_info

    @property
    def options(self) -> EngineOptions:
        return self._queue.batch().runner.options

    def check(self) -> None:
        self._queue.batch().runner.session.files.check()

    def submit(self, request: AnswerRequest, emit: Emit) -> Handle:
        batch = self._queue.batch()
        self._queue.scheduler.check_room(request.client)
        handle = Handle(request, lambda report: emit(report.event))
        answer = ServedAnswer(
            self._queue.next_number(),
            handle,
            request,
            batch.runner.model_file,
            context=batch.context,
            program=batch.program,
        )
        try:
            self._queue.add(answer, batch)
        except BaseException:
            answer.writer.close()
            raise
        handle.on_cancel = partial(self._queue.cancel, answer.number)
        return handle

    def cancel(self, number: int) -> None:
        self._queue.cancel(number)

    def status(self) -> ServingStatus:
        scheduler = self._queue.scheduler
        requests = tuple(a.to_status(waiting=waiting) for a, waiting in scheduler.answers())
        try:
            batch = self._queue.batch()
        except RequestError:
            return ServingStatus(requests=requests)
        pool, tally = batch.pool, self._tally
        return ServingStatus(
            model=batch.runner.model_info.name,
            parallel=self._parallel,
            most_waiting=scheduler.most_waiting,
            context=batch.context,
            pages=pool.count,
            pages_used=pool.used,
            pages_kept=pool.kept,
            page_tokens=PAGE,
            requests=requests,
            finished=tally.finished,
            cancelled=tally.cancelled,
            failed=tally.failed,
            refused=scheduler.refused,
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            new_tokens=tally.new_tokens,
            steps=tally.steps,
            step_seconds=tally.step_seconds,
        )

    def prompt_tokens(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        thinking: bool = True,
        values: Mapping[str, Any] = {},
    ) -> list[int]:
        batch = self._queue.batch()
        file = batch.runner.model_file
        check_size(file.tokenizer, messages, batch.context)
        return encode(file, messages, False, thinking, tools, values).ids

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        batch = self._queue.batch()
        tokenizer = batch.runner.model_file.tokenizer
        check_size(tokenizer, (ChatMessage("user", text),), batch.context)
        return tokenizer.encode(text, add_special=add_special)

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        tokenizer = self._queue.batch().runner.model_file.tokenizer
        return completed_texts(tokenizer, tokens)

    def detokenize(self, tokens: Sequence[int]) -> str:
        return self._queue.batch().runner.model_file.tokenizer.decode(tokens)

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        batch = self._queue.batch()
        file = batch.runner.model_file
        check_makes_vectors(file.model.embedding, file.path)
        if not 0 < len(texts) <= _MOST_TEXTS:
            raise RequestError(f"texts: expected 1 to {_MOST_TEXTS}, found {len(texts)}")
        check_texts(texts, batch.context, batch.vocabulary)
        embedding = Embedding(texts, is_unwanted)
        self._queue.embed(embedding, batch)
        return embedding.result.result()

    def answer_tokens(self, response: str) -> AnswerTokens:
        batch, held = self._queue.call(lambda batch: (batch, self._held(response, batch)))
        shape = batch.runner.model_file.model.shape
        tokenizer = batch.runner.model_file.tokenizer
        has_queries = any(layer.queries for layer in batch.layers)
        return AnswerTokens(
            response,
            held.tokens,
            tuple(completed_texts(tokenizer, held.tokens)),
            min(held.prompt_tokens, len(held.tokens)),
            0 if has_queries else len(held.tokens),
            shape.layers,
            shape.heads,
        )

    def attention(
        self, response: str, layer: int, heads: Sequence[int], first: int, last: int
    ) -> F32:
        """Raise NotFiniteError where the weights are no numbers."""

        def copied(batch: Batch) -> inspect.ResponseRows:
            held = self._held(response, batch)
            return inspect.copy_rows(batch, held, layer, heads, first, last)

        return inspect.maps(self._queue.call(copied), layer, heads)

    def attention_rows(self, response: str, asked: ReadAttentionRows) -> AttentionRows:
        def copied(batch: Batch) -> inspect.ResponseRows:
            return inspect.copy_for(batch, self._held(response, batch), asked)

        rows = AttentionRowsReader(self._queue.call(copied)).read(asked)
        assert rows is not None, "it has all the time"
        return rows

    def lens(
        self,
        response: str,
        position: int,
        count: int = 5,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> list[LensLayer]:
        if not 1 <= count <= _MOST_LENS:
            raise RequestError(f"count: expected 1 to {_MOST_LENS}, found {count}")
        found = list[tuple[int, F32]]()

        def begun(batch: Batch) -> tuple[Batch, ResponseTokens, Iterator[None]]:
            held = self._held(response, batch)
            held.check(position, position + 1)
            tokens = ResponseTokens(batch, held)
            return batch, tokens, lens_parts(tokens, position, found)

        batch, tokens, parts = self._queue.call(begun)
        self._run_parts(response, tokens, parts, is_unwanted)
        return inspect.lens_layers(batch, found, count)

    def states(
        self,
        response: str,
        asked: ReadStates,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> StatesRead:
        def begun(batch: Batch) -> tuple[ResponseTokens, StateReading]:
            tokens = ResponseTokens(batch, self._held(response, batch))
            return tokens, StateReading(asked, tokens, batch.runner.weights)

        tokens, reading = self._queue.call(begun)
        self._run_parts(response, tokens, reading.parts, is_unwanted)
        return reading.result()

    def routing(self, response: str, asked: ReadRouting) -> RoutingRead:
        return self._queue.call(
            lambda batch: inspect.routing(batch, self._held(response, batch), asked)
        )

    def trace(self, response: str, asked: FollowToken) -> TokenTrace:
        batch, found = self._queue.call(
            lambda batch: (batch, inspect.trace(batch, self._held(response, batch), asked))
        )
        return with_texts(batch.runner.model_file.tokenizer, found)

    def statistics(
        self, response: str, what: Measure, is_unwanted: Callable[[], bool] = lambda: False
    ) -> CacheStatistics:
        batch, held = self._queue.call(lambda batch: (batch, self._held(response, batch)))
        owners, found = cache_layers(batch.program.plans[0]), list[NDArray[np.floating]]()
        for owner in owners:
            if what == "received":
                readers = readers_of(owner, batch.layers)
                copied = self._layer_of(held, partial(inspect.copy_layer, layers=readers))
                received = ReceivedAttention(copied, readers, copied.length)
                for block in received.blocks():
                    _check_wanted(is_unwanted)
                    received.add(block)
                found.append(received.mean(copied.first_held(owner)))
            else:
                _check_wanted(is_unwanted)
                copy = partial(inspect.copy_values, layer=owner, what=what)
                norms, name = norms_of(self._layer_of(held, copy)), norms_name(owner, what)
                known = batch.runner.session.checked(norms, name)
                lost = np.full(len(held.tokens) - len(known), np.nan)
                found.append(np.concatenate([lost, known]))
        layers = tuple(owner.layer for owner in owners)
        return CacheStatistics(layers, np.stack(found).astype(np.float32))

    def scores(
        self, response: str, is_unwanted: Callable[[], bool] = lambda: False
    ) -> Mapping[str, F32]:
        batch, held = self._queue.call(lambda batch: (batch, self._held(response, batch)))
        heads, layers = max(layer.heads for layer in batch.layers), range(len(batch.layers))
        weights = heads * len(layers) * len(held.tokens) ** 2
        if weights > MOST_WEIGHTS:
            raise RequestError(
                f"the maps of {len(held.tokens)} tokens have {weights:,} weights, at most "
                f"{MOST_WEIGHTS:,} are scored at once: ask for the maps of single layers"
            )
        found = []
        for layer in layers:
            _check_wanted(is_unwanted)
            readable = (layer,) if batch.layers[layer].attends else ()
            copied = self._layer_of(held, partial(inspect.copy_layer, layers=readable))
            found.append(layer_scores(copied, layer))
        return by_layer(found)

    def _run_parts(
        self,
        response: str,
        tokens: ResponseTokens,
        parts: Iterator[None],
        is_unwanted: Callable[[], bool],
    ) -> None:
        """Let the engine's thread run tokens of a response once more, a part between two steps."""

        def run_part(batch: Batch) -> bool:
            tokens.renew(batch, self._held(response, batch))
            return next(parts, self) is None  # else there is none left

        while self._queue.call(run_part):
            _check_wanted(is_unwanted)

    def _layer_of(
        self, held: CachedResponse, copy: Callable[[Batch, CachedResponse], Copied]
    ) -> Copied:
        """Copy something of the tokens that a response had; GoneError once they are others."""

        def copied(batch: Batch) -> Copied:
            now, count = self._held(held.name, batch), len(held.tokens)
            if now.tokens[:count] != held.tokens:
                raise GoneError(f"the cache has begun to give up {held.name}: ask again")
            return copy(batch, replace(now, tokens=held.tokens))

        return self._queue.call(copied)

    def _held(self, response: str, batch: Batch) -> CachedResponse:
        """Find what the cache has of a response. Only the engine's thread calls it."""
        running = self._queue.scheduler.running
        return self._responses.find(response, running, batch.pool)


def _check_wanted(is_unwanted: Callable[[], bool]) -> None:
    """Raise CancelledError once nobody wants the result."""
    if is_unwanted():
        raise CancelledError("nobody waits for it any more")
