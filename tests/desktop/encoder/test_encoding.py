"""The page of an encoder: what is typed is encoded after a pause, sentences are compared, words are
put in; late answers are dropped."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import (
    CompareTexts,
    EncodeText,
    Ended,
    ExecutorChanged,
    SetInterventions,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.encoder.model import (
    ENCODED,
    SIMILARITIES,
    ChooseEncoding,
    PutWord,
    UndoWord,
)
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.steer.model import Steer
from llm_lite.desktop.features.tokens.view import legend
from tests.changes import weighed
from tests.desktop.engine.encoding import MASK, as_encoder, compared, encoded
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import Headless, sent

READY = AppState(model=as_encoder(MODEL), executor=EXECUTOR)


def choose(state, **changes):
    choice = replace(state.encoding, **changes)
    return act(ChooseEncoding(choice), state, 0.0)[0]


def answered(state):
    """The state with answers to all that is due, and what was asked."""
    state, asked = due(state)
    for command in asked:
        event = encoded(command) if isinstance(command, EncodeText) else compared(command)
        state = apply(event, state, 0.0, command)
        state = apply(Ended(), state, 0.0, command)
    return state, asked


def test_an_example_is_encoded_at_once_and_once():
    state, asked = answered(READY)
    assert [type(one) for one in asked] == [EncodeText]
    assert state.positions[0] == "[CLS]" and "animal" in state.positions
    assert due(state)[1] == ()


def test_nothing_is_encoded_while_a_person_types():
    state, _ = answered(READY)
    typing = choose(state, text="a new text", typing=True)
    assert due(typing)[1] == ()
    state, asked = answered(choose(typing, typing=False))
    assert [one.text for one in asked] == ["a new text"]


def test_a_late_answer_is_dropped():
    first, (one,) = due(choose(READY, text="first"))
    second, (other,) = due(choose(first, text="second"))
    late = apply(encoded(one), second, 0.0, one)
    assert late is second
    state = apply(encoded(other), late, 0.0, other)
    state = apply(Ended(), state, 0.0, other)
    assert state.positions == ("[CLS]", "second", "[SEP]")
    assert ENCODED.waiting(state) is None
    assert apply(Ended("late"), state, 0.0, other) == state


def test_gains_and_another_executor_have_it_encoded_again():
    state, _ = answered(READY)
    off = ((0.0,) * 12,) * 6
    state, commands = act(Steer(weighed(off, state.model)), state, 0.0)
    assert [type(one) for one in commands] == [SetInterventions], (
        "no effect on a next token is asked for"
    )
    state, asked = answered(state)
    assert len(asked) == 1
    state = apply(ExecutorChanged(replace(EXECUTOR, mode="int4"), state.model), state, 0.0)
    assert ENCODED.answer(state) is None, "it was of other weights"
    assert len(due(state)[1]) == 1


def test_pairs_are_compared_and_shown_together():
    state, asked = answered(choose(READY, mode="pairs", sentences=("a b", "", "c")))
    assert [one.texts for one in asked if isinstance(one, CompareTexts)] == [("a b", "c")]
    state, asked = answered(choose(state, pair=(0, 2)))
    assert [(one.text, one.pair) for one in asked] == [("a b", "c")]
    assert [t.segment for t in ENCODED.answer(state).tokens] == [0, 0, 0, 0, 1, 1]
    left = state.encoding.without(1)
    assert (left.sentences, left.pair) == (("a b", "c"), (0, 1))


def test_a_word_is_put_in_and_taken_back():
    text = f"the {MASK} sat on {MASK}"
    state, _ = answered(choose(READY, mode="fill", filled=text))
    assert [mask.position for mask in ENCODED.answer(state).masks] == [2, 5]
    state, _ = act(PutWord(1, "mats"), state, 0.0)
    assert state.encoding.filled == f"the {MASK} sat on mats"
    state, _ = answered(state)
    assert len(ENCODED.answer(state).masks) == 1
    state, _ = act(UndoWord(), state, 0.0)
    assert state.encoding.filled == text


def test_without_a_head_nothing_is_asked_for_fill():
    state = replace(READY, model=as_encoder(MODEL, mask_token=""))
    assert due(choose(state, mode="fill"))[1] == ()


def test_a_message_is_refused_with_a_sentence():
    state, commands = act(Send("Hello"), READY, 0.0)
    assert commands == () and "is an encoder" in state.notices[-1].text


@pytest.fixture
def app():
    engine = ScriptedEngine(0.0)
    one = Headless(READY)
    one.engine = engine
    one.program.start(engine)
    one.driver.wait("the text", lambda s: ENCODED.answer(s) is not None)
    yield one
    one.close()


def test_what_is_typed_is_encoded_and_a_token_is_held(app):
    driver = app.driver
    driver.click("encoding.text")
    driver.press(imgui.Key.mod_ctrl, imgui.Key.a)
    driver.type("one two three")
    driver.press(imgui.Key.enter)
    driver.wait("the text", lambda s: s.positions == ("[CLS]", "one", "two", "three", "[SEP]"))
    driver.click("encoding.token.2")
    assert app.state.attention.row == 2
    driver.wait("its look", lambda s: ROWS.answer(s) is not None)
    assert ROWS.answer(app.state).position == 2


def test_sentences_are_added_and_a_pair_is_chosen(app):
    driver = app.driver
    driver.click("encoding.mode.pairs")
    driver.wait("cosines", lambda s: SIMILARITIES.answer(s) is not None)
    driver.frames(2)
    driver.click("encoding.pair.2.0")
    assert app.state.encoding.pair == (2, 0)
    driver.click("encoding.add")
    driver.type("a fourth")
    driver.wait("four", lambda s: len(SIMILARITIES.answer(s).similarities) == 4)
    driver.click("encoding.remove.0")
    assert app.state.encoding.shown_sentences[-1] == "a fourth"


def test_nothing_moves_while_gains_are_dragged(app):
    """Similarities under other gains are on their way: what is below stays where it is."""
    driver = app.driver
    driver.click("encoding.mode.pairs")
    driver.wait("cosines", lambda s: SIMILARITIES.answer(s) and ENCODED.answer(s))
    driver.frames(2)
    top = app.ui.rects["encoding.count"][1]
    app.program.engine = None  # nobody answers
    model = app.state.model
    app.program.do(Steer(weighed(((0.5,) * model.heads,) * model.layers, model)))
    driver.frames(2)
    assert SIMILARITIES.answer(app.state) is None and SIMILARITIES.waiting(app.state)
    assert app.ui.rects["encoding.count"][1] == top


def test_a_candidate_is_clicked_and_a_mask_inserted(app):
    driver = app.driver
    driver.click("encoding.mode.fill")
    driver.wait("candidates", lambda s: ENCODED.answer(s) is not None and ENCODED.answer(s).masks)
    driver.frames(2)
    driver.click("encoding.word.0.0")
    assert app.state.encoding.filled == "Paris is the capital of France."
    driver.click("encoding.mask")
    assert MASK in app.state.encoding.filled
    driver.wait("another", lambda s: ENCODED.answer(s) is not None and ENCODED.answer(s).masks)


def test_views_of_what_is_written_say_why_they_are_empty(app):
    app.driver.click("tab.lens")
    assert "encoding.reason.lens" in app.ui.rects
    app.driver.click("rail.sampler")
    assert "encoding.reason.sampler" in app.ui.rects
    assert not sent(app.engine, SetInterventions)


@pytest.mark.parametrize("tint", ["drafts", "probabilities"])
def test_tints_of_answers_have_no_legend_here(headless, tint):
    """The switch may be on from a chat; texts of an encoder have neither."""
    one = headless(READY)
    xray = replace(one.state.xray, **{tint: True})
    assert legend(replace(READY, xray=xray), one.ui) is None
    assert legend(replace(AppState(model=MODEL, executor=EXECUTOR), xray=xray), one.ui) is not None
