"""Actions on the library of prompts. `host` reads and writes its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Level
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.state import PromptLibrary, SavedPrompt
from llm_lite.desktop.language.incoming import typed


class WantPrompts(HostAction, frozen=True):
    """Read the folder."""


class SavePrompt(HostAction, frozen=True):
    """Keep a text under a name. `before` is the name that it had; "" for a new one."""

    name: str
    text: str
    before: str = ""


class DeletePrompt(HostAction, frozen=True):
    name: str


class RestorePrompt(HostAction, frozen=True):
    """Bring back the prompt that was deleted last."""


class ImportPrompts(HostAction, frozen=True):
    """Import files, or all files of a folder."""

    paths: tuple[str, ...]


class ExportPrompts(HostAction, frozen=True):
    """Write all prompts to a folder, or the one of this name to a file."""

    path: str
    name: str = ""


class AddExamples(HostAction, frozen=True):
    pass


class PromptsRead(Action, frozen=True):
    """The prompts that the folder holds now, and the one that was deleted last."""

    prompts: tuple[SavedPrompt, ...]
    deleted: SavedPrompt | None = None


class TellPrompts(Action, frozen=True):
    level: Level
    text: str


class InsertPrompt(Action, frozen=True):
    """Put a text into the draft: in place of the command that was typed, else behind the draft."""

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
    PromptsRead: _read,
    TellPrompts: _tell,
    InsertPrompt: _insert,
}
