"""Ctrl+Z while the chat's input has the keys, as it has them after nearly everything one does."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.history.model import RedoHistory, UndoHistory
from llm_lite.desktop.features.program.state import Message
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.headless import READY

KEY = imgui.Key


@pytest.fixture
def empty(headless):
    """A chat whose input has the keys."""
    one = headless(READY)
    one.program.start(ScriptedEngine(0.0))
    one.driver.frames(4)
    assert imgui.get_io().want_text_input
    return one


def undone(one):
    return len(one.did(UndoHistory)), len(one.did(RedoHistory))


def test_an_input_that_was_not_used_leaves_undo_to_the_conversation(empty):
    empty.driver.press(KEY.mod_ctrl, KEY.z)
    assert undone(empty) == (1, 0)
    empty.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.z)
    assert undone(empty) == (1, 1)


def test_what_was_typed_is_undone_in_the_input(empty):
    empty.driver.type("rain")
    empty.driver.press(KEY.mod_ctrl, KEY.z)
    assert undone(empty) == (0, 0)
    for _ in range(4):
        empty.driver.press(KEY.backspace)
    assert empty.state.draft == ""
    empty.driver.press(KEY.mod_ctrl, KEY.z)
    assert undone(empty) == (0, 0) and empty.state.draft != ""


def test_in_another_chat_the_input_begins_anew(empty):
    empty.driver.type("rain")
    for _ in range(4):
        empty.driver.press(KEY.backspace)
    empty.program.state = replace(
        empty.state, tree=ConversationTree((Message("user", "Where is rain?"),))
    )
    empty.program.do(NewChat())
    empty.driver.frames(4)
    assert imgui.get_io().want_text_input, "the keys stay in the input"
    empty.driver.press(KEY.mod_ctrl, KEY.z)
    assert undone(empty) == (1, 0)


def test_a_draft_from_elsewhere_is_not_mistaken_for_an_empty_input(headless):
    one = headless(replace(READY, draft="from the library"))
    one.program.start(ScriptedEngine(0.0))
    one.driver.frames(4)
    one.driver.press(KEY.mod_ctrl, KEY.z)
    assert undone(one) == (0, 0)
