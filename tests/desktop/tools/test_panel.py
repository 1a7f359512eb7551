"""The panel of tools and the cards of calls, with mouse and keyboard."""

import shlex
import sys

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import ServerSpec
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import CallSplit, read_calls
from llm_lite.core.tools.declared import read_functions
from llm_lite.desktop.features.chat import view as chat
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.tools.calls import heading, length_and_seconds, shown_arguments
from llm_lite.desktop.features.tools.model import (
    AllowTool,
    AnswerCall,
    GoOn,
    OfferTool,
    RefuseCall,
    RemoveServer,
    RunCall,
    SetFunctions,
    SetServer,
    SetServerStatus,
    StartServer,
    StopCall,
    StopServer,
    UnfoldResult,
)
from llm_lite.desktop.features.tools.state import (
    MOST_SERVERS,
    MOST_VARIABLES,
    CallRound,
    RunningCall,
    ToolReply,
    ToolServer,
    ToolsState,
    approval_of,
)
from llm_lite.desktop.features.tools.view import ServerForm, model_note, read_form
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.tools.functions import WEATHER, call

ABLE = replace(MODEL, tool_style="tags")
OSLO = call("weather", '{"city": "Oslo"}')
SPEC = ServerSpec("test", shlex.join([sys.executable, "server.py", "an argument"]), (("K", "v"),))
READY = AppState(model=ABLE, executor=EXECUTOR)


def answer(text, **changes):
    split = read_calls("tags", text)
    return Message("assistant", split.visible_text, stop_reason="end", calls=split, **changes)


def asking(headless, *said):
    """The window with an answer whose calls wait, and a server that is said to run."""
    one = headless(READY, size=(1280, 900))
    one.program.do(SetFunctions(WEATHER))
    tools = one.state.tools.functions
    one.program.do(SetServer(SPEC))
    one.program.do(SetServerStatus("test", "on", tools))
    one.program.do(SetFunctions(""))
    messages = (Message("user", "Weather?"), *(answer(text) for text in said))
    one.program.state = replace(one.state, tree=ConversationTree(messages))
    one.driver.frames(3)
    one.done.clear()
    return one


def test_a_call_offers_to_run_to_answer_and_to_refuse(headless):
    one = asking(headless, f"I will look.\n{OSLO}")
    one.driver.click("call.1.0.allow")
    one.driver.click("call.1.0.run")
    (weather,) = read_functions(WEATHER)
    assert one.done == [AllowTool(approval_of(SPEC, weather), True), RunCall(0)]
    one.driver.frames(2)
    assert one.driver.shows("call.1.0.stop") and not one.driver.shows("call.1.0.run")
    one.driver.click("call.1.0.stop")
    assert one.done[-1] == StopCall(0)


def test_an_answer_by_hand_is_typed_into_the_card(headless):
    one = asking(headless, OSLO + OSLO)
    one.driver.click("call.1.1.hand")
    one.driver.click("call.1.1.text")
    one.driver.type("3 degrees")
    one.driver.click("call.1.1.give")
    one.driver.click("call.1.0.refuse")
    assert one.done[-2:] == [AnswerCall(1, "3 degrees"), RefuseCall(0)]
    assert one.state.messages[2].reply.how == "refused"
    assert one.state.messages[3].text == "3 degrees"


def test_what_cannot_be_run_offers_no_run(headless):
    for text in (call("weather", '{"city": 5}'), call("other", "{}"), OSLO[:30]):
        one = asking(headless, text)
        assert one.driver.shows("call.1.0.refuse") and not one.driver.shows("call.1.0.run")


def test_a_half_written_call_is_a_card_without_buttons(headless):
    one = headless(READY)
    begun = CallSplit("tags").fed(f"I will look.{OSLO[:40]}")
    writing = Message("assistant", begun.visible_text, calls=begun)
    running = Running(1, 0.0, "decode", tool_style="tags")
    messages = (Message("user", "Weather?"), writing)
    one.program.state = replace(one.state, tree=ConversationTree(messages), running=running)
    one.driver.frames(3)
    low, high = one.driver.rect("message.1")[1::2]
    assert high - low > 80 and not any(name.startswith("call.1.0") for name in one.ui.rects)
    assert begun.begun.name == "weather" and "<tool_call>" not in begun.visible_text


def test_a_result_unfolds(headless):
    one = headless(READY, size=(1280, 1200))
    told = Message("tool", "12 degrees\n" * 20, reply=ToolReply("weather", "server", "test", 0.25))
    messages = (Message("user", "Hi"), answer(OSLO), told, Message("assistant", "12."))
    one.program.state = replace(one.state, tree=ConversationTree(messages))
    one.driver.frames(3)
    one.driver.click("message.2.result")
    assert one.done == [UnfoldResult(2, True)]
    low, high = one.driver.rect("message.2")[1::2]
    assert high - low > 200
    one.driver.click("message.2.result")
    assert not one.state.messages[2].reply.unfolded


def test_after_many_rounds_a_person_is_asked(headless):
    one = headless(READY, size=(1280, 900))
    said = []
    for _ in range(8):
        said += [answer(OSLO), Message("tool", "12", reply=ToolReply("weather", "hand"))]
    one.program.state = replace(
        one.state, tree=ConversationTree((Message("user", "Hi"), *said[:-1]))
    )
    one.driver.frames(3)
    one.program.do(AnswerCall(0, "12"))
    one.driver.frames(3)
    one.driver.click("calls.go_on")
    assert one.did(GoOn)


def test_the_panel_declares_offers_and_says_what_is_wrong(headless):
    one = headless(READY)
    one.driver.click("rail.tools")
    one.driver.click("tools.tab.declare")
    one.driver.click("tools.example")
    one.driver.click("tools.tab.offer")
    one.driver.click("tools.on..get_weather")
    assert one.did(OfferTool) == [OfferTool("", "get_weather", False)]
    one.driver.click("tools.tab.declare")
    one.driver.click("tools.text")
    one.driver.type("x")
    assert one.driver.shows("tools.problem") and "line " in one.state.tools.problem


def test_a_server_starts_only_after_its_command_was_seen(headless):
    one = headless(READY)
    one.program.do(SetServer(SPEC))
    one.driver.click("rail.tools")
    one.driver.click("tools.tab.servers")
    one.driver.click("tools.server.test.start")
    assert not one.did(StartServer)
    one.driver.click("tools.start_not")
    one.driver.click("tools.server.test.start")
    one.driver.click("tools.start")
    assert one.did(StartServer) == [StartServer("test")]
    assert one.state.tools.servers[0].status == "starting"
    one.driver.click("tools.server.test.stop")
    one.program.do(SetServerStatus("test", "ended", (), "it ended with code 3"))
    one.driver.frames(2)
    assert one.did(StopServer) and one.driver.shows("tools.server.test.problem")
    one.driver.click("tools.server.test.remove")
    assert one.did(RemoveServer) and not one.state.tools.servers


def test_a_server_is_added_in_a_form(headless):
    one = headless(READY)
    one.driver.click("rail.tools")
    one.driver.click("tools.tab.servers")
    one.driver.click("tools.new")
    for field, text in (("name", "files"), ("command", "serve --all"), ("environment", "A=b=c")):
        one.driver.click(f"tools.form.{field}")
        one.driver.type(text)
    one.driver.click("tools.form.save")
    assert one.did(SetServer) == [SetServer(ServerSpec("files", "serve --all", (("A", "b=c"),)))]


def test_no_more_is_taken_than_is_read_again():
    full = tuple(ToolServer(ServerSpec(f"s{n}", "a")) for n in range(MOST_SERVERS))
    state = AppState(tools=ToolsState(servers=full))
    form = ServerForm(name="new", command="a")
    assert read_form(form, AppState())[0] and "32 servers" in read_form(form, state)[1]
    assert read_form(replace(form, name="s1", old="s1"), state)[0]
    form.environment = "\n".join(f"V{n}=" for n in range(MOST_VARIABLES + 1))
    assert "65 variables, at most 64" in read_form(form, AppState())[1]


def test_with_a_server_it_promises_no_more_than_is_true(headless, monkeypatch):
    one, said = headless(READY), []
    monkeypatch.setattr(chat, "_title", lambda ui, words, note: said.append(note))
    one.driver.frames(1)
    one.program.do(SetServer(SPEC))
    one.driver.frames(1)
    one.program.do(SetServerStatus("test", "on", ()))
    one.driver.frames(1)
    assert said == [chat.ALONE, chat.ALONE, chat.WITH_SERVERS]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, "No model is loaded"),
        (MODEL, "knows no functions"),
        (replace(MODEL, tool_style="unknown"), "cannot read"),
        (ABLE, "is offered to it"),
    ],
)
def test_it_says_what_the_model_is_offered(model, words):
    assert words in model_note(AppState(model=model))


def test_a_result_says_how_it_came_its_size_and_time():
    reply = ToolReply("weather", "server", "test", 1.25)
    assert heading(reply) == "weather on test answered"
    assert length_and_seconds("x" * 1500, reply) == "1,500 characters  ·  1.2 s"
    assert length_and_seconds("x", ToolReply("w", "hand")) == "1 character"
    assert heading(ToolReply("w", "refused")) == "w, refused by you"


def test_arguments_are_shown_whole_up_to_a_length_that_is_said():
    (short,) = read_calls("tags", OSLO).calls
    assert shown_arguments(short) == '{\n  "city": "Oslo"\n}'
    (long,) = read_calls("tags", call("weather", f'{{"city": "{"x" * 20_000}"}}')).calls
    assert shown_arguments(long).endswith("more characters")


def test_many_calls_cost_no_frame_more_than_those_in_sight(headless):
    one = headless(READY)
    told = [Message("tool", "12 degrees", reply=ToolReply("weather", "hand"))]
    many = (Message("user", "Hi"), *([answer(OSLO), *told] * 60))
    one.program.state = replace(one.state, tree=ConversationTree(many))
    one.driver.frames(6)
    drawn = [name for name in one.ui.rects if name.startswith("call.")]
    assert 0 < len(drawn) < 30


def test_the_state_of_a_round_is_found_by_number():
    known = CallRound(1, running=((2, RunningCall(0.0)),))
    assert known.running_of(2) and not known.running_of(1) and not known.answer_of(2)
