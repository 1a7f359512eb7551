"""What a person does with the library of prompts. The files are the program's part
(`desktop.app.composing`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llm_lite.core.messages import Level
from llm_lite.core.records import dataclass
from llm_lite.desktop.actions.requests import Result
from llm_lite.desktop.state.composing.prompts import PromptLibrary, SavedPrompt
from llm_lite.desktop.state.incoming import typed
from llm_lite.desktop.state.notices import notify
from llm_lite.desktop.state.state import AppState


@dataclass(frozen=True, slots=True)
class WantPrompts:
    """Read the folder."""


@dataclass(frozen=True, slots=True)
class SavePrompt:
    """Keep a text under a name. `before` is the name that it had; "" for a new one."""

    name: str
    text: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class DeletePrompt:
    name: str


@dataclass(frozen=True, slots=True)
class RestorePrompt:
    """Bring back the one that was deleted last."""


@dataclass(frozen=True, slots=True)
class ImportPrompts:
    """From files, or all files of a folder."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportPrompts:
    """All to a folder, or the one of a name to a file."""

    path: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class AddExamples:
    pass


@dataclass(frozen=True, slots=True)
class PromptsRead:
    """What the folder holds now, and the one that was just deleted."""

    prompts: tuple[SavedPrompt, ...]
    deleted: SavedPrompt | None = None


@dataclass(frozen=True, slots=True)
class TellPrompts:
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class InsertPrompt:
    """Into the draft: in the place of the command that was typed, else behind what is there."""

    text: str


PromptFileAction = (
    WantPrompts
    | SavePrompt
    | DeletePrompt
    | RestorePrompt
    | ImportPrompts
    | ExportPrompts
    | AddExamples
)
PromptAction = PromptFileAction | PromptsRead | TellPrompts | InsertPrompt


def _leave_to_the_program(action: PromptFileAction, state: AppState, now: float) -> Result:
    return state, ()


def _read(action: PromptsRead, state: AppState, now: float) -> Result:
    return replace(state, prompts=PromptLibrary(action.prompts, True, action.deleted)), ()


def _tell(action: TellPrompts, state: AppState, now: float) -> Result:
    return notify(state, action.level, action.text, now), ()


def _insert(action: InsertPrompt, state: AppState, now: float) -> Result:
    before = state.draft
    if before.startswith("/") or not before.strip():
        return replace(state, draft=typed(action.text)), ()
    between = "" if before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    return replace(state, draft=typed(f"{before}{between}{action.text}")), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    WantPrompts: _leave_to_the_program,
    SavePrompt: _leave_to_the_program,
    DeletePrompt: _leave_to_the_program,
    RestorePrompt: _leave_to_the_program,
    ImportPrompts: _leave_to_the_program,
    ExportPrompts: _leave_to_the_program,
    AddExamples: _leave_to_the_program,
    PromptsRead: _read,
    TellPrompts: _tell,
    InsertPrompt: _insert,
}
