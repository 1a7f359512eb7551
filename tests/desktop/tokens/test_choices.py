"""The tree of choices of an answer that kept to a grammar, through ImGui's input queue."""

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import AllowedTokens, Alternative, Generate, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import Message, Token
from llm_lite.desktop.features.tokens.choices import has_choices, rows_of
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.headless import READY, sent
from tests.desktop.other_versions import has_versions


def one_way(number, text):
    only = AllowedTokens(1, 0.5, (Alternative(number, text, 0.5),))
    return Token(number, text, 0.5, (), only)


def chosen(number, text, *others, count=9):
    best = (Alternative(number, text, 0.4), *others)
    return Token(number, text, 0.4, best, AllowedTokens(count, 0.75, best))


RED = Alternative(77, "red", 0.25)
TOKENS = (one_way(1, '{"'), one_way(2, 'color":"'), chosen(3, "blue", RED), one_way(4, '"}'))
ANSWER = Message("assistant", '{"color":"blue"}', TOKENS, stop_reason="end")


def test_what_had_to_come_is_one_row():
    rows = rows_of(TOKENS)
    assert [row.text for row in rows] == ['{"color":"', "blue", '"}']
    assert [row.token is not None for row in rows] == [False, True, False]
    assert rows[1].place == 2


def test_a_free_answer_has_no_tree():
    assert not has_choices(Message("assistant", "Hello", (Token(1, "Hello", 0.5),)))
    assert has_choices(ANSWER)


@pytest.fixture
def talk(headless):
    question = Message("user", "A colour, as JSON")
    one = headless(replace(READY, tree=ConversationTree((question, ANSWER))), size=(1400, 900))
    one.program.start(ScriptedEngine(0.0))
    return one


def test_another_branch_is_taken(talk):
    talk.driver.click("message.1.choices")
    name = f"tokens.choices.1.{RED.token}"
    assert talk.driver.shows(name)
    talk.driver.click(name)
    (command,) = sent(talk.program.engine, Generate)
    assert command.forced == (1, 2, RED.token)
    assert has_versions(talk.state, 1), "what was there stays beside it"


def test_an_answer_that_was_free_has_no_such_button(talk):
    free = replace(ANSWER, tokens=(Token(1, "Hello", 0.5),))
    talk.program.state = replace(talk.state, tree=ConversationTree((talk.state.messages[0], free)))
    talk.driver.frames(2)
    assert not talk.driver.shows("message.1.choices")


def test_an_answer_of_a_schema_is_laid_out_as_code():
    of_schema = replace(ANSWER, sampling=SamplingOptions(json_schema="{}"))
    assert of_schema.markdown == '```json\n{"color":"blue"}'
    assert ANSWER.markdown == ANSWER.text
    fenced = replace(of_schema, text='{"a": "```"}')
    assert fenced.markdown == fenced.text
