"""The model in use and the executor that runs it: loaded, replaced, closed.

Only `prepare` is for another thread than the engine's.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from llm_lite.core import system_errors
from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.engine.hosting.mode_switches import ModeSwitches
from llm_lite.core.engine.hosting.switching import Preparation, is_by_client, options_of
from llm_lite.core.errors import (
    CancelledError,
    DeviceError,
    DoesNotFitError,
    FileError,
    LlmLiteError,
    OutOfDeviceMemoryError,
    OutOfMemoryError,
    RequestError,
)
from llm_lite.core.generation.answer import Emit, cache_status
from llm_lite.core.handles import Handle
from llm_lite.core.hub import catalog
from llm_lite.core.kv_cache.contents import Prefix
from llm_lite.core.loading import backends, loader
from llm_lite.core.loading.client_room import ClientRoom, room_for, with_room
from llm_lite.core.loading.encoder_starting import AnyRunner, start_runner
from llm_lite.core.loading.kept_variants import find
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.runner import Runner, name_of
from llm_lite.core.loading.verification import Verification
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import (
    EngineOptions,
    ExecutorChanged,
    FileDamaged,
    Level,
    LoadModel,
    LoadNeedsMemory,
    LoadProgress,
    LoadStarted,
    ModelLoaded,
    OpenCache,
    Reconfigure,
    SaveCache,
    StartServing,
)
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device

NO_MODEL = "no model is loaded: open one first"


class ModelHost:
    """The host of the model in use. `device` is the Vulkan device that also draws, None if nothing
    draws.

    `cancelled` says whether a load or a change is to end, `closing` whether all is; `loaded` is
    called before a load is reported. Variants that a person kept lie in the folder `variants`.
    `modes` are the switches that clients of a server request.
    """

    def __init__(
        self,
        device: Device | None,
        emit: Emit,
        log: Callable[[Level, str], None],
        cancelled: Callable[[Handle], bool],
        closing: Callable[[], bool],
        loaded: Callable[[Handle], None] = lambda handle: None,
        variants: Path | None = None,
        modes: ModeSwitches | None = None,
    ) -> None:
        self.device, self.variants = device, variants
        self._modes = modes or ModeSwitches(lambda _: None)
        self.file: ModelFile | None = None
        self.loaded: AnyRunner | None = None
        self.coming = ""  # the name of the model that is being loaded
        self.options = EngineOptions()
        self._verification = Verification()
        self._noted = ""  # of formats, in the log
        self._emit = emit
        self._log = log
        self._cancelled = cancelled
        self._closing = closing
        self._loaded = loaded
        self._lock = threading.Lock()  # of the two below, while they change hands
        self._is_left = False

    @property
    def runner(self) -> Runner | None:
        """Return the runner that writes text; None if there is no model, or if it is an encoder."""
        return self.loaded if isinstance(self.loaded, Runner) else None

    @property
    def no_runner(self) -> str:
        """Return a sentence on why there is no `runner`."""
        if self.file is None or self.loaded is None:
            return NO_MODEL
        return loader.encoder_refusal(self.file)

    def load(self, handle: Handle, command: LoadModel) -> bool:
        """Load a model and return True if it has replaced the one before. The handle ends."""
        source = command.source or catalog.DEFAULT
        handle.emit(LoadStarted(source))
        started = time.perf_counter()
        progress = self._progress(handle)
        try:
            warn = partial(self._log, "warning")
            file = loader.open_model(command.source, progress, warn, later=True)
            self.coming = name_of(file.file)
            try:
                if self.variants is not None:
                    file.kept.update(find(self.variants, file, partial(self._log, "warning")))
                runner = self._start(file, command.options, progress)
            except BaseException:
                file.close()
                raise
        except CancelledError:
            handle.end("loading was cancelled", unwanted=True)
            return False
        except LlmLiteError as error:
            self._log("error", str(error))
            _emit_does_not_fit(handle, error)
            handle.end(str(error))
            return False
        finally:
            self.coming = ""
        if not self._install(file, runner, command.options):
            return False
        seconds = time.perf_counter() - started
        self._noted = ""
        self._log_executor(runner)
        self._loaded(handle)
        handle.emit(ModelLoaded(runner.model_info, runner.executor_info, seconds))
        handle.end()
        self._log("info", f"{runner.model_info.name} is ready after {seconds:.2f} s")
        self._emit_cache()
        self._verification = Verification()  # what waits is of the model before
        if file.file.checked_later:
            self._verification.add(file.file.parts, file.model.on_disk)
        self._verification.add(runner.unchecked)
        return True

    def _install(self, file: ModelFile, runner: AnyRunner, options: EngineOptions) -> bool:
        """Replace the model in use, unless a successor owns the host by now; return True if it was
        replaced."""
        unused: tuple[ModelFile | None, AnyRunner | None] = (file, runner)
        with self._lock:
            if not self._is_left:
                unused = self.file, self.loaded
                self.file, self.loaded, self.options = file, runner, options
        self._close(*unused)
        return self.loaded is runner

    def hand_over(self, successor: ModelHost) -> None:
        """For any thread: give what is in use to another; a load under way is discarded."""
        with self._lock:
            self._is_left = True
            successor.file, successor.loaded = self.file, self.loaded
            successor.options = self.options
            self.file = self.loaded = None

    def start_over(self) -> None:
        """Clear the cache after a defect, as nothing in it can be trusted."""
        if self.runner is not None:
            self.runner.session.clear()
        self._emit_cache()

    def verify_next(self) -> bool:
        """Check some more of the files in use, a few milliseconds' worth; whether more is left."""
        try:
            problem = self._verification.step()
        except Exception:
            self._verification = Verification()  # a defect ends it, not every wait from here on
            self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            return False
        if problem is not None:
            self._log("error", str(problem))
            self._emit(FileDamaged(str(problem)))
        return self._verification.pending

    def prepare(self, handle: Handle) -> AnyRunner:
        """Make a runner while the old one stays in use; called on the switching thread."""
        if self.file is None:
            raise RequestError(NO_MODEL)
        options = options_of(handle, self.options)
        mode = options.mode if is_by_client(handle) else None
        handle.emit(LoadStarted(str(self.file.path), mode))
        return self._begin(self.file, options, self._progress_of(handle))

    def switch(self, preparation: Preparation) -> None:
        """Put the runner that was prepared in the place of the one in use, or say why not."""
        handle, problem, unwanted = preparation.handle, "", False
        pathless = ""  # the sentence, for clients, who see no path
        try:
            self._put(preparation)
        except CancelledError:
            problem, unwanted = "the change was cancelled", True
        except LlmLiteError as error:
            self._log("error", str(error))
            _emit_does_not_fit(handle, error)
            problem = str(error)
            pathless = error.problem if isinstance(error, FileError) else ""
        except Exception as error:
            self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            problem = system_errors.defect(error)
        if is_by_client(handle):
            self._modes.end(pathless or problem, unwanted=unwanted)
        handle.end(problem, unwanted=unwanted)

    def _put(self, preparation: Preparation) -> None:
        handle = preparation.handle
        options = options_of(handle, self.options)
        try:
            runner = preparation.result()
        except cache_transfer.OUT_OF_MEMORY as error:
            if self.file is None:
                raise
            self._make_way(self.file, options, handle, error)
            return
        self.options = options
        self._replace_runner(runner, handle)

    def _make_way(
        self,
        file: ModelFile,
        options: EngineOptions,
        handle: Handle,
        problem: LlmLiteError,
    ) -> None:
        """Close the old executor first, as both do not fit; restore it if the new one does not."""
        old = self.loaded
        if old is None:
            raise problem
        self._log("info", f"{problem} Trying again without the executor that is in use.")
        kept = cache_transfer.copy_prefix(old, self._log)
        self._close_runner()
        try:
            runner = self._start(file, options, self._progress_of(handle))
        except LlmLiteError:
            runner = self._start_anyway(file, partial(self._start, progress=self._unless_closing))
            self._put_in_place(runner, old, kept, handle)
            raise
        self.options = options
        self._put_in_place(runner, old, kept, handle)

    def _begin(
        self, file: ModelFile, options: EngineOptions, progress: loader.Progress
    ) -> AnyRunner:
        """Start a runner as `_start` does, but let lack of memory pass through while there is some
        to be freed."""
        try:
            return start_runner(file, options, self.device, progress)
        except OutOfDeviceMemoryError:
            if self.loaded is not None:
                raise
        except DeviceError:
            pass
        return self._start(file, options, progress)

    def _start(
        self, file: ModelFile, options: EngineOptions, progress: loader.Progress
    ) -> AnyRunner:
        """Start a runner as requested, or on the C++ executor where the device fails."""
        try:
            return start_runner(file, options, self.device, progress)
        except DeviceError as error:
            if options.backend == "cpu":
                raise
            self._log("warning", f"{error}; the C++ executor takes over")
            choice = backends.fallback(error, options.backend)
            return start_runner(file, options, None, progress, choice=choice)

    def make_room(self, options: StartServing) -> Runner:
        """Give clients of a server room beside the chat, and return the runner that has it; the
        conversation goes on there. RequestError as of `room_for`, OutOfMemoryError and DeviceError
        where it cannot be made: the runner in use stays then."""
        runner = self.runner
        if runner is None:
            raise RequestError(self.no_runner)
        return self._move(runner, room_for(runner, options))

    def end_room(self) -> None:
        """Free the room of clients. Errors as of `make_room`, but for that of memory, which leaves
        the room as it is."""
        runner = self.runner
        if runner is None or not runner.has_client_room:
            return
        try:
            self._move(runner, None)
        except cache_transfer.OUT_OF_MEMORY as error:
            self._log("info", f"the room of clients stays: {error}")

    def _move(self, runner: Runner, room: ClientRoom | None) -> Runner:
        """Move the conversation to another executor over the same weights."""
        moved = with_room(runner, room)
        try:
            if runner.session.changes.shifts:
                moved.enable_shifts()
            moved.session.continue_from(runner.session)
        except BaseException as error:
            moved.executor.close()
            if isinstance(error, MemoryError):
                raise OutOfMemoryError("there is no memory to move the conversation") from error
            raise
        self.loaded = moved
        runner.attention.close()
        try:
            runner.executor.close()
        except DeviceError as error:  # the other one may be whole
            self._log("warning", f"the old executor could not be closed cleanly: {error}")
        self._emit_cache()
        return moved

    def file_away(self, command: SaveCache | OpenCache) -> None:
        """Save a cache to a file, or open one; a failure is only logged."""
        if self.runner is None:
            self._log("warning", self.no_runner)
            return
        cache_transfer.file_away(self.runner, command, self._log)
        self._emit_cache()

    def fall_back(self, error: DeviceError) -> None:
        """Continue on the C++ executor, as the device failed in the middle of an answer."""
        if self.file is None or self.loaded is None or self.loaded.choice.backend == "cpu":
            raise error
        choice = backends.fallback(error, self.loaded.choice.backend)
        self._log("warning", f"{choice.reason}; the C++ executor takes over")
        start = partial(start_runner, shared=None, progress=self._unless_closing, choice=choice)
        self._replace_runner(self._start_anyway(self.file, start))

    def _start_anyway(
        self, file: ModelFile, start: Callable[[ModelFile, EngineOptions], AnyRunner]
    ) -> AnyRunner:
        """Start a runner with the options in use, ignoring the limits of memory and if need be
        without the draft model: a slow answer is better than none."""
        options = replace(self.options, force=True)
        try:
            return start(file, options)
        except RequestError as error:
            if not options.draft_model:
                raise
            self._log("warning", f"{error}; answers go on without the draft model")
        runner = start(file, replace(options, draft_model=""))
        self.options = replace(self.options, draft_model="")
        return runner

    def _replace_runner(self, runner: AnyRunner, handle: Handle | None = None) -> None:
        old = self.loaded
        assert old is not None
        kept = cache_transfer.copy_prefix(old, self._log)
        self._close_runner()
        self._put_in_place(runner, old, kept, handle)

    def _put_in_place(
        self, runner: AnyRunner, old: AnyRunner, kept: Prefix | None, handle: Handle | None
    ) -> None:
        """Go on with another runner, for which a command has asked, or none."""
        cache_transfer.hand_over(kept, old, runner)
        self.loaded = runner
        self._verification.add(runner.unchecked)
        emit = self._emit if handle is None else handle.emit
        emit(ExecutorChanged(runner.executor_info, runner.model_info, self.options))
        self._log_executor(runner)
        self._emit_cache()

    def unload(self) -> None:
        self._verification = Verification()
        file, self.file = self.file, None
        runner, self.loaded = self.loaded, None
        self._close(file, runner)

    def _close_runner(self) -> None:
        runner, self.loaded = self.loaded, None
        self._close(None, runner)

    def _close(self, file: ModelFile | None, runner: AnyRunner | None) -> None:
        if runner is not None:
            try:
                runner.close()
            except DeviceError as error:  # a lost device may refuse even to be closed
                self._log("warning", f"the old executor could not be closed cleanly: {error}")
            del runner
            trim_heap()
        if file is not None:
            file.close()

    def _unless_closing(self, stage: str, fraction: float) -> None:
        if self._closing():
            raise CancelledError("the program is closing")

    def _progress_of(self, handle: Handle) -> loader.Progress:
        tell = self._progress(handle)
        if not is_by_client(handle):
            return tell

        def report(stage: str, fraction: float) -> None:
            self._modes.progress(stage, fraction)
            tell(stage, fraction)

        return report

    def _progress(self, handle: Handle) -> loader.Progress:
        last = -1.0

        def report(stage: str, fraction: float) -> None:
            nonlocal last
            if self._cancelled(handle):
                raise CancelledError("cancelled")
            if fraction - last >= 0.01 or fraction >= 1.0:
                last = fraction
                handle.emit(LoadProgress(stage, fraction))

        return report

    def _emit_cache(self) -> None:
        if self.runner is not None:
            self._emit(cache_status(self.runner.session))

    def _log_executor(self, runner: AnyRunner) -> None:
        info = runner.executor_info
        because = f" because {info.reason}" if info.reason else ""
        asked = self.options.backend == "auto" and self.options.device is not None
        level: Level = "warning" if asked and info.reason else "info"
        self._log(level, f"inference runs on {info.backend}: {info.device}{because}")
        if runner.attention.note:
            self._log("info", runner.attention.note)
        if runner.note and runner.note != self._noted:
            self._noted = runner.note
            self._log("info", runner.note)
        if isinstance(runner, Runner):
            runner.report_drafts(partial(self._log, "warning"))


def _emit_does_not_fit(handle: Handle, error: LlmLiteError) -> None:
    """Emit that a load does not fit: a person at the window is asked; a client of a server reads
    the sentence."""
    command = handle.command
    if not isinstance(command, LoadModel | Reconfigure) or is_by_client(handle):
        return
    if isinstance(error, DoesNotFitError):
        in_use = isinstance(command, Reconfigure)
        source = None if isinstance(command, Reconfigure) else command.source
        handle.emit(LoadNeedsMemory(source, command.options, in_use, error.fit, error.others))
