"""A conversation that is one text, from what a person writes to what is kept of it; and how answers
are chosen where the model advises something."""

import pytest

from llm_lite.core.history import (
    ConversationSummary,
    ConversationTree,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.messages import Alternative, Generate, SamplingDefault, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app.settings import parse, remember, restore
from llm_lite.desktop.features.chat.model import (
    ContinueAnswer,
    EditMessage,
    NewChat,
    Regenerate,
    ResetSampling,
    Send,
    SetForm,
    SetSampling,
)
from llm_lite.desktop.features.history.host_recorder import in_chat
from llm_lite.desktop.features.presets.model import UsePreset, preset_of
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, Message, Token
from llm_lite.desktop.features.sampling.model import advice, sampler
from llm_lite.desktop.features.tree.model import ContinueFrom
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.other_versions import has_versions

BASE = AppState(model=replace(MODEL, has_chat_template=False), executor=EXECUTOR)
CHAT = AppState(model=MODEL, executor=EXECUTOR)


def asked(state, *actions):
    """The state behind them all, and what the last one asked the engine for."""
    commands = ()
    for action in actions:
        state, commands = act(action, state, 0.0)
        if action is not actions[-1]:
            state = ended(state)
    (command,) = [command for command in commands if isinstance(command, Generate)]
    assert state.running.asked is command
    return state, command


def ended(state):
    """The answer that was begun has come."""
    if not state.running:
        return state
    last = state.messages[-1]
    tokens = tuple(Token(n, f" w{n}", 0.5) for n in range(4))
    last = replace(last, text=" w0 w1 w2 w3", tokens=tokens, stop_reason="end")
    return replace(state, running=None, tree=ConversationTree((*state.messages[:-1], last)))


def roles(command):
    return [message.role for message in command.messages]


def test_a_base_model_is_given_the_text_as_it_was_typed():
    assert BASE.completes and not CHAT.completes and not AppState().completes
    state, command = asked(BASE, Send("Once upon a time,\n"))
    assert [(m.role, m.content) for m in command.messages] == [("text", "Once upon a time,\n")]
    assert command.tools == () and state.completes
    _, command = asked(BASE, Send("One"), Send(" two"))
    assert [m.content for m in command.messages] == ["One", " w0 w1 w2 w3", " two"]


def test_a_wish_holds_for_the_conversation_that_begins():
    state, command = asked(CHAT, SetForm("completion"), Send("Once"))
    assert roles(command) == ["text"]
    state, _ = act(NewChat(), ended(state), 0.0)
    assert not state.completes
    _, command = asked(BASE, SetForm("chat"), Send("Once"))
    assert roles(command) == ["user"]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Regenerate(), ["text"]),
        (Regenerate(exactly=True), ["text"]),
        (ContinueAnswer(), ["text", "assistant"]),
        (ContinueFrom(1, 2), ["text"]),
        (ContinueFrom(1, 1, Alternative(9, " other", 0.1)), ["text"]),
    ],
)
def test_whatever_is_done_to_an_answer_the_text_stays_one(action, expected):
    state, command = asked(BASE, Send("Once"), action)
    assert roles(command) == expected and state.completes
    chatting = replace(ended(state), model=MODEL)
    _, command = asked(chatting, action)
    assert roles(command) == expected, "with a model for chats too"


def test_an_edited_text_is_a_version_of_it():
    state = ended(asked(BASE, Send("Once"))[0])
    state, _ = act(EditMessage(0), state, 0.0)
    state, command = asked(state, Send("Twice "))
    assert [(m.role, m.content) for m in command.messages] == [("text", "Twice ")]
    assert has_versions(state, 0)


def test_it_opens_as_it_was_kept():
    stored = StoredConversation(
        ConversationSummary(1, selected=2),
        (
            StoredMessage(2, 1, None, "text", "Once upon", selected=3),
            StoredMessage(3, 1, 2, "assistant", " a time"),
        ),
    )
    tree = in_chat(stored)
    assert [message.role for message in tree.path] == ["text", "assistant"]
    assert replace(CHAT, tree=tree).completes


ADVICE = (
    SamplingDefault("temperature", 0.2, "a card"),
    SamplingDefault("top_k", 7, "generation_config.json"),
)
ADVISED = replace(CHAT, model=replace(MODEL, sampling_defaults=ADVICE))


def test_what_the_model_advises_holds_where_nothing_is_set():
    assert (sampler(ADVISED).temperature, sampler(ADVISED).top_k) == (0.2, 7)
    assert sampler(CHAT) == SamplingOptions()
    state, command = asked(ADVISED, Send("Hello"))
    assert (command.sampling.temperature, command.sampling.top_k) == (0.2, 7)
    state, _ = act(SetSampling(replace(sampler(ADVISED), temperature=0.4)), ADVISED, 0.0)
    assert (sampler(state).temperature, sampler(state).top_k) == (0.4, 7), "also the program's own"
    assert [default.name for default in advice(state)] == ["top_k"]
    assert sampler(replace(state, model=MODEL)).top_k == SamplingOptions().top_k
    state, _ = act(ResetSampling(), state, 0.0)
    assert sampler(state) == sampler(ADVISED)


def test_a_preset_holds_whatever_the_model_advises():
    preset = preset_of(CHAT, "plain")
    assert preset.sampling == SamplingOptions()
    state, _ = act(UsePreset(preset), ADVISED, 0.0)
    assert sampler(state) == SamplingOptions()


def test_what_was_set_to_the_programs_own_value_is_remembered():
    state, _ = act(SetSampling(replace(sampler(ADVISED), temperature=0.4)), ADVISED, 0.0)
    kept = remember(state, Settings())
    assert kept.sampling_chosen == ("temperature",)
    again = replace(restore(kept, AppState()), model=ADVISED.model)
    assert (sampler(again).temperature, sampler(again).top_k) == (0.4, 7)
    problems = []
    read = parse({"sampling_chosen": ["temperature", "nothing", 3]}, Settings(), problems)
    assert read.sampling_chosen == ("temperature",) and len(problems) == 1


def test_a_message_of_a_text_is_no_question_of_a_chat():
    state = replace(BASE, tree=ConversationTree((Message("text", "Once"),)))
    assert state.completes and replace(state, model=MODEL).completes
