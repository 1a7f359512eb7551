"""The machine and the hub for the page of models. Calls wait for disks and networks; they raise
LlmLiteError, whose sentence is shown."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from llm_lite.core.errors import CancelledError, FileError, RequestError
from llm_lite.core.files.places import user_folder
from llm_lite.core.messages.library import CuratedModel, HubModel, LocalModel, QueueState
from llm_lite.desktop.features.library.model import (
    CancelJob,
    DismissEnded,
    DismissJob,
    FetchModel,
    JobAction,
    KeepSource,
    PauseJob,
    QuantizeModel,
    RemoveNow,
    ResumeJob,
    RetryJob,
    SliceModel,
    UndoRemoval,
)
from llm_lite.desktop.features.library.state import FitAnswer, FitQuestion, HubSearch, Weighed
from llm_lite.desktop.language.translate import tr, trn
from llm_lite.desktop.language.units import size

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo
    from llm_lite.core.hub.queue.jobs import Edit
    from llm_lite.core.hub.queue.queue import ModelQueue

Stop = Callable[[], bool]
SLICE = "E2B"  # of an E4B
MOST_FOUND = 30  # results of a search; each is one more request, and hubs count them
CLOSING = 0.8  # seconds for the queue to end by itself; the window is gone in under two


class ModelServices(Protocol):
    """The services, by `CoreServices` or by an example for the tour and for tests."""

    def local(self) -> tuple[LocalModel, ...]: ...

    def disk_free(self) -> int | None: ...

    def accelerators(self) -> tuple[str, ...]: ...

    def curated(self) -> tuple[CuratedModel, ...]: ...

    def hub(self) -> str: ...

    def search(self, search: HubSearch) -> tuple[HubModel, ...]: ...

    def read(self, repo: str) -> HubModel: ...

    def fits(
        self,
        questions: Sequence[FitQuestion],
        subject: LocalModel | HubModel,
    ) -> Mapping[FitQuestion, FitAnswer]: ...

    def verify(self, model: LocalModel, stop: Stop) -> str: ...

    def weigh(self, models: Sequence[LocalModel]) -> Weighed: ...

    def import_model(self, path: Path) -> str: ...

    def begin_queue(self, on_change: Callable[[QueueState], None]) -> None: ...

    def queue(self, action: FetchModel | QuantizeModel | SliceModel | JobAction) -> None: ...

    def remove(self, models: Sequence[LocalModel]) -> None: ...

    def close(self) -> None: ...


class CoreServices:
    """The services of this machine. Modules are imported when they are first needed."""

    def __init__(self, device: Callable[[], DeviceInfo | None] = lambda: None) -> None:
        self._device = device  # returns the one that draws now
        self._queue: ModelQueue | None = None
        self._known: Mapping[str, LocalModel] = {}

    def local(self) -> tuple[LocalModel, ...]:
        from llm_lite.core.hub.local.listing import local_models

        found = tuple(local_models())
        self._known = {model.name: model for model in found}
        return found

    def disk_free(self) -> int | None:
        folder = user_folder("data")
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            return None

    def accelerators(self) -> tuple[str, ...]:
        from llm_lite.core.loading.accelerators import accelerator_names

        return accelerator_names()

    def curated(self) -> tuple[CuratedModel, ...]:
        from llm_lite.core.hub.remote.curated import curated_models

        return curated_models()

    def hub(self) -> str:
        from llm_lite.core.hub.remote.access import hub_of_environment

        return hub_of_environment().endpoint

    def search(self, search: HubSearch) -> tuple[HubModel, ...]:
        from llm_lite.core.hub.remote.searching import SearchFilters
        from llm_lite.core.hub.remote.searching import search as search_hub

        filters = SearchFilters(search.task, search.largest, search.licence, search.runnable)
        return tuple(search_hub(search.words, filters, MOST_FOUND))

    def read(self, repo: str) -> HubModel:
        from llm_lite.core.hub.remote.searching import show

        return show(repo)

    def fits(
        self,
        questions: Sequence[FitQuestion],
        subject: LocalModel | HubModel,
    ) -> Mapping[FitQuestion, FitAnswer]:
        from llm_lite.desktop.features.library.host_fitting import fits_of_files, fits_of_path

        if isinstance(subject, LocalModel):
            return fits_of_path(subject.path, questions, self._device())
        return fits_of_files(subject, questions, self._device())

    def verify(self, model: LocalModel, stop: Stop) -> str:
        return verified(model, stop)

    def weigh(self, models: Sequence[LocalModel]) -> Weighed:
        from llm_lite.core.hub.local.removal import removal

        plan = removal([str(model.path) for model in models])
        return Weighed(plan.frees, plan.notes)

    def import_model(self, path: Path) -> str:
        from llm_lite.core.hub.local.importing import import_model

        return import_model(path).name

    def begin_queue(self, on_change: Callable[[QueueState], None]) -> None:
        from llm_lite.core.hub.local.places.ours import models_folder
        from llm_lite.core.hub.queue.queue import ModelQueue
        from llm_lite.core.hub.queue.queue_file import queue_folder

        self._queue = ModelQueue(queue_folder(), models_folder(), on_change)

    def queue(self, action: FetchModel | QuantizeModel | SliceModel | JobAction) -> None:
        self._do(edit_of(action, self._known))

    def remove(self, models: Sequence[LocalModel]) -> None:
        from llm_lite.core.hub.queue import commands

        self._do(commands.delete(models, self.weigh(models).freed))

    def close(self) -> None:
        """Wait CLOSING seconds at most for the work of the queue to end; it ends with this program
        at the latest, and continues at its next start."""
        if self._queue is not None:
            ending = threading.Thread(target=self._queue.close, name="queue", daemon=True)
            ending.start()
            ending.join(CLOSING)

    def _do(self, edit: Edit) -> None:
        if self._queue is None:
            raise RequestError(tr("The queue of models has not begun."))
        self._queue.do(edit)


def edit_of(
    action: FetchModel | QuantizeModel | SliceModel | JobAction, known: Mapping[str, LocalModel]
) -> Edit:
    """Return the change of the queue for an action. Raise RequestError where it cannot be done."""
    from llm_lite.core.hub.queue import commands

    if isinstance(action, FetchModel):
        return commands.fetch(
            action.repo,
            action.file,
            size=action.size,
            mode=action.mode,
            delete_source=action.delete_source,
            calibrate=action.calibrate,
        )
    if isinstance(action, QuantizeModel):
        model = _known(action.name, known)
        return commands.convert(
            model,
            mode=action.mode,
            delete_source=action.delete_source,
            calibrate=action.calibrate,
        )
    if isinstance(action, SliceModel):
        return commands.convert(_known(action.name, known), cut=SLICE)
    if isinstance(action, DismissEnded):
        return commands.clear
    edits: Mapping[type[object], Callable[[str], Edit]] = {
        PauseJob: commands.pause,
        ResumeJob: commands.resume,
        CancelJob: commands.cancel,
        RetryJob: commands.retry,
        DismissJob: commands.remove,
        UndoRemoval: commands.undo,
        RemoveNow: commands.delete_now,
        KeepSource: commands.keep_source,
    }
    return edits[type(action)](action.id)


def _known(name: str, known: Mapping[str, LocalModel]) -> LocalModel:
    if name not in known:
        raise RequestError(tr("{name} is not listed any more.").format(name=name))
    return known[name]


def verified(model: LocalModel, stop: Callable[[], bool]) -> str:
    """Compare a model's files with the hub's hashes where it came from one, else with the files'
    own checksums, and return a sentence. Raise FileError with the first thing that is wrong."""
    from llm_lite.core.hub.remote.checking import from_hub, verify
    from llm_lite.core.loading.file_check import verify_model

    if from_hub(model):
        compared = verify(model, stop=stop)
        _refuse(model, compared.findings)
        words = tr("Every byte is as on the hub: {size} compared by {files}.")
        files = trn("the hash of {n} file", "the hashes of {n} files", compared.compared)
        files = files.format(n=compared.compared)
        return words.format(size=size(compared.nbytes), files=files)

    def progress(part: float) -> None:
        if stop():
            raise CancelledError("stopped")

    verdict = verify_model(str(model.path), progress)
    _refuse(model, verdict.findings)
    if verdict.checksums:
        words = tr("The files are sound: {size} read, {n:,} checksums compared.")
        return words.format(size=size(verdict.nbytes), n=verdict.checksums)
    words = tr("The files are sound: {size} read. They have no checksums to compare.")
    return words.format(size=size(verdict.nbytes))


def _refuse(model: LocalModel, findings: list[str] | tuple[str, ...]) -> None:
    if not findings:
        return
    more = len(findings) - 1
    words = findings[0]
    if more:
        words += " " + trn("And {n} finding more.", "And {n} findings more.", more).format(n=more)
    raise FileError(model.path, words.removeprefix(f"{model.path}: "))
