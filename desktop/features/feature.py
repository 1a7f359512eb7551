"""The declaration of a feature: all that one folder adds to the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from llm_lite.core.messages import Event
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui

Place = Literal["middle", "left", "upper right", "lower right", "beside"]  # as the keyboard goes
# Whose data a view draws. What is of a conversation is of the one in front: a view of another
# subject reads nothing of it, and shows itself which text, model or conversations it is of.
Subject = Literal["conversation", "conversations", "model", "text", "program"]
Draw = Callable[[AppState, Ui], list[Action]]


class View(Struct, frozen=True):
    """A dockable window; `name` is its identity in the remembered layout."""

    name: str
    title: str
    icon: str
    place: Place
    subject: Subject
    draw: Draw
    turn: int | None = None  # of pacing.TURNS, the one that draws it; dear ones differ; None: each

    @property
    def window(self) -> str:
        return f"{tr(self.title)}###{self.name}"


class Feature(Struct, frozen=True):
    """One folder's part of the program. Functions of the model are pure: they return another
    state, and commands for the engine. `now` is a time in seconds that only grows."""

    name: str
    actions: Mapping[type[Any], Callable[[Any, AppState, float], Result]] = field(
        default_factory=dict
    )
    events: Mapping[type[Any], Callable[[Any, AppState, float], AppState]] = field(
        default_factory=dict
    )
    # By command, what its events change: reply(event, command, state, now).
    replies: Mapping[type[Any], Callable[[Event, Any, AppState, float], AppState]] = field(
        default_factory=dict
    )
    asks: tuple[Slot[Any], ...] = ()  # what its views ask the engine
    # on_action(action, state before it, result so far, now): what actions of any feature mean here
    on_action: Callable[[Action, AppState, Result, float], Result] | None = None
    due: tuple[Callable[[AppState], Result], ...] = ()  # after every batch of events
    views: tuple[View, ...] = ()
    page: Draw | None = None  # it stands in the place of the docked views while it is shown
    overlays: Mapping[str, Draw] = field(default_factory=dict)  # over everything, where open
    # What is kept between runs: names of settings and where the state has each ("resume.mode"), and
    # for what is not the same in both, functions; `remember` is given the settings as they were.
    settings: Mapping[str, str] = field(default_factory=dict)
    remember: Callable[[AppState, Settings], dict[str, Any]] | None = None
    restore: Callable[[Settings, AppState], AppState] | None = None
