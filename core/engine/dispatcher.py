"""The dispatcher of commands on the worker thread: answers, tasks, and requests that wait between
them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from llm_lite.core.engine.clients import Clients
from llm_lite.core.engine.hosting.idle_work import forget_learned_drafts
from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.engine.hosting.switching import CLIENTS_SECONDS, Switching
from llm_lite.core.engine.kept_conversations import KeptConversations
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
from llm_lite.core.handles import CANCELLED, SUPERSEDED, Handle
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import (
    CacheStatus,
    CheckKept,
    Event,
    ForgetLearnedDrafts,
    Generate,
    KeepConversation,
    Level,
    MakeTitle,
    OpenCache,
    Read,
    ReadTarget,
    Reconfigure,
    ResumeKept,
    SaveCache,
    SpellTokens,
    StartServing,
    StepRequest,
    StopServing,
    Task,
    TitleMade,
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
    stopped: Callable[[Handle], bool]
    closing: Callable[[], bool]
    waiting: Callable[[], bool]  # whether there is another command
    cache_wanted: Callable[[], bool]  # whether one waits that reads or replaces the chat's cache

    def run(self, handle: Handle) -> None:
        """Carry a command out. LlmLiteError where it cannot be."""
        run, is_done = _COMMANDS.get(type(handle.command), (None, True))
        if handle.is_cancelled:
            handle.end(CANCELLED, unwanted=True)
        elif run is not None:
            run(self, handle, handle.command)
        elif isinstance(handle.command, Task):
            self._task(handle, handle.command)
        elif isinstance(handle.command, StepRequest):
            return  # served with what else waits
        else:
            handle.end(f"{type(handle.command).__name__} is not for this engine")
        if is_done:
            handle.end()

    def serve(self) -> None:
        """Serve waiting requests although no answer runs."""
        host = self.host()
        try:
            try:
                self.step_requests.serve(host.loaded, self.waiting)
            except DeviceError as error:
                try:
                    host.fall_back(error)
                finally:  # where no executor takes over, the request fails again, and ends
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

    def _is_stopped(self, handle: Handle) -> Callable[[], bool]:
        return partial(self.stopped, handle)

    def _change_model(self, handle: Handle, command: Reconfigure) -> None:
        self.switching().submit(handle)  # taken up at once: no answer is running

    def _generate(self, handle: Handle, command: Generate) -> None:
        answer = Answer(command, self._emit_of(handle), self._is_stopped(handle))
        self._converse(handle, answer)

    def _read(self, handle: Handle, command: Read) -> None:
        reading = ConversationPrefill(command, self._emit_of(handle), self._is_stopped(handle))
        self._converse(handle, reading)

    def _translate(self, handle: Handle, command: Translate) -> None:
        work = Translation(command, self._emit_of(handle), self._is_stopped(handle))
        self._steps(handle, work)

    def _read_target(self, handle: Handle, command: ReadTarget) -> None:
        """Read a target; a failure is only logged, and shows by the empty cache."""
        runner = self.host().runner
        if runner is None:
            return
        try:
            translator_of(runner).read_target(command.tokens[:-1])
        except LlmLiteError as error:
            self.log("warning", str(error))
        self.emit(cache_status(runner.session))

    def _spell(self, handle: Handle, command: SpellTokens) -> None:
        file = self.host().file
        if file is not None:
            handle.emit(spelled(file.tokenizer, command))

    def _file_away(self, handle: Handle, command: SaveCache | OpenCache) -> None:
        self.host().file_away(command)

    def _keep(self, handle: Handle, command: KeepConversation) -> None:
        self.kept.keep(self.host().runner, handle, command)

    def _check_kept(self, handle: Handle, command: CheckKept) -> None:
        self.kept.check(self.host().runner, command, handle.emit)

    def _resume_kept(self, handle: Handle, command: ResumeKept) -> None:
        self.kept.resume(self.host().runner, command, handle.emit)

    def _forget_learned(self, handle: Handle, command: ForgetLearnedDrafts) -> None:
        forget_learned_drafts(self.host().runner, self.log, self.emit)

    def _title(self, handle: Handle, command: MakeTitle) -> None:
        is_over = lambda: self.stopped(handle) or self.waiting()  # noqa: E731
        if problem := _no_chat(self.host()):
            handle.end(problem)
        elif (title := entitle(self.host(), command, is_over)) is None:
            handle.end(SUPERSEDED, unwanted=True)
        else:
            handle.finish(TitleMade(title))

    def _start_serving(self, handle: Handle, command: StartServing) -> None:
        handle.end(self.clients.start(command, self.host()))

    def _stop_serving(self, handle: Handle, command: StopServing) -> None:
        self.clients.stop(self.host())

    def _emit_of(self, handle: Handle) -> Emit:
        def emit(event: Event) -> None:
            if isinstance(event, CacheStatus):
                self.emit(event)  # of the engine: the result of a command is its own last event
            else:
                handle.emit(event)

        return emit

    def _converse(self, handle: Handle, work: Answer | ConversationPrefill) -> None:
        """Run work that needs a model which continues texts."""
        if problem := _no_chat(self.host()):
            handle.end(problem)
        else:
            self._steps(handle, work)

    def _steps(self, handle: Handle, work: Answer | ConversationPrefill | Translation) -> None:
        host = self.host()
        if host.runner is None:
            handle.end(host.no_runner)
            return
        is_stopped, serve = self._is_stopped(handle), partial(self.clients.step, host, waits=False)
        try:
            run_steps(work, host, self.step_requests, self.switching(), is_stopped, serve)
        except CancelledError:  # before its first step
            work.abandon()
            handle.end(CANCELLED, unwanted=True)
        except LlmLiteError as error:
            self.log("error", str(error))
            work.abandon()
            handle.end(str(error))

    def _task(self, handle: Handle, command: Task) -> None:
        """Run a long task that is no answer, and end it."""
        host = self.host()
        self.clients.step(host, waits=False)  # a new runner gets their room now, not in the task
        message = host.no_runner
        if host.file is not None and host.loaded is not None:
            bench = TaskContext(
                host.file,
                host.loaded,
                host.options,
                host.device,
                handle.emit,
                should_stop=self._is_stopped(handle),
                closing=self.closing,
                cache_wanted=self.cache_wanted,
                variants=host.variants,
                between=partial(self.clients.step_beside, host),
            )
            message = run_task(command, bench)
            trim_heap()
        if message:
            self.log("warning", message)
        handle.end(message, unwanted=handle.is_cancelled)


def _no_chat(host: ModelHost) -> str:
    """Return why the model in use continues no conversation, as a sentence; "" if it does."""
    runner = host.runner
    if runner is None:
        return host.no_runner
    return "" if runner.model_info.continues else WRITES_TARGETS.format(name=runner.model_info.name)


# By command, and whether it has ended then: else what it was handed to ends it.
_COMMANDS: dict[type[Any], tuple[Callable[[Dispatcher, Handle, Any], None], bool]] = {
    Generate: (Dispatcher._generate, True),
    Read: (Dispatcher._read, True),
    Translate: (Dispatcher._translate, True),
    ReadTarget: (Dispatcher._read_target, True),
    Reconfigure: (Dispatcher._change_model, False),
    SpellTokens: (Dispatcher._spell, True),
    SaveCache: (Dispatcher._file_away, True),
    OpenCache: (Dispatcher._file_away, True),
    KeepConversation: (Dispatcher._keep, False),
    CheckKept: (Dispatcher._check_kept, True),
    ResumeKept: (Dispatcher._resume_kept, True),
    ForgetLearnedDrafts: (Dispatcher._forget_learned, True),
    MakeTitle: (Dispatcher._title, True),
    StartServing: (Dispatcher._start_serving, True),
    StopServing: (Dispatcher._stop_serving, True),
}
