"""`AnswerService` is the `Service` of an engine: requests of any thread, answered in shared steps.

The thread that asks makes and encodes the prompt, as templates and tokenizers may run on any
thread; so a broken request is refused before it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from llm_lite.core.encoding.pooling import check_makes_vectors
from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.generation.prompt import check_size, encode
from llm_lite.core.generation.token_texts import completed_texts
from llm_lite.core.handles import Handle
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages import (
    AnswerRequest,
    ChatMessage,
    EncodeText,
    EngineOptions,
    Event,
    ExecutorInfo,
    ModelInfo,
    ServingStatus,
    StepRequest,
    ToolSpec,
)
from llm_lite.core.plan.step import PAGE
from llm_lite.core.questions.question import Parts, Where, where_next
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.embedding import Embedding, check_texts
from llm_lite.core.serving.inspect import CachedResponse, Responses
from llm_lite.core.serving.request_queue import RequestQueue
from llm_lite.core.serving.response_replay import ResponseReplay
from llm_lite.core.serving.service import (
    AnswerTokens,
    Embeddings,
    Emit,
    EncodedResponse,
    ModeController,
)
from llm_lite.core.serving.tally import Tally

_MOST_TEXTS = 4096  # in one call for embeddings


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
            model=LoadedModel(batch.runner.model_info.name, batch.runner.model_file),
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

    def encode(
        self, request: EncodeText, is_unwanted: Callable[[], bool] = lambda: False
    ) -> EncodedResponse:
        name = self._queue.batch().runner.model_info.name
        raise RequestError(f"{name} is no encoder, as BERT is: it reads a text to continue it")

    def answer_tokens(self, response: str) -> AnswerTokens:
        batch, cached = self._queue.call(lambda batch: (batch, self._cached(response, batch)))
        shape = batch.runner.model_file.model.shape
        tokenizer = batch.runner.model_file.tokenizer
        has_queries = any(layer.queries for layer in batch.layers)
        return AnswerTokens(
            response,
            cached.tokens,
            tuple(completed_texts(tokenizer, cached.tokens)),
            min(cached.prompt_tokens, len(cached.tokens)),
            0 if has_queries else len(cached.tokens),
            shape.layers,
            shape.heads,
        )

    def ask(
        self,
        response: str,
        request: StepRequest,
        is_unwanted: Callable[[], bool] = lambda: False,
        check: Callable[[int], None] = lambda size: None,
    ) -> Any:
        question = BY_REQUEST[type(request)]
        finished: list[Event] = []

        def begun(batch: Batch) -> tuple[ResponseReplay, Parts[Event]]:
            find = partial(self._cached, batch=batch)
            replay = ResponseReplay(batch, find(response), find)
            check(question.size(request, replay))
            return replay, question.run(request, replay)

        replay, parts = self._queue.call(begun)

        def next_part() -> Where | None:
            """Run a part; return where the next one may run, None behind the last."""
            try:
                return where_next(next(parts))
            except StopIteration as end:
                finished.append(end.value)
                return None

        def on_executor(batch: Batch) -> Where | None:
            replay.renew(batch, self._cached(response, batch))
            return next_part()

        where: Where | None = "executor"
        while where is not None:
            if is_unwanted():
                raise CancelledError("nobody waits for it any more")
            where = self._queue.call(on_executor) if where == "executor" else next_part()
        return finished[0]

    def _cached(self, response: str, batch: Batch) -> CachedResponse:
        """Find what the cache has of a response. Only the engine's thread calls it."""
        running = self._queue.scheduler.running
        return self._responses.find(response, running, batch.pool)
