"""Each view declares whose data it draws; one that is of no conversation reads none of it."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest

from llm_lite.core.records import replace
from llm_lite.desktop.app import interface
from llm_lite.desktop.features.program.scopes import scopes
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import FEATURES, VIEWS
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.program.test_any_state import random_state

OF_CONVERSATION = {
    name for name, scope in scopes(AppState).items() if scope in ("conversation", "reading")
}
DIVIDED = {name for name, scope in scopes(AppState).items() if scope == "divided"}
# Whether the engine is busy, and whether there is anything in front, is no conversation's data.
ASKED_BY_ALL = {"running", "messages"}


class Watched(AppState, frozen=True):
    """A state that notes which of its fields are read."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name):
        if name in scopes(AppState):
            Watched.read.add(name)
        return super().__getattribute__(name)


def watched(state):
    return Watched(**{name: getattr(state, name) for name in AppState.__struct_fields__})


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_reads_what_it_declares(headless, monkeypatch, view):
    read = set()

    def draw(drawn, state, ui):
        if drawn.name != view.name:
            return of_the_interface(drawn, state, ui)
        Watched.read = set()
        actions = of_the_interface(drawn, watched(state), ui)
        read.update(Watched.read)
        return actions

    of_the_interface = interface.draw_view
    monkeypatch.setattr(interface, "draw_view", draw)
    one, rng = headless(size=(1600, 1000)), random.Random(view.name)
    for _ in range(8):
        state = random_state(rng)
        layouts = state.layouts.to("compare" if view.place == "beside" else "inspect")
        one.program.state = replace(state, layouts=layouts, model=MODEL, executor=EXECUTOR)
        if one.driver.shows(f"tab.{view.name}"):
            one.driver.click(f"tab.{view.name}")
        one.driver.frames(2)
    assert read, "the view was drawn"
    if view.subject == "conversation":
        assert read & (OF_CONVERSATION | DIVIDED), "it declares a subject that it does not draw"
    else:
        feature = next(one for one in FEATURES if view in one.views)
        # Answers to questions about texts of its own are of no conversation.
        own = {"asks"} if feature.asks and all(slot.subject for slot in feature.asks) else set()
        of_conversation = read & OF_CONVERSATION - ASKED_BY_ALL - own
        assert not of_conversation, f"{view.name} draws {of_conversation} of a conversation"
