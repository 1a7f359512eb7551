"""Between the page of models and the machine: what actions ask for is done in threads, what came of
it is told in actions."""

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
from llm_lite.desktop.features.library.changing import (
    ImportLocal,
    RemoveModels,
    RevealModel,
    TellImported,
    TellJobs,
    TellLibrary,
    TellRemoval,
    TellVerified,
    VerifyModel,
    WeighRemoval,
)
from llm_lite.desktop.features.library.host_services import ModelServices
from llm_lite.desktop.features.library.hosted import JobAction, LibraryHostAction
from llm_lite.desktop.features.library.model import (
    ListModels,
    ReadRepo,
    SearchHub,
    ShowLibrary,
    TellCurated,
    TellFits,
    TellFound,
    TellModels,
    TellRepo,
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

HUB_THREADS = 3  # questions to the hub at once: a slow one does not hold up the next


class LibraryHost(Host):
    """`heard` is called, on another thread, when `poll` has something."""

    actions = get_args(LibraryHostAction)

    def __init__(self, services: ModelServices, heard: Callable[[], None]) -> None:
        self._services, self._heard = services, heard
        self._disk = Worker("models on disk", heard)
        self._hub = Worker("models on a hub", heard, HUB_THREADS)
        self._checks = Worker("verification of a model", heard)
        self._told: deque[QueueState] = deque(maxlen=1)  # the newest
        self._seen: tuple[LibraryState, EngineOptions] | None = None
        self._asked: set[FitQuestion] = set()
        self._results: frozenset[tuple[str, str]] | None = None  # of jobs, as they were told last
        self._shown_before = False
        self._closed = False

    def begin(self) -> None:
        """The queue goes on where it was."""
        self._disk.put(self._begin_queue, _say)

    def do(self, action: LibraryHostAction, state: AppState) -> list[Action]:
        """What follows of it at once."""
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
        """What was found, and what the page would show besides."""
        actions = [*self._disk.poll(), *self._hub.poll(), *self._checks.poll()]
        while self._told:
            actions += self._tell_jobs(self._told.popleft(), state)
        seen = (state.library, state.options)
        if self._seen is None or any(a is not b for a, b in zip(seen, self._seen, strict=True)):
            self._seen = seen
            self._ask_fits(state)
        return actions

    def close(self, state: AppState | None = None) -> None:
        """What runs for the queue is ended, and waits in it."""
        self._closed = True
        self._services.close()

    def _show(self, state: AppState) -> list[Action]:
        first, self._shown_before = not self._shown_before, True
        if first:
            self._disk.put(self._curated, _say)
        if first or not state.library.shown:
            self._list()
            return [AskFreeMemory()]
        return []

    def _queue(self, work: Callable[[], None]) -> None:
        def job() -> Iterable[Action]:
            work()
            return ()

        self._disk.put(job, _say)

    def _begin_queue(self) -> Iterable[Action]:
        def told(queue: QueueState) -> None:
            self._told.append(queue)
            self._heard()

        self._services.begin_queue(told)
        return ()

    def _curated(self) -> Iterable[Action]:
        hub = self._services.hub()
        yield TellCurated(tuple(map(fit_to_show, self._services.curated())), hub)

    def _list(self) -> None:
        def work() -> Iterable[Action]:
            models = tuple(fit_to_show(model) for model in self._services.local())
            yield TellModels(models, self._services.disk_free())

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

    def _ask_fits(self, state: AppState) -> None:
        wanted = [one for one in wanted_fits(state.library) if one not in self._asked]
        if not wanted:
            return
        self._asked.update(wanted)
        library, options = state.library, state.options

        def work() -> Iterable[Action]:
            told = self._fits(wanted, library, options)
            self._asked.difference_update(wanted)
            yield TellFits(told)

        self._disk.put(work, _say)

    def _fits(
        self, wanted: list[FitQuestion], library: LibraryState, options: EngineOptions
    ) -> Mapping[FitQuestion, FitAnswer]:
        """All of one model, which is what the page shows."""
        first = wanted[0]
        subject = library.model(first.name) if first.name else library.hub_model(first.repo)
        if subject is None:
            return dict.fromkeys(wanted, FitAnswer(None, tr("It is not listed any more.")))
        try:
            return self._services.fits(wanted, subject, options)
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

        self._disk.put(work, _say)

    def _weighed(self, models: tuple[LocalModel, ...]) -> Weighed:
        try:
            return self._services.weigh(models)
        except LlmLiteError as error:
            return Weighed(problem=fit_line(str(error)))

    def _import(self, path: str) -> None:
        def work() -> Iterable[Action]:
            yield TellImported(self._services.import_model(expanded(path)))

        self._disk.put(work, _say)

    def _tell_jobs(self, queue: QueueState, state: AppState) -> list[Action]:
        """The list is read again when something was made or deleted."""
        jobs = queue.jobs
        results = frozenset(
            (job.id, stage.stage) for job in jobs for stage in job.stages if stage.state == "done"
        )
        before, self._results = self._results, results
        told: list[Action] = [TellJobs(fit_to_show(queue))]
        if before is not None and results - before and state.library.local is not None:
            told.append(ListModels())
        return told


def _of(names: tuple[str, ...], state: AppState) -> tuple[LocalModel, ...]:
    """RequestError for one that is gone."""
    found = []
    for name in names:
        model = state.library.model(name)
        if model is None:
            raise RequestError(tr("{name} is not listed any more.").format(name=name))
        found.append(model)
    return tuple(found)


def _say(problem: str) -> Iterable[Action]:
    return [TellLibrary(problem)]


def reveal(path: Path) -> None:
    """In the system's file manager, which is not waited for. FileError where there is none."""
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
