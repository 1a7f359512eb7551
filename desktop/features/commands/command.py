"""A row of the table: something that a person can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark
from llm_lite.desktop.widgets.ui import Ui

Group = Literal["chat", "conversations", "layout", "panels", "look", "model", "compare", "program"]
Place = Literal["", "input", "text", "find", "list", "controls", "lesson"]
Run = Callable[[AppState, Ui], list[Action]]
GROUPS: dict[Group, str] = {
    "chat": mark("Chat"),
    "conversations": mark("Conversations"),
    "layout": mark("Layout"),
    "panels": mark("Panels"),
    "look": mark("Look inside"),
    "model": mark("Model"),
    "compare": mark("Measure and compare"),
    "program": mark("Program"),
}
PLACES: dict[Place, str] = {
    "": mark("Everywhere"),
    "input": mark("In the input"),
    "text": mark("In the conversation's text"),
    "find": mark("In the search of the conversation"),
    "list": mark("In lists"),
    "controls": mark("Among controls"),
    "lesson": mark("In the lesson"),
}


def always(state: AppState, ui: Ui) -> bool:
    return True


class UserCommand(Struct, frozen=True):
    """`keys` are chords; the first is shown. Where `place` is one, the keys work there
    only, and what is there answers them; such a row teaches, and has nothing to run."""

    name: str
    title: str  # marked for translation
    group: Group
    run: Run | None = None
    keys: tuple[str, ...] = ()
    when: Callable[[AppState, Ui], bool] = always
    place: Place = ""
    while_typing: bool = True  # its keys work in a field of text too
    in_untouched_input: bool = False  # and where not, then in the chat's input before it is used
    words: str = ""  # by which it is found too
