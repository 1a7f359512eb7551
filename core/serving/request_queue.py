"""The threads that ask and the engine's thread share a `RequestQueue`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from llm_lite.core import system_errors
from llm_lite.core.errors import UnavailableError
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.embedding import Embedding
from llm_lite.core.serving.scheduler import Scheduler

Found = TypeVar("Found")
CHANGED = "the model was changed while the request waited or was answered: ask again"


class EngineCall:
    """A thread waits for this work, which the engine's thread does between two steps."""

    def __init__(self, work: Callable[[Batch], Any]) -> None:
        self.result: Future[Any] = Future()
        self._work = work

    def do(self, batch: Batch) -> None:
        try:
            self.result.set_result(self._work(batch))
        except Exception as error:  # for who asked: nobody else is the worse for it
            self.result.set_exception(error)
        except BaseException as error:  # of a native library: who asked is not to wait for ever
            self.result.set_exception(RuntimeError(system_errors.defect(error)))
            raise

    def fail(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class RequestQueue:
    """The queue calls `wake` whenever there is something new for the engine's thread."""

    def __init__(self, scheduler: Scheduler, wake: Callable[[], None]) -> None:
        self.scheduler = scheduler
        self._wake = wake
        self._lock = threading.Lock()
        self._batch: Batch | None = None
        self._problem = "nothing is served yet"
        self._calls: deque[EngineCall] = deque()
        self._embeddings: deque[Embedding] = deque()
        self._number = 0

    # For any thread.

    def batch(self) -> Batch:
        """Return the batch in use; raise UnavailableError where there is none."""
        with self._lock:
            return self._opened()

    def next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def add(self, answer: ServedAnswer, made_for: Batch) -> None:
        """Queue an answer. Raises UnavailableError where the model is another one by now, BusyError
        where too many wait."""
        with self._lock:
            if self._opened().runner.model_file is not made_for.runner.model_file:
                raise UnavailableError(CHANGED)
            answer.fit(self._opened().context)
            self.scheduler.add(answer)
        self._wake()

    def cancel(self, number: int) -> None:
        if self.scheduler.cancel(number):
            self._wake()

    def call(self, work: Callable[[Batch], Found]) -> Found:
        """Let the engine's thread do `work` between two steps; wait for what it returns."""
        call = EngineCall(work)
        with self._lock:
            self._opened()
            self._calls.append(call)
        self._wake()
        found: Found = call.result.result()
        return found

    def embed(self, embedding: Embedding, made_for: Batch) -> None:
        with self._lock:
            if self._opened().runner.model_file is not made_for.runner.model_file:
                raise UnavailableError(CHANGED)
            self._embeddings.append(embedding)
        self._wake()

    def has_work(self) -> bool:
        return bool(self._calls or self._embeddings) or not self.scheduler.is_empty()

    def _opened(self) -> Batch:
        if self._batch is None:
            raise UnavailableError(self._problem)
        return self._batch

    # For the engine's thread.

    def open(self, batch: Batch) -> None:
        with self._lock:
            self._batch = batch
        self.scheduler.fit(batch.context)

    def close(self, problem: str) -> None:
        """Refuse requests with this sentence from now on; what waits ends with it."""
        with self._lock:
            self._batch, self._problem = None, problem
        self.scheduler.end_all(problem)
        self.fail_all(UnavailableError(problem))

    def fail_all(self, error: BaseException, batch: Batch | None = None) -> None:
        """Raise this error for all who wait for calls and embeddings."""
        while self._calls:
            self._calls.popleft().fail(error)
        while self._embeddings:
            self._embeddings.popleft().fail(error, batch)

    def next_call(self) -> EngineCall | None:
        return self._calls.popleft() if self._calls else None

    @property
    def embedding(self) -> Embedding | None:
        """Return the embedding whose turn it is."""
        return self._embeddings[0] if self._embeddings else None

    def end_embedding(self) -> Embedding:
        return self._embeddings.popleft()
