"""Questions of the window: an answer is drawn only of what is in front."""

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    NO_CHANGES,
    CacheStatus,
    Cancel,
    CompareAnswer,
    ConversationRead,
    CountTokens,
    EffectRead,
    Ended,
    Generate,
    Inspect,
    LensResult,
    MeasureCache,
    PrefillProgress,
    PromptToken,
    Read,
    ReadEffect,
    ReadRouting,
    TokensCounted,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import ReadAgain, SetAttention
from llm_lite.desktop.features.cache import unread
from llm_lite.desktop.features.cache.model import MEASURE
from llm_lite.desktop.features.chat.model import SetSystemPrompt
from llm_lite.desktop.features.chat.reading import seconds_to_read, tokens_in_front
from llm_lite.desktop.features.experts.model import ROUTING
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.cached_text import CachedText, decoded, plain
from llm_lite.desktop.features.program.state import AnswerComparison, AppState, Load, Message
from llm_lite.desktop.features.steer.model import DIVERGENCE, Steer
from llm_lite.desktop.features.steer.view import EFFECT
from llm_lite.desktop.features.tokens.lens import LENS
from tests.changes import scales
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL

TALK = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
STATE = with_cached(
    AppState(model=MODEL, executor=EXECUTOR, tree=ConversationTree(TALK)),
    ("<s>", "Hello", "Hi", "!"),
    (-1, 0, 1, 1),
)
CHANGES = scales(((0.5,) * MODEL.heads,) * MODEL.layers)


def settled(state, ids=None):
    """After the conversation was counted; `ids` as it is now."""
    state, commands = due(state)
    for command in commands:
        if isinstance(command, CountTokens):
            found = TokensCounted(conversation=len(ids or ()), ids=ids)
            state = apply(found, state, 0.0, command)
            state = replace(state, count=replace(state.count, asked=None))
    return due(state)[0]


def test_computations_are_never_numbered_twice():
    text = plain(CachedText(), ("a", "b"), (-3, -3), 2)
    assert text.of_next_model().computed == text.computed == 2
    grown = plain(text, ("a", "b", "c"), (-3,) * 3, 3, kept=2)
    assert (grown.runs, grown.computed) == (((0, 0), (2, 2)), 3), "what was there keeps its number"
    other = plain(grown, ("a", "x"), (-3, -3), 2, kept=1)
    assert other.runs == ((0, 0), (1, 3))


def test_another_system_prompt_shows_what_is_the_same():
    state, _ = act(SetSystemPrompt("Speak only French."), STATE, 0.0)
    assert state.owners == (), "until it is counted, nothing is known"
    state = settled(state, ids=(0, 7, 8, 9))
    assert state.positions == ("<s>",) and unread.unread_part(state).held == 1
    back, _ = act(SetSystemPrompt(""), state, 0.0)
    assert back.in_front is back.cached, "it is all there, and nothing is read"


def test_the_count_of_another_version_is_not_told():
    """While a model loads nobody counts."""
    state = settled(STATE, ids=(0, 1, 2, 3))
    assert tokens_in_front(state) == 4
    loading = replace(state, load=Load("/other.gguf"))
    ask_less = replace(loading, tree=loading.tree.with_path(TALK[:1]))
    assert tokens_in_front(due(ask_less)[0]) is None
    assert tokens_in_front(act(SetSystemPrompt("B"), loading, 0.0)[0]) is None


def test_a_selected_token_stays_while_its_text_is_counted():
    state, _ = act(SetAttention(replace(STATE.attention, row=2)), STATE, 0.0)
    typed, _ = act(SetSystemPrompt("B"), state, 0.0)
    typed, _ = due(typed)
    back, _ = due(act(SetSystemPrompt(""), typed, 0.0)[0])
    assert back.attention.row == 2
    other = settled(act(SetSystemPrompt("B"), state, 0.0)[0], ids=(0, 7, 8, 9))
    assert other.attention.row is None


def test_nothing_of_all_tokens_is_asked_where_the_cache_has_more():
    """A view says so, and reading the conversation again ends it."""
    more = replace(STATE, cached=decoded(STATE.cached, [(9, " there")], 2, 5))
    assert more.in_front.used == 4 and unread.unread_part(more).more == 1
    assert "1 tokens" in unread.words(unread.unread_part(more))
    assert ROUTING.wanted(more, ReadRouting(0)) == []
    assert MEASURE.wanted(more, MeasureCache("received", 0, 4)) == []
    assert LENS.wanted(more, Inspect(3)) != []


def test_a_reading_ends_when_its_prompt_is_made_otherwise():
    state, (read,) = act(ReadAgain(), STATE, 0.0)
    assert isinstance(read, Read) and due(state)[0].reading is not None
    state, _ = act(SetSystemPrompt("Be brief."), state, 0.0)
    state, commands = due(state)
    assert state.reading is None and Cancel(read) in commands


def test_gains_that_are_moved_change_nothing_about_two_answers():
    answer = replace(TALK[1], id=5)
    state = replace(STATE, tree=STATE.tree.with_path((TALK[0], answer)))
    state = replace(state, compared=AnswerComparison(TALK[1].id, 5))
    question = CompareAnswer(Generate(()), (1,), (NO_CHANGES, CHANGES))
    state = with_answer(state, DIVERGENCE, question, "nats")
    state, _ = act(Steer(CHANGES), state, 0.0)
    assert DIVERGENCE.answer(state) == "nats"


def test_an_answer_that_came_for_another_text_is_not_drawn():
    (asks,) = LENS.wanted(STATE, Inspect(3))
    state, (command,) = act(asks, STATE, 0.0)
    state = apply(CacheStatus(2, 8192, 0, 0, 0, (), 0), state, 0.0)
    state = apply(LensResult(3, ()), state, 0.0, command)
    assert LENS.answer(state) is None and LENS.waiting(state) is None


def asked_effect():
    state, (question,) = act(EFFECT.wanted(STATE, ReadEffect())[0], STATE, 0.0)
    return apply(EffectRead(0.5), state, 0.0, question), question


def test_an_answer_is_drawn_once_it_is_known_of_which_tokens_it_is():
    state, question = asked_effect()
    assert EFFECT.answer(state) is None
    state = apply(Ended(of_tokens=(0, 1, 2, 3)), state, 0.0, question)
    assert EFFECT.answer(state) == EffectRead(0.5)


@pytest.mark.parametrize(
    ("tokens", "used", "unknown"), [((0, 1, 2, 3, 9), 4, 1), ((0, 1, 8), 2, 1), ((0, 1), 2, 0)]
)
def test_the_tokens_of_an_answer_correct_what_the_window_knew_of_the_cache(tokens, used, unknown):
    """An answer that was left goes on until the engine has stopped it."""
    state, question = asked_effect()
    state = apply(Ended(of_tokens=tokens), state, 0.0, question)
    assert EFFECT.answered(state) is None and EFFECT.waiting(state) is None
    assert (state.cached.used, state.cached.unknown) == (used, unknown)
    again = EFFECT.wanted(state, ReadEffect())
    assert not again or not unknown, "it would be of more than is in front"
    assert unread.unread_part(state) is not None


def test_a_question_about_first_tokens_is_answered_whatever_follows_them():
    (asks,) = LENS.wanted(STATE, Inspect(1))
    state, (question,) = act(asks, STATE, 0.0)
    state = apply(LensResult(1, ()), state, 0.0, question)
    same = apply(Ended(of_tokens=(0, 1, 7)), state, 0.0, question)
    assert LENS.answer(same) == LensResult(1, ())
    other = apply(Ended(of_tokens=(0, 7, 2, 3)), state, 0.0, question)
    assert LENS.answered(other) is None


def test_a_prompt_that_was_read_in_part_is_unread():
    """Each of its messages may have a token in the cache."""
    asked = replace(STATE, tree=ConversationTree(TALK[:1]))
    asked = with_cached(asked, ("<s>", "Hel", "lo", "<e>", "<s>"), (-1, 0, 0, -1, -1))
    assert unread.unread_part(asked) is None
    part = apply(CacheStatus(2, 8192, 0, 0, 0, (), 0), asked, 0.0)
    assert part.positions == ("<s>", "Hel") and unread.unread_part(part).held == 2
    written = apply(CacheStatus(4, 8192, 0, 0, 0, (), 0), asked, 0.0)
    assert unread.unread_part(written) is None, "the last token is never computed"


def test_a_cache_that_goes_on_with_an_answer_that_was_left_is_longer():
    state = apply(CacheStatus(6, 8192, 0, 0, 0, (), 0), STATE, 0.0)
    assert (state.cached.used, state.cached.unknown) == (4, 2)
    assert unread.unread_part(state).more == 2 and ROUTING.wanted(state, ReadRouting(0)) == []


def test_a_short_conversation_is_read_by_the_speed_of_the_last_reading():
    state, (read,) = act(ReadAgain(), STATE, 0.0)
    assert seconds_to_read(state, 100) == 0.0, "nothing is known"
    state = apply(PrefillProgress(0, 40), state, 1.0, read)
    prompt = tuple(PromptToken(n, "x", 0) for n in range(40))
    state = apply(ConversationRead(prompt), state, 1.4, read)
    assert round(seconds_to_read(state, 100), 6) == 1.0
    other = replace(state, executor=replace(EXECUTOR, mode="int4"))
    assert seconds_to_read(other, 100) == 0.0, "it was of other weights"


def test_the_template_of_an_empty_answer_is_not_that_of_another():
    talk = (TALK[0], Message("assistant", ""), Message("user", "So?"))
    state = replace(STATE, tree=ConversationTree(talk))
    texts, owners = ("<s>", "Hello", "<e>", "<s>", "<e>", "<s>", "So?"), (-1, 0, -1, -1, -1, -1, 2)
    state = with_cached(state, texts, owners)
    assert state.positions == texts
    edited = replace(state, tree=state.tree.with_path((TALK[0], Message("assistant", "Hm"))))
    assert edited.positions == ("<s>", "Hello")
