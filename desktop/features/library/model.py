"""The page of models: when it is shown, what of it, and what was found out for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import CuratedModel, HubModel, LocalModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.history.model import OpenConversation, ShowHistory
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.library.state import (
    FitAnswer,
    FitQuestion,
    HubSearch,
    LibraryTab,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.language.incoming import fit_line

MOST_REPOS = 100  # read whole and kept


class ShowLibrary(Action, frozen=True):
    """The page of models instead of the conversation, or the conversation again."""

    shown: bool
    tab: LibraryTab | None = None  # None: where it was


class ListModels(Action, frozen=True):
    """Look again for what lies on this machine; the host does it."""


class TellModels(Action, frozen=True):
    models: tuple[LocalModel, ...]
    disk_free: int | None
    problem: str = ""


class TellCurated(Action, frozen=True):
    models: tuple[CuratedModel, ...]
    hub: str  # its address
    problem: str = ""


class ChooseLocal(Action, frozen=True):
    name: str


class SetSearch(Action, frozen=True):
    """The fields of the search; nobody is asked yet."""

    search: HubSearch


class SearchHub(Action, frozen=True):
    """Ask the hub for what stands in the fields; the host does it."""


class TellFound(Action, frozen=True):
    search: HubSearch
    models: tuple[HubModel, ...]
    problem: str = ""


class ForgetFound(Action, frozen=True):
    """Back to the short list."""


class ChooseRepo(Action, frozen=True):
    """Show a repository of the curated list or of what was found; nobody is asked."""

    repo: str


class ReadRepo(Action, frozen=True):
    """Ask the hub for the files of a repository; the host does it."""

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


def with_library(state: AppState, **changes: Any) -> AppState:
    return replace(state, library=replace(state.library, **changes))


def _show(action: ShowLibrary, state: AppState, now: float) -> Result:
    tab = action.tab or state.library.tab
    listing = state.library.listing or (action.shown and not state.library.shown)
    return with_library(state, shown=action.shown, tab=tab, listing=listing), ()


def _list(action: ListModels, state: AppState, now: float) -> Result:
    return with_library(state, listing=True), ()


def _tell_models(action: TellModels, state: AppState, now: float) -> Result:
    library = state.library
    names = {model.name for model in action.models}
    chosen = library.chosen if library.chosen in names else ""
    kept = {name: checked for name, checked in library.checked.items() if name in names}
    local = library.local if action.problem else action.models
    changes: dict[str, Any] = {"local": local, "disk_free": action.disk_free, "chosen": chosen}
    changes |= {"list_problem": fit_line(action.problem), "listing": False, "removal": None}
    fits = {q: told for q, told in library.fits.items() if not q.name}  # files may be others now
    changes |= {"checked": MappingProxyType(kept), "fits": MappingProxyType(fits)}
    return with_library(state, **changes), ()


def _tell_curated(action: TellCurated, state: AppState, now: float) -> Result:
    problem = fit_line(action.problem) or state.library.find_problem
    return with_library(state, curated=action.models, hub=action.hub, find_problem=problem), ()


def _choose_local(action: ChooseLocal, state: AppState, now: float) -> Result:
    return with_library(state, chosen=action.name, removal=None), ()


def _set_search(action: SetSearch, state: AppState, now: float) -> Result:
    return with_library(state, search=action.search), ()


def _search(action: SearchHub, state: AppState, now: float) -> Result:
    return with_library(state, searching=state.library.search, find_problem=""), ()


def _tell_found(action: TellFound, state: AppState, now: float) -> Result:
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


def _tell_repo(action: TellRepo, state: AppState, now: float) -> Result:
    library = state.library
    opening = "" if library.opening == action.repo else library.opening
    if action.model is None:
        problem = fit_line(action.problem) if library.repo == action.repo else ""
        return with_library(state, opening=opening, repo_problem=problem), ()
    repos = {**library.repos, action.repo: action.model}
    for old in list(repos)[: max(0, len(repos) - MOST_REPOS)]:
        del repos[old]
    fits = {q: told for q, told in library.fits.items() if q.repo != action.repo}
    changed: dict[str, Any] = {"fits": MappingProxyType(fits), "repo_problem": ""}
    return with_library(state, opening=opening, repos=MappingProxyType(repos), **changed), ()


def _choose_file(action: ChooseHubFile, state: AppState, now: float) -> Result:
    return with_library(state, file=action.file), ()


def _set_fit(action: SetFitOptions, state: AppState, now: float) -> Result:
    return with_library(state, mode=action.mode, context=action.context), ()


def _tell_fits(action: TellFits, state: AppState, now: float) -> Result:
    return replace(state, library=state.library.with_fits(action.fits)), ()


def leave_page(action: object, before: AppState, result: Result, now: float) -> Result:
    """Show a model, conversation or layout that a person goes to instead of the page."""
    state, commands = result
    if state.library.shown and isinstance(action, _ELSEWHERE):
        return with_library(state, shown=False), commands
    return result


_ELSEWHERE = (OpenModel, NewChat, OpenConversation, ShowHistory, UseLayout, ShowInspector, ShowRuns)
HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ShowLibrary: _show,
    ListModels: _list,
    TellModels: _tell_models,
    TellCurated: _tell_curated,
    ChooseLocal: _choose_local,
    SetSearch: _set_search,
    SearchHub: _search,
    TellFound: _tell_found,
    ForgetFound: _forget_found,
    ChooseRepo: _choose_repo,
    ReadRepo: _read_repo,
    TellRepo: _tell_repo,
    ChooseHubFile: _choose_file,
    SetFitOptions: _set_fit,
    TellFits: _tell_fits,
}
