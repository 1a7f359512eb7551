"""The worker thread between the window and the model: commands in, events out.

Nothing else is shared. Stop, CancelLoad and Shutdown act at once, everything else in order.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core import backends, carrying, catalog, loading
from core.attention import AttentionSource
from core.errors import (
    CancelledError,
    DeviceError,
    DeviceLostError,
    LlmLiteError,
    OutOfDeviceMemoryError,
    RequestError,
)
from core.generation import Generation, cache_status, read
from core.kv_cache import Prefix
from core.messages import (
    Aside,
    CancelLoad,
    Command,
    ConversationRead,
    EngineOptions,
    Event,
    ExecutorChanged,
    Gains,
    Generate,
    GenerationFinished,
    GenerationStats,
    Level,
    LoadFailed,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    ModelLoaded,
    OpenCache,
    Read,
    Reconfigure,
    SaveCache,
    Shutdown,
    Stop,
    Task,
    TaskFinished,
)
from core.metrics.memory import give_back
from core.steering import Steering
from core.switching import Preparation, PreparedError, Request, Switching
from core.tasks import run_task
from core.workbench import Workbench

if TYPE_CHECKING:
    from core.gpu.device import Device

_NICENESS = 5  # costs about 2 % of decode speed while frames are drawn, nothing otherwise


class Engine:
    """Owns the model and the thread that runs it.

    `device` is the Vulkan device that also draws the window, None where nothing draws. `wake` is
    called from the worker whenever there are new events.
    """

    def __init__(self, device: Device | None, wake: Callable[[], None] | None = None) -> None:
        self._device = device
        self._wake = wake
        self._commands: queue.SimpleQueue[tuple[int, Command]] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._sent = 0  # commands are numbered; these numbers say what a stop is meant for
        self._stop_through = 0
        self._cancel_through = 0
        self._answering: set[int] = set()  # numbers of Generate commands not finished yet
        self._loads = 0  # LoadModel commands not finished yet
        self._closing = False
        self._runner: loading.Runner | None = None
        self._file: loading.ModelFile | None = None
        self._options = EngineOptions()
        self._switching = Switching(self._prepare)
        self._steering = Steering(self._emit, self._log, self._switching.between_steps)
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> None:
        """Hand a command over; returns at once. A second answer while one runs is refused."""
        with self._lock:
            self._sent += 1
            number = self._sent
            if isinstance(command, Stop):
                self._stop_through = number
                return
            if isinstance(command, CancelLoad):
                self._cancel_through = number
                return
            if isinstance(command, Shutdown):
                self._closing = True
            if isinstance(command, LoadModel):
                self._loads += 1
            if isinstance(command, Reconfigure) and self._answering and not self._loads:
                self._switching.ask(number, command)
                return
            refused = isinstance(command, Generate) and bool(self._answering)
            if isinstance(command, Generate) and not refused:
                self._answering.add(number)
        if isinstance(command, Aside):
            self._steering.ask(command)
        if refused and isinstance(command, Generate):
            problem = "an answer is still being written: stop it first, or wait for its end"
            self._emit(GenerationFinished(command.request, "error", GenerationStats(), problem))
        else:
            self._commands.put((number, command))

    def poll(self) -> list[Event]:
        """The events since the last call, in order; never waits."""
        events = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                return events

    def wait(self, timeout: float) -> list[Event]:
        """Like `poll`, but waits up to `timeout` seconds for the first event."""
        try:
            first = self._events.get(timeout=timeout)
        except queue.Empty:
            return []
        return [first, *self.poll()]

    def close(self, timeout: float = 2.0) -> bool:
        """Stop whatever runs and end the thread; whether it ended in time (seconds)."""
        self.send(Shutdown())
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def attention(self) -> AttentionSource | None:
        """What attention maps are made of; another object once the model or executor changes."""
        runner = self._runner
        return None if runner is None else runner.attention

    def device_lost(self, device: Device | None) -> None:
        """The drawing side lost the device and made a new one, or None: use that from now on."""
        self._device = device

    # The worker thread from here on.

    def _work(self) -> None:
        if self._device is not None:
            _let_the_window_go_first()
        while True:
            number, command = self._commands.get()
            if isinstance(command, Shutdown):
                break
            if self._closing:
                continue
            self._guard(number, command)
        self._unload()

    def _guard(self, number: int, command: Command) -> None:
        """Run one command; a defect ends the command, not the program."""
        try:
            self._dispatch(number, command)
        except Exception as error:
            self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            self._fail(command, f"an internal error: {error!r}; the log has the details")
        finally:
            self._answered(number)
            if isinstance(command, LoadModel):
                with self._lock:
                    self._loads -= 1
            self._finish_switching()

    def _answered(self, number: int) -> None:
        with self._lock:
            self._answering.discard(number)

    def _dispatch(self, number: int, command: Command) -> None:
        if isinstance(command, LoadModel):
            self._load(number, command)
        elif isinstance(command, Reconfigure):
            self._reconfigure(number, command)
        elif isinstance(command, Generate):
            self._generate(number, command)
        elif isinstance(command, Read):
            self._read(number, command)
        elif isinstance(command, SaveCache | OpenCache):
            self._file_away(command)
        elif isinstance(command, Task):
            self._task(number, command)
        self._serve()

    def _serve(self) -> None:
        """Requests that need no answer to be running, and what one left unfinished."""
        try:
            try:
                self._steering.serve(self._runner, lambda: not self._commands.empty())
            except DeviceError as error:
                self._fall_back(error)
        except LlmLiteError as error:
            self._log("error", str(error))

    def _fail(self, command: Command, message: str) -> None:
        if isinstance(command, Generate):
            self._emit(GenerationFinished(command.request, "error", GenerationStats(), message))
        elif isinstance(command, Read):
            self._emit(ConversationRead(command.request, (), message))
        elif isinstance(command, LoadModel):
            self._emit(LoadFailed(command.source or "", message))
        elif isinstance(command, Task):
            self._emit(TaskFinished(command.request, message))

    def _load(self, number: int, command: LoadModel) -> None:
        source = command.source or catalog.DEFAULT
        self._emit(LoadStarted(source))
        started = time.perf_counter()
        progress = self._progress(number)
        try:
            file = loading.open_model(command.source, progress, self._warn)
            try:
                runner = self._start(file, command.options, progress)
            except BaseException:
                file.close()
                raise
        except CancelledError:
            self._emit(LoadFailed(source, "loading was cancelled", cancelled=True))
            return
        except LlmLiteError as error:
            self._log("error", str(error))
            self._emit(LoadFailed(source, str(error)))
            return
        self._unload()
        self._steering.reset()
        self._file, self._runner, self._options = file, runner, command.options
        seconds = time.perf_counter() - started
        self._log_executor(runner)
        self._emit(ModelLoaded(runner.model_info, runner.executor_info, seconds))
        self._log("info", f"{runner.model_info.name} is ready after {seconds:.2f} s")
        self._emit(cache_status(runner.session))

    def _reconfigure(self, number: int, command: Reconfigure) -> None:
        self._switching.ask(number, command)  # and take it up at once: no answer is running

    def _prepare(self, request: Request) -> loading.Runner:
        """A runner beside the one in use; on the switching thread."""
        if self._file is None:
            raise RequestError("no model is loaded: open one first")
        self._emit(LoadStarted(str(self._file.path)))
        return self._begin(self._file, request.command.options, self._progress(request.number))

    def _finish_switching(self) -> None:
        """What was asked for during an answer that has ended."""
        while (preparation := self._switching.left()) is not None:
            self._switch(preparation)

    def _switch(self, preparation: Preparation) -> None:
        """Put the runner that was prepared in the place of the one in use, or say why not."""
        path = str(self._file.path) if self._file else ""
        try:
            self._put(preparation)
        except CancelledError:
            self._emit(LoadFailed(path, "the change was cancelled", cancelled=True))
        except LlmLiteError as error:
            self._log("error", str(error))
            self._emit(LoadFailed(path, str(error)))
        except Exception as error:
            self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            self._emit(LoadFailed(path, f"an internal error: {error!r}; the log has the details"))

    def _put(self, preparation: Preparation) -> None:
        options = preparation.request.command.options
        try:
            runner = preparation.result()
        except carrying.OUT_OF_MEMORY as error:
            if self._file is None:
                raise
            progress = self._progress(preparation.request.number)
            self._make_way(self._file, options, progress, error)
            return
        self._options = options
        self._replace_runner(runner)

    def _make_way(
        self,
        file: loading.ModelFile,
        options: EngineOptions,
        progress: loading.Progress,
        problem: LlmLiteError,
    ) -> None:
        """There is no room for two executors: close the old one first, and restore it if even so
        the new one does not fit."""
        old = self._runner
        if old is None:
            raise problem
        self._log("info", f"{problem} Trying again without the executor that is in use.")
        kept = carrying.take_out(old, self._log)
        self._close_runner()
        try:
            runner = self._start(file, options, progress)
        except LlmLiteError:
            runner = self._start(file, self._options, self._unless_closing)
            self._take_over(runner, old, kept)
            raise
        self._options = options
        self._take_over(runner, old, kept)

    def _begin(
        self, file: loading.ModelFile, options: EngineOptions, progress: loading.Progress
    ) -> loading.Runner:
        """As `_start`, but lack of memory passes through while there is some to be freed."""
        try:
            return loading.start(file, options, self._device, progress)
        except OutOfDeviceMemoryError:
            if self._runner is not None:
                raise
        except DeviceError:
            pass
        return self._start(file, options, progress)

    def _start(
        self, file: loading.ModelFile, options: EngineOptions, progress: loading.Progress
    ) -> loading.Runner:
        """A runner as asked for; the C++ executor where the device fails."""
        try:
            return loading.start(file, options, self._device, progress)
        except DeviceError as error:
            if options.backend == "cpu":
                raise
            self._log("warning", f"{error} The C++ executor takes over.")
            return loading.start(file, options, None, progress, choice=_fallback(error))

    def _generate(self, number: int, command: Generate) -> None:
        def emit(event: Event) -> None:
            if isinstance(event, GenerationFinished):  # whoever hears it may ask again at once
                self._answered(number)
            self._emit(event)

        generation = Generation(command, emit, lambda: self._stopped(number))
        if self._runner is None:
            generation.fail("no model is loaded: open one first")
            return
        try:
            self._run(generation.run, self._runner, command.gains)
        except (LlmLiteError, CancelledError) as error:
            self._log("error", str(error))
            generation.fail(str(error))

    def _task(self, number: int, command: Task) -> None:
        """Long work that is no answer; how it ended is said in any case."""
        message = "no model is loaded: open one first"
        if self._file is not None and self._runner is not None:
            bench = Workbench(
                self._file,
                self._runner,
                self._options,
                self._device,
                self._emit,
                should_stop=lambda: self._stopped(number),
                closing=lambda: self._closing,
                waiting=lambda: not self._commands.empty(),
            )
            message = run_task(command, bench)
            give_back()
        if message:
            self._log("warning", message)
        self._emit(TaskFinished(command.request, message))

    def _read(self, number: int, command: Read) -> None:
        if self._runner is None:
            self._fail(command, "no model is loaded: open one first")
            return
        work = partial(read, command, self._emit, lambda: self._stopped(number))
        try:
            self._run(work, self._runner, None)
        except (LlmLiteError, CancelledError) as error:
            self._log("error", str(error))
            self._fail(command, str(error))

    def _run(
        self, work: Callable[[loading.Runner], None], runner: loading.Runner, gains: Gains | None
    ) -> None:
        """With the runner that is there, and again with another where it is switched or fails."""
        while True:
            try:
                self._steering.answer(work, runner, gains)
                return
            except PreparedError as prepared:
                self._switch(prepared.preparation)
            except DeviceError as error:
                self._fall_back(error)
            assert self._runner is not None
            runner = self._runner

    def _file_away(self, command: SaveCache | OpenCache) -> None:
        """A cache to a file, or from one; what cannot be is only said in the log."""
        if self._runner is None:
            return
        path = Path(command.path)
        try:
            if isinstance(command, SaveCache):
                size = carrying.save(self._runner, path)
                self._log("info", f"{path}: the cache was saved, {size / 2**20:.1f} MiB")
            else:
                count = carrying.open_saved(self._runner, path)
                self._log("info", f"{path}: {count} tokens came back into the cache")
        except LlmLiteError as error:
            self._log("warning", str(error))
        self._emit(cache_status(self._runner.session))

    def _fall_back(self, error: DeviceError) -> None:
        """The device failed in the middle of an answer: go on with the C++ executor."""
        if self._file is None or self._runner is None or self._runner.choice.backend == "cpu":
            raise error
        self._log("warning", f"the Vulkan device failed ({error}); the C++ executor takes over")
        runner = loading.start(
            self._file, self._options, None, self._unless_closing, choice=_fallback(error)
        )
        self._replace_runner(runner)

    def _replace_runner(self, runner: loading.Runner) -> None:
        old = self._runner
        assert old is not None
        kept = carrying.take_out(old, self._log)
        self._close_runner()
        self._take_over(runner, old, kept)

    def _take_over(self, runner: loading.Runner, old: loading.Runner, kept: Prefix | None) -> None:
        carrying.hand_over(kept, old, runner)
        self._runner = runner
        self._emit(ExecutorChanged(runner.executor_info, runner.model_info))
        self._log_executor(runner)
        self._emit(cache_status(runner.session))

    def _unload(self) -> None:
        self._close_runner()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _close_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        try:
            runner.close()
        except DeviceError as error:  # a lost device may refuse even to be let go
            self._log("warning", f"the old executor could not be closed cleanly: {error}")
        del runner
        give_back()

    def _unless_closing(self, stage: str, fraction: float) -> None:
        if self._closing:
            raise CancelledError("the program is closing")

    def _progress(self, number: int) -> loading.Progress:
        last = -1.0

        def report(stage: str, fraction: float) -> None:
            nonlocal last
            if self._closing or self._cancel_through >= number:
                raise CancelledError("cancelled")
            if fraction - last >= 0.01 or fraction >= 1.0:
                last = fraction
                self._emit(LoadProgress(stage, fraction))

        return report

    def _stopped(self, number: int) -> bool:
        return self._closing or self._stop_through >= number

    def _warn(self, text: str) -> None:
        self._log("warning", text)

    def _log_executor(self, runner: loading.Runner) -> None:
        info = runner.executor_info
        because = f" because {info.reason}" if info.reason else ""
        asked = self._options.backend == "auto" and self._options.device is not None
        level: Level = "warning" if asked and info.reason else "info"
        self._log(level, f"inference runs on {info.backend}: {info.device}{because}")
        if runner.attention.note:
            self._log("info", runner.attention.note)

    def _log(self, level: Level, text: str) -> None:
        self._emit(Logged(level, text, time.time()))

    def _emit(self, event: Event) -> None:
        self._events.put(event)
        if self._wake is not None:
            self._wake()


def _let_the_window_go_first() -> None:
    """Lower this thread's priority, and so that of the executor's threads, which inherit it.

    A frame then does not wait behind matrix products where cores are few. Only Linux knows
    priorities of threads.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _fallback(error: DeviceError) -> backends.Choice:
    what = "was lost" if isinstance(error, DeviceLostError) else "failed"
    return backends.Choice("cpu", f"the Vulkan device {what}: {error}")
