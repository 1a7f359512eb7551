"""How much a model is to think, where its template takes that."""

from __future__ import annotations

from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import CheckKept, CountTokens, Generate, Read
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.counting import count_due
from llm_lite.desktop.features.chat.model import Send, SetEffort
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.requests import read_again
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import Message
from tests.desktop.headless import READY

TAKES = replace(READY, model=replace(READY.model, template_variables=("reasoning_effort",)))
SAID = (Message("user", "Hi"), Message("assistant", "Hello.", stop_reason="end"))


def asked(state):
    """What is asked of the engine for an answer, to count, and to read again."""
    talk = replace(state, tree=ConversationTree(SAID))
    return (*act(Send("Why?"), state, 0.0)[1], *count_due(talk)[1], *read_again(talk)[1])


def test_the_effort_is_chosen_beside_the_switch_for_thoughts(headless):
    one = headless(TAKES, size=(1280, 1400))
    one.driver.click("rail.sampler")
    one.driver.frames(3)
    one.driver.click("sampler.effort.high")
    assert one.did(SetEffort) == [SetEffort("high")] and one.state.effort == "high"


def test_it_is_not_offered_where_no_template_takes_it(headless):
    one = headless(READY, size=(1280, 1400))
    one.driver.click("rail.sampler")
    one.driver.frames(3)
    assert not one.driver.shows("sampler.effort.high")
    kinds = [type(command) for command in asked(replace(READY, effort="low"))]
    assert kinds == [Generate, CountTokens, Read]
    assert all(command.values == {} for command in asked(replace(READY, effort="low")))


def test_all_that_makes_the_prompt_is_told_it():
    for command in asked(replace(TAKES, effort="low")):
        assert command.values == {"reasoning_effort": "low"}
    assert all(command.values == {} for command in asked(TAKES)), "as the template has it"
    assert CheckKept(1, "", ()).values == {}


def test_what_was_counted_with_another_effort_is_counted_again():
    talk = replace(TAKES, tree=ConversationTree(SAID))
    counted, _ = count_due(talk)
    counted = replace(counted, count=replace(counted.count, asked=None))
    assert count_due(counted)[1] == ()
    assert len(count_due(replace(counted, effort="high"))[1]) == 1


def test_it_is_kept():
    assert Settings().effort == ""
