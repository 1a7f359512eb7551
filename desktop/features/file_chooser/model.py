"""A person chooses files in the window's own chooser; the host reads folders for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core.records import replace
from llm_lite.desktop.features.file_chooser.state import (
    NOWHERE,
    FileEntry,
    PathTarget,
    Place,
    Purpose,
)
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState


class ShowFiles(Action, frozen=True):
    """Choose files in the window, beginning in `folder`; the program reads it."""

    purpose: Purpose
    folder: str
    places: tuple[tuple[Place, str], ...] = ()
    target: PathTarget = NOWHERE


class ChoosePath(HostAction, frozen=True):
    """Open a dialog for a file, or for a folder, whose path is to stand in a field."""

    target: PathTarget
    folder: bool = False

    @property
    def purpose(self) -> Purpose:
        return "folder" if self.folder else "path"


class BrowseFolder(Action, frozen=True):
    """List another folder; the program reads it in a thread of its own."""

    folder: str


class FolderRead(Action, frozen=True):
    """A folder that was asked for was read, or cannot be listed; `problem`: why. Where a file was
    asked for, it is `named`, and the folder is the one that it lies in."""

    asked: str
    folder: str
    entries: tuple[FileEntry, ...] = ()
    left_out: int = 0
    named: str = ""
    problem: str = ""


class FilterFiles(Action, frozen=True):
    """Show hidden entries, and files of all kinds, or not."""

    hidden: bool
    all_kinds: bool


class CloseFiles(Action, frozen=True):
    """The chooser is done; `chosen`: the paths that were chosen in it, none where cancelled."""

    chosen: tuple[str, ...] = ()


def _show(action: ShowFiles, state: AppState, now: float) -> Result:
    files = replace(
        state.chooser, shown=True, purpose=action.purpose, target=action.target,
        folder=action.folder, entries=(),
        left_out=0, wanted=action.folder, named="", problem="",
        places=action.places,
    )  # fmt: skip
    return replace(state, chooser=files), ()


def _browse(action: BrowseFolder, state: AppState, now: float) -> Result:
    return replace(state, chooser=replace(state.chooser, wanted=action.folder)), ()


def _read(action: FolderRead, state: AppState, now: float) -> Result:
    """Show the folder that was read; one that cannot be listed leaves the one before."""
    files = state.chooser
    if action.asked != files.wanted:
        return state, ()
    files = replace(files, wanted="", problem=action.problem)
    if not action.problem:
        files = replace(
            files, folder=action.folder, entries=action.entries, left_out=action.left_out,
            named=action.named,
        )  # fmt: skip
    return replace(state, chooser=files), ()


def _filter(action: FilterFiles, state: AppState, now: float) -> Result:
    files = replace(state.chooser, hidden=action.hidden, all_kinds=action.all_kinds)
    return replace(state, chooser=files), ()


def _close(action: CloseFiles, state: AppState, now: float) -> Result:
    files = replace(state.chooser, shown=False, wanted="", entries=(), problem="")
    if action.chosen:
        chosen = Path(action.chosen[0])
        folder = chosen if files.purpose == "folder" else chosen.parent
        files = replace(files, recent=files.chose_from(str(folder)))
    return replace(state, chooser=files), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ShowFiles: _show,
    BrowseFolder: _browse,
    FolderRead: _read,
    FilterFiles: _filter,
    CloseFiles: _close,
}
