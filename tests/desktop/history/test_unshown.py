"""The list of conversations beside the page of a model that shows none."""

from __future__ import annotations

import pytest

from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import ExecutorChanged
from llm_lite.core.records import replace
from llm_lite.desktop.features.history.model import (
    ConversationRead,
    DismissUnshown,
    OpenConversation,
    RowsRead,
)
from llm_lite.desktop.features.history.state import ConversationRow
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState, Message
from tests.desktop.engine.encoding import as_encoder
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.translating import as_translator
from tests.desktop.reports import fold_reports

TALK = (Message("user", "Where is the sea?"), Message("assistant", "West.", stop_reason="end"))
PANEL = "history.unshown"


@pytest.fixture(params=[as_encoder, as_translator], ids=["encoder", "translator"])
def one(request, headless):
    """The window with such a model, and a conversation in the list that was clicked and read."""
    one = headless(AppState(model=request.param(MODEL), executor=EXECUTOR), size=(1400, 900))
    one.program.do(RowsRead("all", (ConversationRow(7, "The sea", 1.0),), more=False))
    one.driver.frames(6)
    assert one.driver.shows("history.row.7") and one.driver.shows("history.search")
    one.driver.click("history.row.7")
    assert one.did(OpenConversation) == [OpenConversation(7)]
    one.program.do(ConversationRead(7, ConversationTree(TALK), ""))
    one.driver.frames(6)
    return one


def test_a_click_says_that_a_model_that_chats_is_needed_and_loads_it(one):
    assert one.driver.shows(f"{PANEL}.load") and one.state.history.open == 7
    one.driver.click(f"{PANEL}.load")
    one.driver.frames(2)
    assert one.did(OpenModel) == [OpenModel(None)] and not one.state.history.unshown
    state = replace(one.state, load=None)
    one.program.state = fold_reports(state, ExecutorChanged(EXECUTOR, MODEL), now=0.0)
    one.driver.frames(6)
    assert one.state.messages == TALK and one.driver.shows("message.1")
    assert not one.driver.shows(f"{PANEL}.load")


def test_another_model_can_be_chosen(one):
    one.driver.click(f"{PANEL}.choose")
    one.driver.frames(6)
    assert one.driver.shows("models.path") and not one.did(OpenModel)


def test_what_is_dismissed_is_said_again_at_the_next_click(one):
    one.driver.click(f"{PANEL}.close")
    one.driver.frames(6)
    assert one.did(DismissUnshown) and not one.driver.shows(f"{PANEL}.load")
    one.driver.click("history.row.7")
    one.program.do(ConversationRead(7, ConversationTree(TALK), ""))
    one.driver.frames(6)
    assert one.driver.shows(f"{PANEL}.load")


def test_a_chat_model_shows_what_is_opened_at_once(headless):
    one = headless(AppState(model=MODEL, executor=EXECUTOR))
    one.program.do(OpenConversation(7))
    one.program.do(ConversationRead(7, ConversationTree(TALK), ""))
    one.driver.frames(6)
    assert not one.state.history.unshown and not one.driver.shows(f"{PANEL}.load")
