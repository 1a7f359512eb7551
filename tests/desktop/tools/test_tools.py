"""Calls of an answer in the whole program: asked for, run, answered, refused, and gone on with."""

import shlex
import sys
import time
from pathlib import Path

import pytest

from llm_lite.core.history import ConversationTree, History
from llm_lite.core.history.exchange.markdown import to_markdown
from llm_lite.core.messages import Generate, LoadModel, Read, ServerSpec, ToolSpec
from llm_lite.core.records import replace
from llm_lite.core.tools.servers import CallEnded
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.features.chat.reading import ROUNDS, approval, calls_of, may_go_on, waiting
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tools.host import ToolHost
from llm_lite.desktop.features.tools.model import (
    REFUSED,
    AllowTool,
    AnswerCall,
    CallAnswered,
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
    allowed_calls,
    may_run,
    why_not,
)
from llm_lite.desktop.features.tools.state import ToolServer, approval_of
from tests.children import PATIENCE
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import sent
from tests.desktop.tools.functions import WEATHER, call

SERVER = Path(__file__).parents[2] / "core" / "tools" / "tool_server.py"
OSLO = call("weather", '{"city": "Oslo"}')


class Chat:
    """The program without its interface, an engine that says what is written, and a host."""

    def __init__(self, folder, *said, style="tags"):
        self.folder = folder
        self.program = Program(AppState(), interface=None)
        self.engine = ScriptedEngine(0.0, said=said, model=replace(MODEL, tool_style=style))
        self.program.start(self.engine)
        self.program.use_tools(ToolHost(folder / "tools.json", lambda: None))
        self.engine.submit(LoadModel(None))
        self.wait(lambda s: s.model is not None)

    @property
    def state(self):
        return self.program.state

    def do(self, *actions):
        for action in actions:
            self.program.do(action)

    def wait(self, until):
        end = time.monotonic() + PATIENCE
        while not until(self.state):
            assert time.monotonic() < end, self.state.notices
            self.program.update()
            time.sleep(0.002)

    def say(self, text="Weather?"):
        self.do(Send(text))
        self.rest()

    def rest(self):
        self.wait(lambda s: not s.busy)

    def serve(self, how="well"):
        command = shlex.join([sys.executable, str(SERVER), how])
        self.do(SetServer(ServerSpec("test", command, start_seconds=PATIENCE)), StartServer("test"))
        self.wait(lambda s: s.tools.servers[0].status in ("on", "ended"))

    def allow(self):
        """As the switch of the first call that waits."""
        call = calls_of(waiting(self.state))[0]
        self.do(AllowTool(approval(self.state, call), True))

    def said(self):
        return [(m.role, m.text) for m in self.state.messages]

    def close(self):
        if self.program.history is not None:
            self.program.history.end()
            self.program.history.finish(PATIENCE)
        self.program.hosts["tools"].close(self.state, PATIENCE)
        self.engine.close()


@pytest.fixture
def chat(tmp_path):
    made = []

    def make(*said, **options):
        made.append(Chat(tmp_path, *said, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_call_asks_is_answered_by_hand_and_the_model_goes_on(chat):
    one = chat(f"I will look.\n{OSLO}", "Cold.")
    one.do(SetFunctions(WEATHER))
    one.say()
    assert one.state.messages[-1].text == "I will look." and waiting(one.state) is not None
    assert len(sent(one.engine, Generate)) == 1  # it waits
    one.do(AnswerCall(0, "3 degrees"))
    one.rest()
    assert one.said()[1:] == [
        ("assistant", "I will look."), ("tool", "3 degrees"), ("assistant", "Cold."),
    ]  # fmt: skip
    first, second = sent(one.engine, Generate)
    assert [tool.name for tool in first.tools] == ["weather"] == [t.name for t in second.tools]
    assert second.messages[-1].role == "tool" and second.messages[-1].name == "weather"
    assert [c.name for c in second.messages[-2].calls] == ["weather"]


def test_a_server_runs_a_call_only_when_a_person_says_so(chat):
    one = chat(OSLO, "Mild.")
    one.serve()
    one.say()
    for _ in range(20):
        one.program.update()
    assert not one.state.tools.round.running and len(one.state.messages) == 2
    one.do(RunCall(0))
    one.do(RunCall(0))  # a second click
    one.wait(lambda s: len(s.messages) == 4 and not s.busy)
    tool = one.state.messages[2]
    assert (tool.text, tool.reply.how, tool.reply.server) == (
        "12 degrees in Oslo",
        "server",
        "test",
    )


def test_a_function_that_is_allowed_runs_without_asking_in_this_conversation_only(chat):
    one = chat(OSLO, "Mild.", OSLO, "Still mild.", OSLO)
    one.serve()
    one.say()
    one.allow()
    one.wait(lambda s: len(s.messages) == 4 and not s.busy)
    one.say("And now?")
    one.wait(lambda s: len(s.messages) == 8 and not s.busy)
    one.do(NewChat())
    one.say()
    for _ in range(20):
        one.program.update()
    assert len(one.state.messages) == 2 and not one.state.tools.round.running


def other_tools(**changes):
    """The server says something else of its function from now on."""

    def change(one):
        server = one.state.tools.servers[0]
        weather = replace(server.tools[0], **changes)
        one.do(SetServerStatus("test", "on", (weather, *server.tools[1:])))

    return change


def other_server(**changes):
    def change(one):
        spec = one.state.tools.servers[0].spec
        tools = one.state.tools.servers[0].tools
        one.do(SetServer(replace(spec, **changes)), SetServerStatus("test", "on", tools))

    return change


def added_again(one):
    server = one.state.tools.servers[0]
    one.do(RemoveServer("test"), SetServer(server.spec), StartServer("test"))
    one.wait(lambda s: s.tools.servers[0].status == "on")


def restarted(one):
    one.do(StopServer("test"))
    one.wait(lambda s: s.tools.servers[0].status == "off")
    one.do(StartServer("test"))
    one.wait(lambda s: s.tools.servers[0].status == "on")


CHANGES = {
    "schema": other_tools(parameters='{"type": "object", "properties": {"city": {}}}'),
    "description": other_tools(description="Deletes all files in a city."),
    "command": other_server(command="rm -rf /"),
    "environment": other_server(environment=(("PATH", "/tmp"),)),
    "removed and added": added_again,
    "restarted": restarted,
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_person_did_not_approve_asks_again(chat, what):
    one = chat(OSLO, "Mild.", OSLO, "Still mild.")
    one.serve()
    one.say()
    one.allow()
    one.wait(lambda s: len(s.messages) == 4 and not s.busy)
    CHANGES[what](one)
    one.say("And now?")
    for _ in range(20):
        one.program.update()
    assert not one.state.tools.round.running and len(one.state.messages) == 6
    assert may_run(one.state, 0) == "test" and allowed_calls(one.state) == []


def test_all_calls_are_answered_before_the_model_goes_on_in_their_order(chat):
    one = chat(OSLO + call("weather", '{"city": "Seoul"}') + call("x", "{}"), "Done.")
    one.do(SetFunctions(WEATHER))
    one.say()
    one.do(RefuseCall(2), AnswerCall(1, "b"))
    assert len(one.state.messages) == 2
    one.do(AnswerCall(0, "a"))
    one.rest()
    assert [text for role, text in one.said() if role == "tool"] == ["a", "b", REFUSED]


def test_arguments_that_do_not_fit_and_calls_that_cannot_be_read_are_not_run(chat):
    one = chat(call("weather", '{"city": 5}') + call("weather", "{") + call("rm", "{}"), "Sorry.")
    one.serve()
    one.say()
    one.do(RunCall(0), RunCall(1), RunCall(2), RunCall(3), RunCall(-1))
    assert not one.state.tools.round.running


def on_a_server(one, schema, *, allowed=False):
    """As if a server ran that has the function `weather`."""
    server = ToolServer(ServerSpec("s", "none"), "on", (ToolSpec("weather", "", schema),))
    approved = approval_of(server.spec, server.tools[0])
    allowed = frozenset([approved] if allowed else ())
    tools = replace(one.state.tools, servers=(server,), on=frozenset({("s", "weather")}))
    tools = replace(tools, allowed=allowed)
    one.program.state = replace(one.state, tools=tools)


def test_a_number_that_is_marked_as_text_can_be_run(chat):
    one = chat("<tool_call><function=weather><parameter=days>3</parameter></tool_call>", "Mild.")
    on_a_server(one, '{"type": "object", "properties": {"days": {"type": "integer"}}}')
    one.say()
    assert may_run(one.state, 0) == "s" and why_not(one.state, 0) == ""
    on_a_server(one, '{"type": "object", "properties": {"days": {"type": "boolean"}}}')
    assert may_run(one.state, 0) == "" and "days: expected true or false" in why_not(one.state, 0)


def test_of_an_answer_that_was_stopped_nothing_runs_without_asking(chat):
    one = chat(OSLO, "Mild.")
    on_a_server(one, '{"type": "object"}', allowed=True)
    one.do(Send("Weather?"))
    one.program.hosts.pop("tools", None)
    one.rest()
    assert allowed_calls(one.state) == [RunCall(0)]
    last = replace(one.state.messages[-1], stop_reason="stopped")
    stopped = replace(one.state, tree=ConversationTree((*one.state.messages[:-1], last)))
    assert allowed_calls(stopped) == [] and may_run(stopped, 0) == "s"
    one.program.use_tools(ToolHost(one.folder / "tools.json", lambda: None))


def test_a_call_has_one_result(chat):
    """Of a call that was refused while it ran, the late result counts for no other."""
    one = chat(OSLO + OSLO, "Done.")
    on_a_server(one, '{"type": "object"}')
    one.say()
    key = one.state.messages[-1].id
    one.do(RefuseCall(0), CallAnswered(key, 0, "late", 1.0, False))
    assert len(one.state.messages) == 2 and len(one.state.tools.round.answered) == 1
    one.do(AnswerCall(1, "b"))
    assert [m.text for m in one.state.messages[2:4]] == [REFUSED, "b"]


class NotedServers:
    """Servers that note which calls run, and answer when a test says so."""

    def __init__(self):
        self.calls, self.ended = [], []

    def call(self, name, *about):
        self.calls.append(name)

    def poll(self):
        ended, self.ended = self.ended, []
        return ended

    def close(self, timeout):
        pass


def test_a_late_result_is_not_taken_for_that_of_a_conversation_opened_again(chat):
    """Its message has the id that it had, and its call may run again."""
    one, servers = chat(OSLO, "Mild."), NotedServers()
    on_a_server(one, '{"type": "object"}')
    one.say()
    one.program.hosts["tools"]._servers = servers
    one.do(RunCall(0))
    again = one.state.tools.of_next_conversation()
    one.program.state = replace(one.state, chat=one.state.chat + 1, tools=again)
    servers.ended = [CallEnded(servers.calls[0], "late", 1.0, False)]
    one.program.update()
    assert len(one.state.messages) == 2 and not one.state.tools.round.answered
    one.do(RunCall(0))
    assert len(set(servers.calls)) == 2
    servers.ended = [CallEnded(servers.calls[1], "3 degrees", 1.0, False)]
    one.program.update()
    one.rest()
    assert [m.text for m in one.state.messages][2:] == ["3 degrees", "Mild."]


def test_further_rounds_are_granted_until_the_next_question(chat):
    one = chat(OSLO)
    one.do(SetFunctions(WEATHER))
    one.say()
    for _ in range(ROUNDS):
        one.do(AnswerCall(0, "again"))
        one.rest()
    one.do(GoOn())
    one.rest()
    one.say("And now?")
    for _ in range(ROUNDS):
        one.do(AnswerCall(0, "again"))
        one.rest()
    assert not may_go_on(one.state)


def test_a_message_instead_refuses_what_waits(chat):
    one = chat(OSLO, "Fine.")
    one.do(SetFunctions(WEATHER))
    one.say()
    one.say("Never mind.")
    assert [role for role, _ in one.said()] == ["user", "assistant", "tool", "user", "assistant"]
    assert one.said()[2][1] == REFUSED


def test_rounds_behind_each_other_end_and_a_person_is_asked(chat):
    one = chat(OSLO)  # calls for ever
    one.do(SetFunctions(WEATHER))
    one.say()
    for _ in range(ROUNDS):
        one.do(AnswerCall(0, "again"))
        one.rest()
    assert len(sent(one.engine, Generate)) == ROUNDS
    one.do(GoOn())
    one.rest()
    assert len(sent(one.engine, Generate)) == ROUNDS + 1
    one.do(AnswerCall(0, "again"))
    one.rest()
    assert len(sent(one.engine, Generate)) == ROUNDS + 2


def test_a_hanging_tool_is_stopped_and_its_result_says_so(chat):
    one = chat(call("sleep", "{}"), "A pity.")
    one.serve()
    one.say()
    one.do(RunCall(0))
    one.do(StopCall(0))
    one.wait(lambda s: len(s.messages) == 4 and not s.busy)
    assert one.said()[2][1] == "The call was stopped."
    assert one.state.messages[2].reply.how == "failed"


def test_a_server_that_dies_is_told_and_started_again(chat):
    one = chat(call("die", "{}"), "Oh.", OSLO, "Good.")
    one.serve()
    one.say()
    one.do(RunCall(0))
    one.wait(lambda s: len(s.messages) == 4 and not s.busy)
    assert one.said()[2][1] == "The server ended: it ended with code 3"
    one.wait(lambda s: s.tools.servers[0].status == "ended")
    assert any("test: it ended with code 3" in notice.text for notice in one.state.notices)
    assert any("out of cheese" in line.text for line in one.state.log)
    one.do(StartServer("test"))
    one.wait(lambda s: s.tools.servers[0].status == "on")
    one.say()
    one.do(RunCall(0))
    one.wait(lambda s: len(s.messages) == 8 and not s.busy)
    one.do(StopServer("test"))
    one.wait(lambda s: s.tools.servers[0].status == "off")


def test_a_model_without_functions_is_offered_none_and_its_text_stays(chat):
    one = chat(f"As in {OSLO}", style="")
    one.do(SetFunctions(WEATHER))
    one.say()
    assert sent(one.engine, Generate)[0].tools == ()
    assert one.state.messages[-1].text == f"As in {OSLO}" and waiting(one.state) is None


def test_what_is_switched_off_is_not_offered(chat):
    one = chat("Hi.")
    one.do(SetFunctions(WEATHER), OfferTool("", "weather", False))
    one.say()
    one.do(ReadAgain())
    assert sent(one.engine, Generate)[0].tools == () == sent(one.engine, Read)[0].tools
    one.do(OfferTool("", "weather", True))
    one.rest()
    one.do(ReadAgain())
    one.wait(lambda s: s.reading is None)
    one.do(ReadAgain())
    assert [tool.name for tool in sent(one.engine, Read)[-1].tools] == ["weather"]


def test_calls_and_results_are_kept_and_open_again(chat, tmp_path):
    one = chat(f"I will look.\n{OSLO}{OSLO}", "Cold.", OSLO)
    path = tmp_path / "history.db"
    one.program.use("history", HistoryHost(path, lambda: None))
    one.do(SetFunctions(WEATHER))
    one.say()
    one.do(AnswerCall(0, "`3` degrees"), RefuseCall(1))
    one.rest()
    one.say("And tomorrow?")
    before = one.state.messages
    one.wait(lambda s: s.history.open is not None)
    number = one.state.history.open
    one.do(NewChat(), OpenConversation(number))
    one.wait(lambda s: s.history.opening is None and len(s.messages) == len(before))
    again = one.state.messages
    assert [(m.role, m.text, m.reply) for m in again] == [(m.role, m.text, m.reply) for m in before]
    assert [m.calls and m.calls.calls for m in again] == [m.calls and m.calls.calls for m in before]
    assert waiting(one.state) is not None  # the last call still asks
    one.do(AnswerCall(0, "5 degrees"))
    one.rest()
    assert one.said()[-2] == ("tool", "5 degrees")
    one.program.history.end()
    assert one.program.history.finish(PATIENCE)
    one.program.hosts.pop("history", None)
    history = History(path)
    assert history.wait_until_open(PATIENCE)
    kept = history.conversation(number)
    text = to_markdown(kept)
    history.close(PATIENCE)
    assert [m.role for m in ConversationTree.of(kept).path].count("tool") == 3
    assert "Call of `weather`:\n\n```json" in text and "<tool_call>" not in text
    assert "## Tool: weather\n\n```\n`3` degrees\n```" in text


def test_an_answer_that_is_stopped_within_a_call_waits_for_nothing_that_can_run(chat):
    one = chat(OSLO[:30])
    one.do(SetFunctions(WEATHER))
    one.say()
    (broken,) = one.state.messages[-1].calls.calls
    assert broken.problem and one.state.messages[-1].text == ""
    kept = replace(one.state.messages[-1])
    assert kept.whole == OSLO[:30]


def test_tools_that_are_listed_again_keep_what_is_switched_off():
    program = Program(AppState(), interface=None)
    weather, tide, sun = (ToolSpec(name) for name in ("weather", "tide", "sun"))
    program.do(SetServer(ServerSpec("test", "x")))
    program.do(SetServerStatus("test", "on", (weather, tide)))
    program.do(OfferTool("test", "tide", False))
    program.do(SetServerStatus("test", "on", (weather, tide, sun)))
    assert {name for _, name in program.state.tools.on} == {"weather", "sun"}
    program.do(SetServerStatus("test", "off"))
    program.do(SetServerStatus("test", "on", (weather, tide)))
    assert ("test", "tide") in program.state.tools.on, "as at every start"
