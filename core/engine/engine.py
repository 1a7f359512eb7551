"""The worker thread between the window and the model: commands in, events out.

Nothing else is shared. Cancel and Shutdown act at once, everything else in order.
Whatever a command raises ends that command and is reported; the engine goes on. A load that does
not end after it was cancelled is left to itself, with its thread, and another thread goes on with
the model that was there before.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from llm_lite.core import system_errors
from llm_lite.core.engine.clients import Clients
from llm_lite.core.engine.dispatcher import Dispatcher
from llm_lite.core.engine.hosting.idle_work import work_while_idle
from llm_lite.core.engine.hosting.mode_switches import ModeSwitches
from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.engine.hosting.switching import Switching
from llm_lite.core.engine.kept_conversations import KeptConversations
from llm_lite.core.engine.priority import lower_thread_priority
from llm_lite.core.engine.step_requests import StepRequestServer
from llm_lite.core.engine.tokenizing_thread import Tokenizing
from llm_lite.core.generation.grammars.matchers import matchers
from llm_lite.core.handles import CLOSING, Handle, Outbox, Report, cancel
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.messages import (
    AttentionPart,
    Cancel,
    Command,
    Event,
    ForgetLearnedDrafts,
    Generate,
    KeepConversation,
    Level,
    LoadModel,
    Logged,
    OpenCache,
    Read,
    ReadTarget,
    Reconfigure,
    ResumeKept,
    Shutdown,
    StepRequest,
    TokenizeText,
    Translate,
)
from llm_lite.core.text.sandbox.process import cancelled_by, sandbox

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device
    from llm_lite.core.serving.service import Service

CANCEL_SECONDS = 2.0  # in which a cancelled load is to end
_DONE_IN_ANY_CASE = KeepConversation | ForgetLearnedDrafts  # also when the window is closing
# These read or replace the cache; what else waits, such as a title, is of what the cache holds.
_WANT_CACHE = (
    Generate | Read | Translate | ReadTarget | OpenCache | ResumeKept | LoadModel | Reconfigure
)


class Engine:
    """Owns the model and the thread that runs it.

    `device` is the Vulkan device that also draws the window, None where nothing draws. `wake` is
    called from the worker whenever there are new events. Variants of models are kept in the folder
    `variants`, and found there again.
    """

    def __init__(
        self,
        device: Device | None,
        wake: Callable[[], None] | None = None,
        variants: Path | None = None,
    ) -> None:
        self._outbox = Outbox(wake)
        self._emit = self._outbox.emit
        # None wakes a worker that waits.
        self._commands: queue.SimpleQueue[Handle | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: list[Handle] = []  # of commands that have not ended
        self._answering: set[Handle] = set()  # of answers that have not ended
        self._loads: set[Handle] = set()  # of models not loaded yet
        self._loading: Handle | None = None  # the load under way
        self._late: threading.Timer | None = None  # rings when that one should have been cancelled
        self._closing = False
        self._is_closed = False  # no command is carried out any more
        self._variants = variants
        self._worker = 0  # its number: a thread that has another one was left to itself
        self._modes = ModeSwitches(self.submit)
        self._host = self._make_host(device)
        self._switching = Switching(self._host.prepare, self._end_superseded)
        self._step_requests = StepRequestServer(self._log)
        self._kept = KeptConversations(self._emit, self._log)
        self._tokenizing = Tokenizing()
        rouse = partial(self._commands.put, None)
        self._clients = Clients(self._emit, self._log, rouse, lambda: self._closing, self._modes)
        self._dispatcher = Dispatcher(
            lambda: self._host,
            lambda: self._switching,
            self._step_requests,
            self._kept,
            self._clients,
            self._emit,
            self._log,
            self._is_stopped,
            lambda: self._closing,
            lambda: not self._commands.empty(),
            self._is_cache_wanted,
        )
        sandbox().warm()  # the first model will need it
        self._thread = self._start_worker()

    def submit(self, command: Command) -> Handle:
        """Hand a command over; returns at once."""
        handle = Handle(command, self._outbox.put)
        with self._lock:
            self._open = [one for one in self._open if not one.is_over]
            if self._is_closed:
                handle.end("" if isinstance(command, Shutdown) else CLOSING)
                return handle
            if isinstance(command, Cancel):
                cancel(self._open, command)
                handle.end()
                return handle
            if isinstance(command, Shutdown):
                self._closing = True
            if isinstance(command, Generate | Translate):
                self._answering.add(handle)
            self._open.append(handle)
            if isinstance(command, LoadModel):
                handle.on_cancel = partial(self._watch_cancelled, handle)
                self._loads.add(handle)
            if isinstance(command, Reconfigure):
                self._switching.supersede(handle)
                if self._answering and not self._loads:
                    self._switching.submit(handle)
                    return handle
        if isinstance(command, TokenizeText):
            self._tokenizing.submit(handle, command, self._host.file)
            return handle
        if isinstance(command, StepRequest):
            self._step_requests.submit(handle)
        self._commands.put(handle)  # a StepRequest too: it wakes a worker that waits
        return handle

    def _watch_cancelled(self, handle: Handle) -> None:
        """Leave a load that was cancelled behind, if it does not notice that in time."""
        if handle is self._loading:
            self._late = threading.Timer(CANCEL_SECONDS, self._leave_behind, (handle,))
            self._late.daemon = True
            self._late.start()

    def frame(self, drawing: bool) -> None:
        """Mark the begin or the end of a frame, which has a core to itself meanwhile."""
        runner = self._host.loaded
        for executor in runner.executors if runner is not None else ():
            executor.leave_a_core(drawing)

    def poll(self) -> list[Report]:
        """Return the reports since the last call, in order; never waits."""
        return self._outbox.poll()

    def wait(self, timeout: float) -> list[Report]:
        """Return the reports as `poll` does, but wait up to `timeout` seconds for the first one."""
        return self._outbox.wait(timeout)

    def close(self, timeout: float = 2.0) -> bool:
        """Stop whatever runs and end the thread; whether it ended in time (seconds)."""
        self.submit(Shutdown())
        self._thread.join(timeout)
        self._end_open()  # of a thread that did not end
        return not self._thread.is_alive()

    def attention(self, part: AttentionPart | None = None) -> AttentionSource | None:
        """Return the source of attention maps, for an encoder-decoder that of a part; it is another
        object once the model or executor changes."""
        runner = self._host.loaded
        if runner is None:
            return None
        return runner.attention if part is None else runner.attention_of(part)

    def service(self) -> Service | None:
        """Return the service for clients of a server; None if none are served."""
        return self._clients.service

    def coming(self) -> str:
        """Return the name of the model that is being loaded, once its header is read; "" if none
        is."""
        return self._host.coming

    def device_lost(self, device: Device | None) -> None:
        """Use another device from now on, or none, as the drawing side lost the old one."""
        self._host.device = device

    def _leave_behind(self, handle: Handle) -> None:
        """Leave a load behind that did not end in time: its thread keeps what it waits for; another
        takes over."""
        with self._lock:
            if self._closing or self._loading is not handle:
                return
            self._loading = None
            self._loads.discard(handle)
            self._worker += 1
            stuck, self._host = self._host, self._make_host(self._host.device)
            stuck.hand_over(self._host)
            self._switching = Switching(self._host.prepare, self._end_superseded)
            self._thread = self._start_worker()
        self._log("warning", "the load did not end when it was cancelled, and was left to itself")
        handle.end("loading was cancelled", unwanted=True)

    def _make_host(self, device: Device | None) -> ModelHost:
        """Make the host of this worker; events of a worker that was abandoned are dropped."""
        number = self._worker

        def emit(event: Event) -> None:
            if number == self._worker:
                self._emit(event)

        def log(level: Level, text: str) -> None:
            emit(Logged(level, text, time.time()))

        closing = lambda: self._closing  # noqa: E731
        return ModelHost(
            device,
            emit,
            log,
            self._is_cancelled,
            closing,
            self._has_loaded,
            self._variants,
            self._modes,
        )

    def _has_loaded(self, handle: Handle) -> None:
        """Let the new model be changed beside its first answer."""
        with self._lock:
            self._loads.discard(handle)

    def _start_worker(self) -> threading.Thread:
        thread = threading.Thread(
            target=self._work, args=(self._worker,), name="engine", daemon=True
        )
        thread.start()
        return thread

    # The worker thread from here on.

    def _work(self, worker: int) -> None:
        if self._host.device is not None:
            lower_thread_priority()
        while worker == self._worker:
            handle = self._next()
            if isinstance(handle.command, Shutdown):
                for last in (self._kept.finish, self._clients.close, self._host.unload):
                    self._attempt(last)
                handle.end()
                self._end_open()
                return
            if not self._closing or isinstance(handle.command, _DONE_IN_ANY_CASE):
                self._execute(worker, handle)
            else:
                handle.end(CLOSING)

    def _end_open(self) -> None:
        """End the commands that were not carried out before the engine closed."""
        with self._lock:
            self._is_closed = True
            for handle in self._open:
                handle.end(CLOSING)

    def _next(self) -> Handle:
        """Return the next command; while none waits, clients are served a step at a time, passes of
        the model are measured, and the files in use are checked a slice at a time."""
        while True:
            try:
                found = self._commands.get_nowait()
            except queue.Empty:
                found = None
                if not self._clients.step(self._host) and not self._idle():
                    found = self._commands.get() if self._clients.fall_asleep() else None
            if found is not None:
                return found

    def _idle(self) -> bool:
        def is_wanted() -> bool:
            return not self._commands.empty() or self._clients.has_work

        return work_while_idle(self._host, is_wanted, self._log, self._emit)

    def _execute(self, worker: int, handle: Handle) -> None:
        """Run one command; a defect ends the command, not the program."""
        is_over = self._is_cancelled if isinstance(handle.command, LoadModel) else self._is_stopped
        with cancelled_by(partial(is_over, handle)):
            problem = self._attempt(partial(self._dispatch, handle))
        if worker != self._worker:
            return
        if problem is None:
            self._attempt(self._dispatcher.serve)
        else:
            self._attempt(self._host.start_over)
        with self._lock:
            self._answering.discard(handle)
            self._loads.discard(handle)
        if problem is not None:
            handle.end(problem)
        self._attempt(self._dispatcher.finish_switching)

    def _attempt(self, work: Callable[[], object]) -> str | None:
        """Run `work` and return None, or a sentence on an exception that nobody expected; those of
        native libraries do not derive from Exception."""
        try:
            work()
        except BaseException as error:
            if known := system_errors.sentence(error):
                self._log("error", known)
                return known
            self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            return system_errors.defect(error)
        return None

    def _dispatch(self, handle: Handle) -> None:
        if isinstance(handle.command, LoadModel):
            self._load(handle, handle.command)
        else:
            self._dispatcher.run(handle)

    def _load(self, handle: Handle, command: LoadModel) -> None:
        host = self._host
        with self._lock:
            self._loading = handle
        try:
            is_loaded = host.load(handle, command)
        finally:
            with self._lock:
                if host is self._host:
                    self._loading = None
                    if self._late is not None:
                        self._late.cancel()
        if is_loaded:
            self._step_requests.reset()
            if matchers().is_used and host.file is not None:  # a schema was checked before
                matchers().warm(host.file.tokenizer)

    def _is_cancelled(self, handle: Handle) -> bool:
        """Return whether a load or a change of the model is to end."""
        return self._is_stopped(handle) or self._switching.is_superseded(handle)

    def _is_stopped(self, handle: Handle) -> bool:
        return self._closing or handle.is_cancelled

    def _is_cache_wanted(self) -> bool:
        with self._lock:
            return any(
                isinstance(one.command, _WANT_CACHE) and not (one.is_over or one.is_cancelled)
                for one in self._open
            )

    def _end_superseded(self, handle: Handle) -> None:
        handle.end("a newer change has taken its place", unwanted=True)

    def _log(self, level: Level, text: str) -> None:
        self._emit(Logged(level, text, time.time()))
