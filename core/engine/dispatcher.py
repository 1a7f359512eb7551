"""The dispatcher of commands on the worker thread: answers, tasks, and requests that wait between
them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from llm_lite.core.engine.clients import Clients
from llm_lite.core.engine.hosting.idle_work import forget_learned_drafts
from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.engine.hosting.switching import CLIENTS_SECONDS, Switching
from llm_lite.core.engine.kept_conversations import KeptCommand, KeptConversations
from llm_lite.core.engine.loop import run_steps
from llm_lite.core.engine.step_requests import StepRequestServer
from llm_lite.core.engine.task_context import TaskContext
from llm_lite.core.engine.tasks import run_task
from llm_lite.core.engine.titling import entitle
from llm_lite.core.engine.translating import Translation
from llm_lite.core.errors import CancelledError, DeviceError, LlmLiteError
from llm_lite.core.generation.answer import Answer, Emit, cache_status
from llm_lite.core.generation.conversation_prefill import ConversationPrefill
from llm_lite.core.generation.prompt import spelled
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import (
    Command,
    Event,
    ForgetLearnedDrafts,
    Generate,
    GenerationFinished,
    Level,
    MakeTitle,
    OpenCache,
    Read,
    ReadTarget,
    Reconfigure,
    SaveCache,
    SpellTokens,
    StartServing,
    StopServing,
    SwitchMode,
    TargetFinished,
    Task,
    TaskFinished,
    Translate,
)

WRITES_TARGETS = (
    "{name} is an encoder-decoder, which writes a target about a source and holds no conversation: "
    "send it a source, as the page of the chat pane and `llm-lite translate` do"
)


class Dispatcher(Struct, frozen=True):
    """Dispatches all commands but those that load a model or end the engine."""

    host: Callable[[], ModelHost]  # a worker that is left behind keeps its own
    switching: Callable[[], Switching]
    step_requests: StepRequestServer
    kept: KeptConversations
    clients: Clients
    emit: Emit
    log: Callable[[Level, str], None]
    stopped: Callable[[int], bool]  # by the number of a command
    answered: Callable[[int], None]  # the next answer may begin
    closing: Callable[[], bool]
    waiting: Callable[[], bool]  # whether there is another command

    def run(self, number: int, command: Command) -> None:
        """Execute a command; LlmLiteError if no event reports what went wrong."""
        host = self.host()
        if isinstance(command, Reconfigure | SwitchMode):
            self.switching().submit(number, command)  # taken up at once: no answer is running
        elif isinstance(command, Generate):
            self._generate(number, command)
        elif isinstance(command, Read):
            self._converse(
                number, ConversationPrefill(command, self.emit, self._is_stopped(number))
            )
        elif isinstance(command, Translate):
            self._translate(number, command)
        elif isinstance(command, ReadTarget):
            self._read_target(command)
        elif isinstance(command, SpellTokens):
            if host.file is not None:
                self.emit(spelled(host.file.tokenizer, command))
        elif isinstance(command, SaveCache | OpenCache):
            host.file_away(command)
        elif isinstance(command, KeptCommand):
            self.kept.do(host.runner, command)
        elif isinstance(command, ForgetLearnedDrafts):
            forget_learned_drafts(host.runner, self.log, self.emit)
        elif isinstance(command, MakeTitle):
            is_over = lambda: self.stopped(number) or self.waiting()  # noqa: E731
            entitle(host, command, self.emit, is_over)
        elif isinstance(command, StartServing):
            self.clients.start(command, host)
        elif isinstance(command, StopServing):
            self.clients.stop()
        elif isinstance(command, Task):
            self._task(number, command)

    def serve(self) -> None:
        """Serve waiting requests although no answer runs."""
        host = self.host()
        try:
            try:
                self.step_requests.serve(host.loaded, self.waiting)
            except DeviceError as error:
                host.fall_back(error)
                self.step_requests.serve(host.loaded, self.waiting)
        except LlmLiteError as error:
            self.log("error", str(error))

    def finish_switching(self) -> None:
        """Finish changes of the model that were requested during an answer, which has ended."""
        while (preparation := self.switching().left()) is not None:
            host = self.host()
            while not preparation.ended:  # clients are answered meanwhile
                preparation.wait(0.0 if self.clients.step(host) else CLIENTS_SECONDS)
            if not self.switching().drop(preparation):
                host.switch(preparation)

    def _is_stopped(self, number: int) -> Callable[[], bool]:
        return partial(self.stopped, number)

    def _generate(self, number: int, command: Generate) -> None:
        self._converse(number, Answer(command, self._emit_of(number), self._is_stopped(number)))

    def _translate(self, number: int, command: Translate) -> None:
        self._steps(number, Translation(command, self._emit_of(number), self._is_stopped(number)))

    def _read_target(self, command: ReadTarget) -> None:
        """Read a target; a failure is only logged, and shows by the empty cache."""
        runner = self.host().runner
        if runner is None:
            return
        try:
            translator_of(runner).read_target(command.tokens[:-1])
        except LlmLiteError as error:
            self.log("warning", str(error))
        self.emit(cache_status(runner.session))

    def _emit_of(self, number: int) -> Emit:
        def emit(event: Event) -> None:
            if isinstance(event, GenerationFinished | TargetFinished):
                self.answered(number)  # the window may ask again now
            self.emit(event)

        return emit

    def _converse(self, number: int, work: Answer | ConversationPrefill) -> None:
        """Run work that needs a model which continues texts; fail it for an encoder-decoder."""
        runner = self.host().runner
        if runner is not None and runner.translator is not None:
            work.fail(WRITES_TARGETS.format(name=runner.model_info.name))
            return
        self._steps(number, work)

    def _steps(self, number: int, work: Answer | ConversationPrefill | Translation) -> None:
        host = self.host()
        if host.runner is None:
            work.fail(host.no_runner)
            return
        is_stopped, serve = self._is_stopped(number), partial(self.clients.step, host, waits=False)
        try:
            run_steps(work, host, self.step_requests, self.switching(), is_stopped, serve)
        except (LlmLiteError, CancelledError) as error:
            self.log("error", str(error))
            work.fail(str(error))

    def _task(self, number: int, command: Task) -> None:
        """Run a long task that is no answer; an event reports how it ended in any case."""
        host = self.host()
        message = host.no_runner
        if host.file is not None and host.loaded is not None:
            bench = TaskContext(
                host.file,
                host.loaded,
                host.options,
                host.device,
                self.emit,
                should_stop=self._is_stopped(number),
                closing=self.closing,
                waiting=self.waiting,
                variants=host.variants,
                between=partial(self.clients.step_beside, host),
            )
            message = run_task(command, bench)
            trim_heap()
        if message:
            self.log("warning", message)
        self.emit(TaskFinished(command.request, message))
