"""Looking inside and steering as state, actions and events: no engine, no window."""

import math
from types import SimpleNamespace

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    NO_CHANGES,
    Alternative,
    AnswerDivergence,
    AttentionRows,
    Cancel,
    ChatMessage,
    CompareAnswer,
    ConversationRead,
    EffectRead,
    Ended,
    Generate,
    GenerationFinished,
    GenerationStarted,
    Inspect,
    LensResult,
    LensRow,
    ModelLoaded,
    PrefillProgress,
    PromptToken,
    Read,
    ReadAttentionRows,
    ReadEffect,
    SetInterventions,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention import model as inspecting
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import (
    NOTHING_LOCKED,
    ROWS,
    ask_pointed,
    pointed_rows,
)
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.cache.unread import unread_part
from llm_lite.desktop.features.chat.model import EditMessage, NewChat, Regenerate, Send
from llm_lite.desktop.features.program.asking import Ask
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.steer import model as steering
from llm_lite.desktop.features.steer.view import EFFECT
from llm_lite.desktop.features.tokens import model as looking
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.state import SYSTEM, TEMPLATE, XRay, unread
from llm_lite.desktop.features.tree import model as forking
from llm_lite.desktop.features.tree import model as switching
from tests.changes import weighed
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.other_versions import others
from tests.desktop.program.test_state import READY, STATS, asked, play

OTHER = Alternative(9, " other", 0.2)
BEST = (Alternative(11, "one", 0.5), OTHER)
PROMPT = tuple(PromptToken(n, t, o) for n, (t, o) in enumerate([("<s>", -1), ("hi", 0)]))
ABLATED = weighed(((0.0, *(1.0,) * 8), *((1.0,) * 9,) * 29), MODEL)
IDS = (11, 12, 13)
WHOLE = (
    GenerationStarted(2, 0, PROMPT),
    TokenDecoded(14, "other", 0.5, 3),
    GenerationFinished("end", STATS),
)


def answered(state=None):
    """ "hi", and an answer of three tokens."""
    state = state or asked(text="hi")
    return play(
        state,
        GenerationStarted(2, 0, PROMPT),
        TokenDecoded(11, "one", 0.5, 3, BEST),
        TokenDecoded(12, " two", 0.25, 4, BEST),
        TokenDecoded(13, "", 0.9, 5, BEST),
        GenerationFinished("end", replace(STATS, context_used=5)),
    )[0]


def texts(state):
    return [m.text for m in state.messages]


def test_positions_know_their_messages():
    state = answered()
    assert state.owners == (TEMPLATE, 0, 1, 1, 1)
    assert state.positions == ("<s>", "hi", "one", " two", "")
    assert state.messages[1].tokens[0].alternatives == BEST
    told = asked(replace(READY, system_prompt="Be kind."), "hi")
    prompt = (PromptToken(1, "kind", 0), PromptToken(2, "hi", 1))
    state, _ = play(told, GenerationStarted(2, 0, prompt))
    assert state.owners == (SYSTEM, 0)


def test_what_is_said_anew_has_no_positions_until_it_is_read():
    state = answered()
    assert play(state, Regenerate())[0].owners == (TEMPLATE, 0)
    assert play(state, EditMessage(0), Send("ho"))[0].owners == (TEMPLATE,)
    assert play(state, Send("more"))[0].owners == state.owners
    assert play(state, NewChat())[0].owners == ()
    assert play(state, ModelLoaded(MODEL, EXECUTOR, 1.0))[0].owners == ()


def pointing_at(position):
    """The pointer is at a token: the state, and what is asked about it."""
    state, _ = play(answered(), looking.SetXRay(XRay(True, at=position)))
    state, (asked,) = play(state, *ask_pointed(state))
    return state, asked


@pytest.mark.parametrize(
    ("xray", "look"),
    [
        (XRay(True, "layer", 7, 2, at=3), ("from", "layer-mean", (), 7)),
        (XRay(True, "head", 7, 2, at=3), ("from", "heads", ((7, 2),), 7)),
        (XRay(True, "locked", 7, 2, at=3), ("from", "heads", ((4, 1), (5, 0)), 7)),
        (XRay(True, "rollout", 7, 2, at=3), ("from", "rollout", (), 7)),
        (XRay(True, "layer", 7, 2, reverse=True, at=3), ("to", "layer-mean", (), 7)),
        (XRay(True, "layer", 7, 2, flipped=True, at=3), ("to", "layer-mean", (), 7)),
        (XRay(True, "layer", 7, 2, True, flipped=True, at=3), ("from", "layer-mean", (), 7)),
    ],
)
def test_pointing_at_a_token_asks_where_it_looks(xray, look):
    state = replace(answered(), attention=AttentionChoice(((4, 1), (5, 0)), exclude_first=True))
    state, _ = play(state, looking.SetXRay(xray))
    state, commands = play(state, *ask_pointed(state))
    assert commands == [ReadAttentionRows(3, *look, without_first=True)]
    assert ask_pointed(state) == [], "one question at a time"
    rows, other = AttentionRows(3, look[0], (0.5, 0.5)), AttentionRows(3, "from", (1.0,))
    before = replace(commands[0], layer=5)
    state, _ = play(state, (other, before), (rows, commands[0]), (other, before))
    assert pointed_rows(state) is None, "of how many tokens it is, its end says"
    state, _ = play(state, (Ended(of_tokens=state.cached.ids), commands[0]))
    assert pointed_rows(state) == rows, "an answer that nobody waits for is dropped"
    assert ask_pointed(state) == []
    state, _ = play(state, looking.SetXRay(replace(xray, at=None)))
    assert (pointed_rows(state), ask_pointed(state)) == (None, [])


def test_a_late_answer_is_not_shown_once_the_pointer_has_left():
    state, asked = pointing_at(3)
    state, _ = play(state, looking.SetXRay(XRay(True)))
    state, _ = play(state, (AttentionRows(3, "from", (1.0,)), asked), (Ended(), asked))
    assert pointed_rows(state) is None


def test_why_there_are_no_rows_is_shown():
    state, asked = pointing_at(3)
    state, _ = play(state, (Ended("no queries are kept"), asked))
    assert (pointed_rows(state).note, ROWS.waiting(state)) == ("no queries are kept", None)
    assert ask_pointed(state) == [], "nor is it asked again and again"


def test_locked_heads_need_heads_that_are_locked():
    state, _ = play(answered(), looking.SetXRay(XRay(True, "locked", at=2)))
    assert (ask_pointed(state), pointed_rows(state).note) == ([], NOTHING_LOCKED)
    state, _ = play(state, SetAttention(AttentionChoice(((4, 1),))))
    assert play(state, *ask_pointed(state))[1] == [ReadAttentionRows(2, "from", "heads", ((4, 1),))]


def test_continue_from_another_choice_keeps_the_old_answer():
    before = answered()
    state, (command,) = play(before, forking.ContinueFrom(1, 1, OTHER))
    assert isinstance(command, Generate)
    assert (command.forced, command.messages) == ((11, 9), (ChatMessage("user", "hi"),))
    assert texts(state) == ["hi", ""]
    state, _ = play(
        state,
        GenerationStarted(2, 0, PROMPT),
        TokenDecoded(11, "one", math.nan, 3),
        TokenDecoded(9, " other", 0.2, 4, BEST),
        TokenDecoded(14, " end", 0.7, 5, BEST),
        GenerationFinished("end", STATS),
    )
    tokens = state.messages[1].tokens
    assert [(t.id, t.probability) for t in tokens] == [(11, 0.5), (9, 0.2), (14, 0.7)]
    assert tokens[0].alternatives == BEST, "as it was judged before"
    assert state.tree.version(1) == 1
    back, commands = play(state, switching.SwitchVersion(1, 0))
    assert (texts(back), commands) == (["hi", "one two"], [])
    assert back.messages[1].tokens == before.messages[1].tokens
    assert back.owners == (TEMPLATE, 0), "the cache holds the other one"
    forth = play(back, switching.SwitchVersion(1, 1))[0]
    assert texts(forth) == ["hi", "one other end"]
    assert forth.owners == state.owners, "which is in front again"
    assert back.tree.versions(1) == state.tree.versions(1)


def other_version():
    """The first answer shown, the second in the cache."""
    state, _ = play(
        answered(),
        forking.ContinueFrom(1, 1, OTHER),
        GenerationStarted(2, 0, PROMPT),
        TokenDecoded(9, "other", 0.5, 3),
        GenerationFinished("end", STATS),
    )
    return play(state, switching.SwitchVersion(1, 0))[0]


def test_a_version_is_read_again():
    before = other_version()
    assert unread(before.owners, [True, True]) and not unread(answered().owners, [True, True])
    state, (command,) = play(before, inspecting.ReadAgain(), inspecting.ReadAgain())
    assert command == Read(
        (ChatMessage("user", "hi"), ChatMessage("assistant", "one two", IDS)), afresh=True
    )
    state, _ = play(state, PrefillProgress(1, 4))
    assert (state.reading.done, state.reading.total, state.busy) == (1, 4, False)
    words = (PromptToken(1, "<s>", -1), PromptToken(2, "hi", 0), PromptToken(11, "one", 1))
    other = replace(command)  # it asks for the same, and was given before
    state, _ = play(state, (ConversationRead(()), other), ConversationRead(words))
    assert (state.reading, state.owners, state.context_used) == (None, (TEMPLATE, 0, 1), 3)
    assert state.positions == ("<s>", "hi", "one")
    assert texts(state) == ["hi", "one two"]


def test_a_reading_that_is_stopped_before_any_progress_says_what_is_unread():
    """Its last tokens are the template's: no message lacks one."""
    state, _ = play(other_version(), inspecting.ReadAgain())
    words = (PromptToken(1, "<s>", -1), PromptToken(2, "hi", 0), PromptToken(11, "one", 1))
    whole, _ = play(state, ConversationRead(words, 3))
    assert not whole.in_front.is_cut and unread_part(whole) is None
    part, _ = play(state, ConversationRead(words, 5))
    assert part.in_front.is_cut and unread_part(part).held == 3


@pytest.mark.parametrize(
    "action",
    [
        Send("more"),
        Regenerate(),
        NewChat(),
        switching.SwitchVersion(1, 1),
        OpenModel("x"),
    ],
)
def test_reading_gives_way_to_what_is_wanted_next(action):
    state, (read,) = play(other_version(), inspecting.ReadAgain())
    state, commands = play(state, action)
    assert state.reading is None
    assert isinstance(commands[0], Cancel) and commands[0].command is read
    late = play(state, (ConversationRead((PromptToken(1, "<s>", -1),)), read))[0]
    assert late.owners == state.owners


def test_reading_that_fails_is_told():
    state, (read,) = play(other_version(), inspecting.ReadAgain())
    state, _ = play(state, (Ended("the context is small"), read))
    assert state.reading is None and "context is small" in state.notices[-1].text
    busy, _ = play(answered(), Send("more"), inspecting.ReadAgain())
    assert busy.reading is None and "is being written" in busy.notices[-1].text


def test_what_followed_goes_and_comes_with_its_version():
    state = answered(play(answered(), Send("more"))[0])
    assert texts(state) == ["hi", "one two", "more", "one two"]
    state, _ = play(state, forking.ContinueFrom(1, 0, OTHER), GenerationFinished("end", STATS))
    assert texts(state) == ["hi", ""]
    state, _ = play(state, switching.SwitchVersion(1, 0))
    assert texts(state) == ["hi", "one two", "more", "one two"]


def test_answering_again_keeps_the_answer():
    state, _ = play(answered(), Regenerate())
    assert [one.text for one in others(state, 1)] == ["one two"]
    assert others(state, 1)[0].sampling.seed != state.messages[1].sampling.seed


@pytest.mark.parametrize(
    "action",
    [
        forking.ContinueFrom(1, 1, OTHER),
        switching.SwitchVersion(1, 0),
        steering.AnswerSteered(),
        Regenerate(),
    ],
)
def test_nothing_is_changed_under_an_answer_that_is_being_written(action):
    state = play(answered(), steering.Steer(ABLATED), Regenerate())[0]
    after, commands = play(state, action)
    assert (commands, after.messages) == ([], state.messages)
    assert "being written" in after.notices[-1].text


def test_gains_are_told_at_once_and_their_effect_is_asked_one_at_a_time():
    half = weighed((((0.5,) * 9), *((1.0,) * 9,) * 29), MODEL)
    state, commands = play(answered(), steering.Steer(half), steering.Steer(ABLATED))
    assert commands == [SetInterventions(half), SetInterventions(ABLATED)]
    asks = EFFECT.wanted(state, ReadEffect())
    state, (first,) = play(state, *asks)
    assert EFFECT.wanted(state, ReadEffect()) == [], "one at a time"
    state, _ = play(state, (EffectRead(0.5), first), (Ended(), first))
    assert EFFECT.answer(state).kl == 0.5 and EFFECT.wanted(state, ReadEffect()) == []
    state, _ = play(state, steering.Steer(half))
    assert EFFECT.answer(state) is None, "it is of other interventions"
    state, (second,) = play(state, *EFFECT.wanted(state, ReadEffect()))
    state, _ = play(state, (EffectRead(9.0), first), (EffectRead(0.75), second))
    state, _ = play(state, (Ended(), second))
    assert EFFECT.answer(state).kl == 0.75
    state, commands = play(state, (Ended(), second), steering.Steer(NO_CHANGES))
    assert commands == [SetInterventions(NO_CHANGES)] and EFFECT.answer(state) is None
    assert play(state, steering.Steer(NO_CHANGES))[0].steering.interventions == NO_CHANGES


def test_another_model_begins_unsteered():
    other = replace(MODEL, path="/models/other.gguf")
    steered, _ = play(answered(), steering.Steer(ABLATED))
    state, commands = play(steered, ModelLoaded(other, EXECUTOR, 1.0))
    assert state.steering.interventions == NO_CHANGES
    assert not [command for command in commands if isinstance(command, SetInterventions)]


def test_the_conversations_gains_come_back_with_their_model():
    other = replace(MODEL, path="/models/other.gguf")
    state, commands = play(
        answered(),
        steering.Steer(ABLATED),
        ModelLoaded(other, EXECUTOR, 1.0),
        ModelLoaded(MODEL, EXECUTOR, 1.0),
    )
    assert state.steering.interventions == ABLATED
    told = [c.interventions for c in commands if isinstance(c, SetInterventions)]
    assert told == [ABLATED] * 2


def test_the_steered_answer_has_the_random_numbers_of_the_first():
    state, commands = play(answered(), steering.AnswerSteered())
    assert commands == [], "there is nothing to compare without gains"
    state, commands = play(state, steering.Steer(ABLATED), steering.AnswerSteered())
    command = commands[-1]
    assert (command.interventions, command.messages) == (ABLATED, (ChatMessage("user", "hi"),))
    assert command.sampling == others(state, 1)[0].sampling
    assert command.sampling.seed is not None
    assert state.comparing.base == others(state, 1)[0].id
    state, _ = play(state, GenerationFinished("end", STATS), steering.AnswerSteered())
    assert state.comparing.base == others(state, 1)[0].id, "still beside the first"
    assert len(others(state, 1)) == 2
    assert (
        play(state, GenerationFinished("end", STATS), steering.EndComparison())[0].comparing is None
    )


def test_two_answers_are_compared_over_all_that_the_first_says():
    """Once the second is whole; what the engine says of another comparison is nothing to this."""
    first = answered()
    state, commands = play(first, steering.Steer(ABLATED), steering.AnswerSteered())
    assert not [c for c in commands if isinstance(c, CompareAnswer)]
    state, commands = play(state, *WHOLE)
    (asked,) = [c for c in commands if isinstance(c, CompareAnswer)]
    assert asked.asked.messages == (ChatMessage("user", "hi"),)
    assert asked.tokens == tuple(token.id for token in first.messages[1].tokens) != ()
    assert (
        asked.interventions == (NO_CHANGES, ABLATED) and steering.DIVERGENCE.answered(state) is None
    )
    assert play(state, (AnswerDivergence((9.0,)), replace(asked, tokens=())))[0] == state
    state, commands = play(state, (AnswerDivergence((0.5, 1.5)), asked), (Ended(), asked))
    assert steering.DIVERGENCE.answer(state).kl == (0.5, 1.5) and commands == []
    left, commands = play(state, steering.EndComparison())
    assert left.comparing is None and commands == []


def test_a_comparison_that_a_person_leaves_is_stopped():
    state, _ = play(answered(), steering.Steer(ABLATED), steering.AnswerSteered())
    state, commands = play(state, *WHOLE)
    (asked,) = [c for c in commands if isinstance(c, CompareAnswer)]
    for action in (steering.EndComparison(), Send("Next?")):
        left, commands = play(state, action)
        assert Cancel(asked) in commands and left.comparing is None
    failed, commands = play(state, (Ended("stopped"), asked))
    assert steering.DIVERGENCE.answer(failed) is None and commands == []
    assert steering.DIVERGENCE.problem(failed) == "stopped"


def test_queries_of_a_comparison_that_runs_are_not_missed():
    """Nor while the engine reads again what its cache held, behind one that a person has left."""
    maps = SimpleNamespace(problem="", layers=(0,), rows=range(2, 4), length=4, ring_rows=64)
    state, _ = play(answered(), steering.Steer(ABLATED), steering.AnswerSteered())
    state, commands = play(state, *WHOLE)
    (asked,) = [c for c in commands if isinstance(c, CompareAnswer)]
    left, _ = play(state, steering.EndComparison())
    assert unread_part(state, maps) is None and unread_part(left, maps) is None
    left, _ = play(left, (Ended("it was stopped", unwanted=True), asked))
    assert unread_part(left, maps).queries == 2


def test_the_lens_asks_and_takes_its_own_answer():
    state, commands = play(answered(), Ask(LENS, Inspect(3)))
    assert commands == [Inspect(3)]
    (asked,), result = commands, LensResult(3, (LensRow(0, ()),))
    state, _ = play(state, (LensResult(3, ()), Inspect(3)), (result, asked), (Ended(), asked))
    assert (LENS.answer(state), LENS.waiting(state), LENS.problem(state)) == (result, None, "")


def test_rows_that_give_way_to_others_show_no_problem():
    state, asked = pointing_at(3)
    state, _ = play(state, (Ended("a newer request has taken its place", unwanted=True), asked))
    assert pointed_rows(state) is None and ask_pointed(state) != [], "it is asked again"


def test_why_there_is_no_lens_is_shown():
    state, (asked,) = play(answered(), Ask(LENS, Inspect(3)))
    state, _ = play(state, (Ended("there is no such position"), asked))
    assert (LENS.waiting(state), LENS.problem(state)) == (None, "there is no such position")


def test_an_answer_that_said_nothing_is_not_kept():
    state = replace(READY, tree=ConversationTree((Message("user", "hi"), Message("assistant", ""))))
    assert others(play(state, Regenerate())[0], 1) == []
