"""Escape stops an answer from anywhere in the window, and first closes what is open."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Generate
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import StopAnswer
from llm_lite.desktop.features.program.state import Message, Running
from tests.desktop.headless import READY

ANSWERING = replace(
    READY,
    tree=ConversationTree((Message("user", "Go on"), Message("assistant", "and on"))),
    running=Running(Generate(()), 0.0, "decode"),
)


@pytest.fixture
def answering(headless):
    """The window while an answer is written, after a click beside every field."""
    one = headless(ANSWERING)
    one.driver.click("tab.lens")
    assert not imgui.get_io().want_text_input
    return one


def test_an_answer_is_stopped_when_no_field_has_the_keys(answering):
    answering.driver.press(imgui.Key.escape)
    assert len(answering.did(StopAnswer)) == 1


@pytest.mark.parametrize("panel", ["rail.sampler", "rail.tools"])
def test_an_open_panel_is_closed_first(answering, panel):
    answering.driver.click(panel)
    assert imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
    answering.driver.press(imgui.Key.escape)
    assert not answering.did(StopAnswer)
    answering.driver.press(imgui.Key.escape)
    assert len(answering.did(StopAnswer)) == 1
