"""Models that a person fetches, converts, verifies, imports, deletes; host and queue do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import QueueState
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import with_library
from llm_lite.desktop.features.library.state import Checked, Weighed
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import short_name


class FetchModel(Action, frozen=True):
    """Into the queue: a file of the hub, then perhaps quantized, and its source deleted."""

    repo: str
    file: str
    size: int = 0  # bytes, where they are known
    mode: Mode | None = None  # None: used as it is stored
    delete_source: bool = False
    calibrate: bool = True  # int4 by a text, which takes minutes


class QuantizeModel(Action, frozen=True):
    """Into the queue: a model that lies here."""

    name: str
    mode: Mode
    delete_source: bool = False
    calibrate: bool = True  # int4 by a text, which takes minutes


class SliceModel(Action, frozen=True):
    """Gemma 3n's E2B, as a view of an E4B that lies here."""

    name: str


class PauseJob(Action, frozen=True):
    id: str


class ResumeJob(Action, frozen=True):
    id: str


class CancelJob(Action, frozen=True):
    """It ends where it is; what was fetched stays, and it can be tried again."""

    id: str


class RetryJob(Action, frozen=True):
    """Of one that failed or was cancelled."""

    id: str


class DismissJob(Action, frozen=True):
    """Its row leaves the list."""

    id: str


class DismissEnded(Action, frozen=True):
    """The rows leave the list of what is done and of what has failed."""


class UndoRemoval(Action, frozen=True):
    """Of a deletion that waits: it is not carried out."""

    id: str


class RemoveNow(Action, frozen=True):
    """Of a deletion that waits: it waits no longer."""

    id: str


class KeepSource(Action, frozen=True):
    """Of a job that is to delete its source: it stays."""

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
    """How much deleting would free: of each of these groups of names."""

    choices: tuple[tuple[str, ...], ...]


class TellRemoval(Action, frozen=True):
    removal: Mapping[tuple[str, ...], Weighed]


class RemoveModels(Action, frozen=True):
    """Into the queue: they can be taken back until it is empty."""

    names: tuple[str, ...]


class ImportLocal(Action, frozen=True):
    """Remember a model where it lies."""

    path: str


class ChooseImport(Action, frozen=True):
    """Ask the system for a model to import; the window does it."""


class TellImported(Action, frozen=True):
    name: str


class RevealModel(Action, frozen=True):
    """Show its file in the system's file manager."""

    path: str


class TellLibrary(Action, frozen=True):
    """Something that went wrong, or well, as a sentence."""

    words: str
    good: bool = False


def _leave_to_the_host(action: Any, state: AppState, now: float) -> Result:
    return state, ()


def _to_the_queue(action: FetchModel | QuantizeModel, state: AppState, now: float) -> Result:
    """It is shown where it went."""
    return with_library(state, tab="queue"), ()


def _tell_jobs(action: TellJobs, state: AppState, now: float) -> Result:
    queue = action.queue
    told = {"jobs": queue.jobs, "queue_works": queue.works, "queue_problem": queue.problem}
    return with_library(state, **told), ()


def _verify(action: VerifyModel, state: AppState, now: float) -> Result:
    return with_library(state, checking=action.name), ()


def _tell_verified(action: TellVerified, state: AppState, now: float) -> Result:
    checked = Checked(action.good, fit_line(action.words))
    return replace(state, library=state.library.with_checked(action.name, checked)), ()


def _weigh(action: WeighRemoval, state: AppState, now: float) -> Result:
    return with_library(state, removal=None), ()


def _tell_removal(action: TellRemoval, state: AppState, now: float) -> Result:
    return with_library(state, removal=action.removal), ()


def _tell_imported(action: TellImported, state: AppState, now: float) -> Result:
    state = with_library(state, chosen=action.name, tab="local", listing=True)
    words = tr("{name} is in the list. It stays where it lies.")
    return notify(state, "info", words.format(name=short_name(action.name)), now), ()


def _tell(action: TellLibrary, state: AppState, now: float) -> Result:
    return notify(state, "info" if action.good else "warning", action.words, now), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    FetchModel: _to_the_queue,
    QuantizeModel: _to_the_queue,
    SliceModel: _leave_to_the_host,
    PauseJob: _leave_to_the_host,
    ResumeJob: _leave_to_the_host,
    CancelJob: _leave_to_the_host,
    RetryJob: _leave_to_the_host,
    DismissJob: _leave_to_the_host,
    DismissEnded: _leave_to_the_host,
    UndoRemoval: _leave_to_the_host,
    RemoveNow: _leave_to_the_host,
    KeepSource: _leave_to_the_host,
    TellJobs: _tell_jobs,
    VerifyModel: _verify,
    TellVerified: _tell_verified,
    WeighRemoval: _weigh,
    TellRemoval: _tell_removal,
    RemoveModels: _leave_to_the_host,
    ImportLocal: _leave_to_the_host,
    ChooseImport: _leave_to_the_host,
    TellImported: _tell_imported,
    RevealModel: _leave_to_the_host,
    TellLibrary: _tell,
}
