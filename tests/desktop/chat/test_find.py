"""Find in the conversation, through ImGui's input queue."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.selection.find import FindBar
from llm_lite.desktop.features.selection.selection import Selected, selected_text
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.headless import READY

KEY = imgui.Key
LONG = "\n\n".join(f"Paragraph {n} of many." for n in range(80))
MESSAGES = (
    Message("user", "Where is Rain?"),
    Message("assistant", f"{LONG}\n\nThe **rain** is here.", stop_reason="end"),
    Message("user", "And now?"),
    Message("assistant", "Rain again, and 비.", stop_reason="end"),
)


@pytest.fixture
def talk(headless):
    one = headless(replace(READY, tree=ConversationTree(MESSAGES)), size=(1200, 700))
    one.program.start(ScriptedEngine(0.0))
    one.driver.press(KEY.mod_ctrl, KEY.f)
    return one


def find(one):
    return one.ui.local(FindBar).find


def step(one, back=False):
    one.driver.press(*([KEY.mod_shift] if back else []), KEY.enter)
    one.driver.frames(6)


def selected(one):
    held = one.ui.local(Selected).selection
    return held.low[0], selected_text(one.state, one.ui)


def test_matches_are_gone_through_in_both_directions(talk):
    talk.driver.type("rain")
    assert len(find(talk).places(talk.state)) == 3
    found = [selected(talk)]
    for _ in range(3):
        step(talk)
        found.append(selected(talk))
    assert found == [(0, "Rain"), (1, "rain"), (3, "Rain"), (0, "Rain")]
    step(talk, back=True)
    assert selected(talk) == (3, "Rain")


def test_the_first_match_is_shown_while_one_types(talk):
    """Without Enter; the field keeps the keys, and what no longer fits is not selected."""
    talk.driver.type("ra")
    talk.driver.frames(6)
    assert selected(talk) == (0, "Ra") and find(talk).at == 0
    talk.driver.type("in again")
    talk.driver.frames(6)
    assert selected(talk) == (3, "Rain again")
    talk.driver.type("st")
    talk.driver.frames(6)
    assert find(talk).query == "rain against" and talk.ui.local(Selected).selection is None


def test_what_is_found_is_in_sight(talk):
    """The match is 80 paragraphs below the top of its message."""
    talk.driver.type("rain")
    step(talk)
    assert selected(talk) == (1, "rain")
    top, low = talk.ui.rects["message.1"][1], talk.ui.rects["message.1"][3]
    assert top < 0 < low < 1400, "its end is where one looks"


def test_what_is_not_there_is_said_and_changes_nothing(talk):
    talk.driver.type("no such words")
    step(talk)
    assert find(talk).at == -1 and talk.ui.local(Selected).selection is None


def test_the_bar_goes_and_the_input_has_the_keys(talk):
    talk.driver.type("비")
    talk.driver.frames(6)
    assert selected(talk) == (3, "비")
    talk.driver.press(KEY.escape)
    assert talk.ui.local(FindBar).find is None and talk.ui.local(Selected).selection is None
    talk.driver.type("next")
    assert talk.state.draft == "next"


def test_an_answer_that_goes_on_is_searched_again(talk):
    talk.driver.type("rain")
    grown = replace(MESSAGES[-1], text=MESSAGES[-1].text + " More rain.")
    talk.program.state = replace(talk.state, tree=ConversationTree((*MESSAGES[:-1], grown)))
    assert len(find(talk).places(talk.state)) == 4
