"""A conversation that fills the context: it is said how long it is, and the ways on are there."""

from __future__ import annotations

import pytest

from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import TokensCounted
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.counting import count_due
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.cache.model import SetOverflow
from llm_lite.desktop.features.cache.overflow import _phrases, used_share
from llm_lite.desktop.features.chat.model import ContinueAnswer, Regenerate, Send
from llm_lite.desktop.features.chat.reading import tokens_words, too_long
from llm_lite.desktop.features.chat.too_long import larger_context
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.program.status_bar import _measures
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY

ASKED = Message("user", "Go on?")
WHOLE = Message("assistant", "Said.", stop_reason="end")
REFUSED = Message("assistant", "", stop_reason="error", problem="the prompt has ~250,000")
CUT = Message("assistant", "Said until", stop_reason="context")
SHORT = replace(MODEL, context=2048, trained_context=8192)
LARGE = replace(SHORT, context=4096)


def counted(state, tokens, about=False):
    """The state once the engine has counted its conversation."""
    state, (asked,) = count_due(state)
    return apply(TokensCounted(conversation=tokens, about=about), state, 0.0, asked)


def talk(*messages, tokens=249_113, about=True, model=MODEL):
    state = replace(READY, tree=ConversationTree(messages), model=model)
    return counted(state, tokens, about)


def test_a_conversation_that_came_too_long_is_told_in_tokens(headless):
    state = talk(ASKED, WHOLE)
    measures = {name: shown for name, shown, _ in _measures(state)}
    assert measures["context"] == f"~250,000 / {MODEL.context:,}"
    running = replace(state, count=replace(state.count, tokens=7168))
    assert tokens_words(running, 7000) == "7,000", "only what was estimated is said to be"
    assert _phrases(state, used_share(state))[0] == ("longer than the context", "too long")
    one = headless(state)
    assert one.driver.shows("chat.too_long") and not one.driver.shows("chat.too_long.larger")
    kept, commands = act(Send("And now?"), state, 0.0)
    assert commands == () and kept.draft == "And now?" and "fills the context" in (
        kept.notices[-1].text
    )  # fmt: skip


@pytest.mark.parametrize("overflow", ["rolling", "forget-middle"])
@pytest.mark.parametrize(
    ("last", "follows"),
    [(WHOLE, None), (REFUSED, Regenerate()), (CUT, ContinueAnswer())],
    ids=["whole", "refused", "cut"],
)
def test_a_way_is_chosen_where_the_person_stands(headless, overflow, last, follows):
    one = headless(talk(ASKED, last))
    one.driver.click(f"chat.too_long.{overflow}")
    one.driver.frames(2)
    assert one.state.overflow == overflow and not one.driver.shows("chat.too_long")
    chosen = [a for a in one.done if isinstance(a, SetOverflow | Regenerate | ContinueAnswer)]
    assert chosen == [SetOverflow(overflow), *([follows] if follows else [])]
    assert (one.state.running is not None) == (follows is not None)


def test_a_larger_context_is_offered_where_the_model_knows_one(headless):
    one = headless(talk(ASKED, CUT, tokens=2048, about=False, model=SHORT))
    one.driver.click("chat.too_long.larger")
    assert [action.options.context for action in one.did(SetOptions)] == [4096]
    state = talk(ASKED, WHOLE, tokens=3800, about=False, model=SHORT)
    assert [larger_context(state, n) for n in (2048, 3800, 7900, 8192)] == [4096, 8192, 8192, 0]


def test_nothing_is_said_where_an_answer_fits_or_something_is_forgotten():
    assert too_long(talk(ASKED, WHOLE, tokens=2047, about=False, model=SHORT)) is None
    full = talk(ASKED, WHOLE, tokens=2048, about=False, model=SHORT)
    assert too_long(full) == 2048
    assert too_long(talk(ASKED, CUT, tokens=2040, about=False, model=SHORT)) == 2048
    assert too_long(talk(ASKED, CUT, tokens=2040, about=False, model=LARGE)) is None, (
        "it was cut in a smaller context"
    )
    for changes in ({"overflow": "rolling"}, {"editing": 0}, {"model": replace(SHORT, context=0)}):
        assert too_long(replace(full, **changes)) is None
    assert too_long(replace(full, tree=ConversationTree())) is None


def test_what_is_longer_than_the_context_is_not_read_whole(headless):
    for tokens, reads in ((2049, 0), (2048, 1)):
        one = headless(talk(ASKED, WHOLE, tokens=tokens, about=False, model=SHORT))
        one.driver.click("tab.lens")
        one.driver.frames(2)
        one.driver.click("lens.read")
        assert len(one.did(ReadAgain)) == reads
