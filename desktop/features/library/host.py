"""The host of the page of models. It carries actions out in threads and returns results."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import get_args

from llm_lite.core.errors import FileError, LlmLiteError, RequestError
from llm_lite.core.files.places import expanded
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.library import LocalModel, QueueState
from llm_lite.desktop.features.cache.model import AskFreeMemory
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.library.host_services import ModelServices
from llm_lite.desktop.features.library.model import (
    ImportLocal,
    JobAction,
    LibraryHostAction,
    ListModels,
    ReadRepo,
    RemoveModels,
    RevealModel,
    SearchHub,
    ShowLibrary,
    TellCurated,
    TellFits,
    TellFound,
    TellImported,
    TellJobs,
    TellLibrary,
    TellModels,
    TellRemoval,
    TellRepo,
    TellVerified,
    VerifyModel,
    WeighRemoval,
)
from llm_lite.desktop.features.library.state import (
    FitAnswer,
    FitQuestion,
    HubSearch,
    LibraryState,
    Weighed,
    wanted_fits,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.host_worker import Worker
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.incoming import fit_line, fit_to_show
from llm_lite.desktop.language.translate import tr

HUB_THREADS = 3  # requests to the hub at once: a slow one does not hold up the next


class LibraryHost(Host):
    """The host. `wake` is called, on another thread, when `poll` has something."""

    actions = get_args(LibraryHostAction)

    def __init__(self, services: ModelServices, wake: Callable[[], None]) -> None:
        self._services, self._wake = services, wake
        self._disk = Worker("models on disk", wake)
        self._hub = Worker("models on a hub", wake, HUB_THREADS)
        self._checks = Worker("verification of a model", wake)
        self._changes: deque[QueueState] = deque(maxlen=1)  # the newest
        self._seen: tuple[LibraryState, EngineOptions] | None = None
        self._requested: set[FitQuestion] = set()
        self._results: frozenset[tuple[str, str]] | None = None  # of jobs, as they were listed last
        self._shown_before = False
        self._closed = False

    def begin(self) -> None:
        """Begin the queue where it was."""
        self._disk.put(self._begin_queue, _notice)

    def do(self, action: LibraryHostAction, state: AppState) -> list[Action]:
        """Carry out an action and return those that follow from it at once."""
        try:
            return self._do(action, state)
        except LlmLiteError as error:
            return [TellLibrary(str(error))]

    def _do(self, action: LibraryHostAction, state: AppState) -> list[Action]:
        if isinstance(action, ShowLibrary):
            return self._show(state) if action.shown else []
        if isinstance(action, RemoveModels):
            models = _of(action.names, state)
            self._queue(lambda: self._services.remove(models))
            return [ShowLibrary(True, "queue")]
        if isinstance(action, ListModels | TellImported):
            self._list()
        elif isinstance(action, SearchHub):
            self._search(state.library.search)
        elif isinstance(action, ReadRepo):
            self._read(action.repo)
        elif isinstance(action, VerifyModel):
            self._verify(action.name, state)
        elif isinstance(action, WeighRemoval):
            self._weigh(action, state)
        elif isinstance(action, ImportLocal):
            self._import(action.path)
        elif isinstance(action, RevealModel):
            reveal(Path(action.path))
        elif isinstance(action, JobAction):
            self._services.queue(action)  # at once: it waits for no disk
        else:
            self._queue(partial(self._services.queue, action))
        return []

    def poll(self, state: AppState) -> list[Action]:
        """Return results, and request the estimates that the page shows next."""
        actions = [*self._disk.poll(), *self._hub.poll(), *self._checks.poll()]
        while self._changes:
            actions += self._list_jobs(self._changes.popleft(), state)
        seen = (state.library, state.options)
        if self._seen is None or any(a is not b for a, b in zip(seen, self._seen, strict=True)):
            self._seen = seen
            self._request_fits(state)
        return actions

    def close(self, state: AppState | None = None) -> None:
        """End what runs for the queue, which waits in it."""
        self._closed = True
        self._services.close()

    def _show(self, state: AppState) -> list[Action]:
        first, self._shown_before = not self._shown_before, True
        if first:
            self._disk.put(self._curated, _notice)
        if first or not state.library.shown:
            self._list()
            return [AskFreeMemory()]
        return []

    def _queue(self, work: Callable[[], None]) -> None:
        def job() -> Iterable[Action]:
            work()
            return ()

        self._disk.put(job, _notice)

    def _begin_queue(self) -> Iterable[Action]:
        def on_change(queue: QueueState) -> None:
            self._changes.append(queue)
            self._wake()

        self._services.begin_queue(on_change)
        return ()

    def _curated(self) -> Iterable[Action]:
        hub = self._services.hub()
        yield TellCurated(tuple(map(fit_to_show, self._services.curated())), hub)

    def _list(self) -> None:
        def work() -> Iterable[Action]:
            models = tuple(fit_to_show(model) for model in self._services.local())
            free, others = self._services.disk_free(), self._services.accelerators()
            yield TellModels(models, free, accelerators=others)

        self._disk.put(work, lambda problem: [TellModels((), None, problem)])

    def _search(self, search: HubSearch) -> None:
        def work() -> Iterable[Action]:
            models = self._services.search(search)
            yield TellFound(search, tuple(map(fit_to_show, models)))

        self._hub.put(work, lambda problem: [TellFound(search, (), problem)])

    def _read(self, repo: str) -> None:
        def work() -> Iterable[Action]:
            yield TellRepo(repo, fit_to_show(self._services.read(repo)))

        self._hub.put(work, lambda problem: [TellRepo(repo, None, problem)])

    def _request_fits(self, state: AppState) -> None:
        wanted = [
            one for one in wanted_fits(state.library, state.options) if one not in self._requested
        ]
        if not wanted:
            return
        self._requested.update(wanted)
        library = state.library

        def work() -> Iterable[Action]:
            fits = self._fits(wanted, library)
            self._requested.difference_update(wanted)
            yield TellFits(fits)

        self._disk.put(work, _notice)

    def _fits(
        self, wanted: list[FitQuestion], library: LibraryState
    ) -> Mapping[FitQuestion, FitAnswer]:
        """Return estimates of one model, as the page shows one at a time."""
        first = wanted[0]
        subject = library.model(first.name) if first.name else library.hub_model(first.repo)
        if subject is None:
            return dict.fromkeys(wanted, FitAnswer(None, tr("It is not listed any more.")))
        try:
            return self._services.fits(wanted, subject)
        except LlmLiteError as error:
            return dict.fromkeys(wanted, FitAnswer(None, fit_line(str(error))))

    def _verify(self, name: str, state: AppState) -> None:
        model = state.library.model(name)
        if model is None:
            return

        def work() -> Iterable[Action]:
            yield TellVerified(name, True, self._services.verify(model, lambda: self._closed))

        self._checks.put(work, lambda problem: [TellVerified(name, False, problem)])

    def _weigh(self, action: WeighRemoval, state: AppState) -> None:
        groups = {names: _of(names, state) for names in action.choices}

        def work() -> Iterable[Action]:
            yield TellRemoval({names: self._weighed(models) for names, models in groups.items()})

        self._disk.put(work, _notice)

    def _weighed(self, models: tuple[LocalModel, ...]) -> Weighed:
        try:
            return self._services.weigh(models)
        except LlmLiteError as error:
            return Weighed(problem=fit_line(str(error)))

    def _import(self, path: str) -> None:
        def work() -> Iterable[Action]:
            yield TellImported(self._services.import_model(expanded(path)))

        self._disk.put(work, _notice)

    def _list_jobs(self, queue: QueueState, state: AppState) -> list[Action]:
        """List the jobs, and read the list of models again when something was made or deleted."""
        jobs = queue.jobs
        results = frozenset(
            (job.id, stage.stage) for job in jobs for stage in job.stages if stage.state == "done"
        )
        before, self._results = self._results, results
        actions: list[Action] = [TellJobs(fit_to_show(queue))]
        if before is not None and results - before and state.library.local is not None:
            actions.append(ListModels())
        return actions


def _of(names: tuple[str, ...], state: AppState) -> tuple[LocalModel, ...]:
    """Return the models of these names. Raise RequestError for one that is gone."""
    found = []
    for name in names:
        model = state.library.model(name)
        if model is None:
            raise RequestError(tr("{name} is not listed any more.").format(name=name))
        found.append(model)
    return tuple(found)


def _notice(problem: str) -> Iterable[Action]:
    return [TellLibrary(problem)]


def reveal(path: Path) -> None:
    """Show a file in the system's file manager. Raise FileError where there is none."""
    folder = path if path.is_dir() else path.parent
    if sys.platform == "win32":
        words = ["explorer", f"/select,{path}"]
    elif sys.platform == "darwin":
        words = ["open", "-R", str(path)]
    else:
        words = ["xdg-open", str(folder)]
    quiet = partial(subprocess.Popen, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        quiet(words, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise FileError(folder, f"cannot be shown: {words[0]}: {error.strerror}") from None
