"""`TargetService` writes targets with an encoder-decoder, one after the other on its own thread."""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence

from llm_lite.core.errors import BusyError
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import AnswerRequest, ChatMessage, ServingStatus, ToolSpec
from llm_lite.core.records import replace
from llm_lite.core.serving.direct.runner_service import RunnerService
from llm_lite.core.serving.direct.served_target import ServedTarget, source_of
from llm_lite.core.serving.service import Emit

_AGAIN = 5.0  # seconds after which a client may ask again where too many wait


class TargetService(RunnerService):
    """This `Service` takes a request's text, or its last message, as a source, and answers with
    the target, searched for as the model's file says. It refuses vectors and maps. `close` ends
    what runs; `runner` stays the caller's. Defects go to `log`."""

    def __init__(
        self, runner: Runner, most_waiting: int = 64, log: Callable[[str], None] = lambda line: None
    ) -> None:
        model = replace(runner.model_info, has_chat_template=False)
        refusal = (
            f"{model.name} is an encoder-decoder, which writes a target about a source: ask "
            "/v1/completions, /v1/chat/completions or /v1/responses for one"
        )
        super().__init__(runner, model, refusal)
        self._runner, self._most_waiting, self._log = runner, most_waiting, log
        self._change = threading.Condition()  # of all below
        self._waiting: deque[ServedTarget] = deque()
        self._running: ServedTarget | None = None
        self._is_closing = False
        self._numbers = self._refused = 0
        self._ended = {"finished": 0, "cancelled": 0, "failed": 0}
        self._read = self._written = 0  # tokens of sources and targets
        self._thread = threading.Thread(target=self._work, name="targets", daemon=True)
        self._thread.start()

    def submit(self, request: AnswerRequest, emit: Emit) -> int:
        source = source_of(self._runner, request)
        with self._change:
            waiting = len(self._waiting)
            if waiting >= self._most_waiting + (self._running is None):  # that begins at once
                self._refused += 1
                raise BusyError(
                    f"{waiting} requests wait already, as many as may: ask again in "
                    f"{_AGAIN:.0f} s, or serve with a longer queue",
                    _AGAIN,
                )
            self._numbers += 1
            self._waiting.append(ServedTarget(self._numbers, request, source, emit))
            self._change.notify()
            return self._numbers

    def cancel(self, number: int) -> None:
        with self._change:
            for one in self._all():
                if one.number == number:
                    one.is_cancelled = True

    def status(self) -> ServingStatus:
        with self._change:
            return ServingStatus(
                model=self._model.name,
                parallel=1,
                most_waiting=self._most_waiting,
                context=self._runner.session.context,
                requests=tuple(one.to_status() for one in self._all()),
                **self._ended,
                refused=self._refused,
                prompt_tokens=self._read,
                new_tokens=self._written,
            )

    def prompt_tokens(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = (), thinking: bool = True
    ) -> list[int]:
        """Return the tokens of the source that these messages ask for a target of."""
        return source_of(self._runner, AnswerRequest("", tuple(messages), tools=tuple(tools)))

    def close(self) -> None:
        """End the thread, and all that runs or waits with the reason "stopped". Any thread may
        call it."""
        with self._change:
            self._is_closing = True
            for one in self._all():
                one.is_cancelled = True
            self._change.notify()
        self._thread.join()

    def _all(self) -> list[ServedTarget]:
        return [*([self._running] if self._running else []), *self._waiting]

    # The thread from here on.

    def _work(self) -> None:
        while (target := self._next()) is not None:
            try:
                target.write(self._runner)
            except BaseException:  # a defect ends its target and no other
                self._log(f"internal error, please report it: {traceback.format_exc()}")
            with self._change:
                self._running = None
                self._count(target)

    def _next(self) -> ServedTarget | None:
        """Return the target that waits longest; None once the service closes."""
        with self._change:
            while not self._waiting and not self._is_closing:
                self._change.wait()
            if not self._waiting:
                return None
            self._running = self._waiting.popleft()
            return self._running

    def _count(self, target: ServedTarget) -> None:
        names = {"stopped": "cancelled", "error": "failed"}
        self._ended[names.get(target.reason or "", "finished")] += 1
        self._read += len(target.source)
        self._written += target.new_tokens
