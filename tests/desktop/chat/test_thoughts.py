"""Thoughts in the chat: a line that unfolds, by click or key; two lines while they come."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import Generate, ModelInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import SetThinking, UnfoldThought
from llm_lite.desktop.features.chat.state import Thought
from tests.desktop.cache_view import say
from tests.desktop.engine.answers import ANSWER, THINK, THOUGHT
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY, sent

ASKED = f"{THINK}why is the sky blue?"
KEY = imgui.Key


@pytest.fixture
def thoughtful(headless):
    one = headless()
    one.program.start(ScriptedEngine(0.0))
    say(one, ASKED)
    return one


def tall(one, name="message.1"):
    _, y0, _, y1 = one.driver.rect(name)
    return y1 - y0


def to_top(one):
    one.driver.point("view.chat")
    one.driver.wheel(60.0)
    one.driver.frames(3)


def test_thoughts_are_folded_and_unfold_by_click_and_key(thoughtful):
    one = thoughtful
    answer = one.state.messages[-1]
    assert (answer.text, answer.thought.text) == (ANSWER, THOUGHT)
    to_top(one)
    folded = tall(one)
    one.ui.rects.pop("message.1.thoughts", None)
    one.driver.frames(2)
    assert not one.driver.shows("message.1.thoughts")
    one.driver.click("message.1.thought")
    one.driver.frames(2)
    assert one.did(UnfoldThought) == [UnfoldThought(1, True)]
    unfolded = tall(one)
    assert unfolded > folded + 3 * one.ui.theme.line
    assert tall(one, "message.1.thoughts") > 3 * one.ui.theme.line
    one.driver.press(KEY.mod_ctrl, KEY.t)
    one.driver.frames(2)
    assert not one.state.messages[1].thought.unfolded
    assert tall(one) == pytest.approx(folded)
    one.driver.press(KEY.mod_ctrl, KEY.t)
    one.driver.frames(2)
    assert tall(one) == pytest.approx(unfolded)


def test_copies_are_without_thoughts(thoughtful):
    one = thoughtful
    one.driver.click("message.1.copy")
    assert imgui.get_clipboard_text() == ANSWER
    imgui.set_clipboard_text("")
    one.driver.press(KEY.mod_ctrl, KEY.mod_shift, KEY.c)
    assert imgui.get_clipboard_text() == ANSWER


def test_the_next_turn_tells_thoughts_apart(thoughtful):
    one = thoughtful
    say(one, "And the sea?")
    told = sent(one.program.engine, Generate)[-1].messages[-2]
    assert (told.content, told.thought) == (ANSWER, THOUGHT)
    assert one.state.messages[-1].thought is None
    one.driver.press(KEY.mod_ctrl, KEY.t)
    assert one.state.messages[1].thought.unfolded, "the newest that there are"


def test_while_it_thinks_two_lines_are_shown(headless):
    one = headless()
    one.program.start(ScriptedEngine(steps_per_poll=1))
    one.driver.click("chat.input")
    one.driver.type(ASKED)
    one.driver.press(KEY.enter)
    heights = set()

    def thinking(state):
        last = state.messages[-1] if state.messages else None
        if last and last.thought and last.thought.going_on and one.driver.shows(live):
            heights.add(round(tall(one, live)))
        return bool(last and last.text)

    live = "message.1.thoughts"
    one.driver.wait("what is said", thinking, pace=0)
    line = round(one.ui.theme.line)
    assert heights == {line, 2 * line}
    one.driver.wait("the end", lambda s: not s.busy, pace=0)


def test_x_ray_shows_every_token_and_a_pointed_one_is_found(thoughtful):
    one = thoughtful
    one.driver.click("chat.xray")
    one.driver.frames(3)
    to_top(one)
    assert one.driver.shows("token.1.0"), "the first of its thoughts"
    one.driver.click("chat.xray")
    one.driver.frames(2)
    to_top(one)
    first = one.state.owners.index(1)
    tokens = [token.text for token in one.state.messages[1].tokens]
    said = next(n for n in range(len(tokens)) if "Sunl" in "".join(tokens[: n + 1]))
    for position, shown in ((first + said, True), (first + 1, False)):
        one.ui.rects.pop("chat.pointed", None)
        cache = replace(one.state.cache, pointed=position)
        one.program.state = replace(one.state, cache=cache)
        one.driver.frames(1)
        assert ("chat.pointed" in one.ui.rects) is shown


def test_x_ray_of_an_earlier_answer_shows_what_is_still_told(thoughtful):
    """Its thoughts are no longer in the cache."""
    one = thoughtful
    say(one, "And the sea?")
    own = [p for p, owner in enumerate(one.state.owners) if owner == 1]
    assert "".join(one.state.positions[p] for p in own) == ANSWER
    one.driver.click("chat.xray")
    one.driver.frames(3)
    to_top(one)
    assert any(name.startswith("token.1.") for name in one.ui.rects)
    assert not [n for n in one.state.notices if n.level == "error"]


@pytest.mark.parametrize("switches", [True, False])
def test_the_switch_is_shown_where_the_template_has_one(headless, switches):
    model: ModelInfo = replace(MODEL, switches_thinking=switches)
    one = headless(replace(READY, model=model))
    one.driver.click("rail.sampler")
    assert one.driver.shows("sampler.thinking") is switches
    if switches:
        one.driver.click("sampler.thinking")
        assert one.did(SetThinking) == [SetThinking(False)]
        assert not one.state.thinking


def test_an_answer_without_thoughts_has_no_line(headless):
    one = headless()
    one.program.start(ScriptedEngine(0.0))
    say(one, "Why is the sky blue?")
    assert not isinstance(one.state.messages[-1].thought, Thought)
    assert not one.driver.shows("message.1.thought")
