"""Tool servers that work, hang, die, flood, and write what is no message."""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ServerSpec
from llm_lite.core.tools import supervisor
from llm_lite.core.tools.commands import split_command
from llm_lite.core.tools.received import MOST_RESULT
from llm_lite.core.tools.servers import (
    CallEnded,
    ServerEnded,
    ServerLogged,
    ServerReady,
    ToolServers,
)
from llm_lite.core.tools.transport import LOG_LINES
from tests.children import PATIENCE
from tests.paths import ROOT

SCRIPT = Path(__file__).parent / "tool_server.py"


def spec(how="well", *more, **changes):
    command = shlex.join([sys.executable, str(SCRIPT), how, *more])
    return ServerSpec("test", command, **{"start_seconds": PATIENCE, **changes})


class Hearer:
    def __init__(self):
        self.servers = ToolServers()
        self.heard = []
        self._waiting = []

    def until(self, kind):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._waiting += self.servers.poll()
            while self._waiting:
                event = self._waiting.pop(0)
                self.heard.append(event)
                if isinstance(event, kind):
                    return event
            time.sleep(0.005)
        raise AssertionError(f"no {kind.__name__}: {self.heard}")

    def call(self, tool, seconds=PATIENCE, **arguments):
        self.servers.call("1", "test", tool, arguments, seconds)
        return self.until(CallEnded)

    def lines(self):
        return [event.text for event in self.heard if isinstance(event, ServerLogged)]


@pytest.fixture
def hearer():
    one = Hearer()
    yield one
    one.servers.close(PATIENCE)


def is_alive(pid):
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[-1][0] != "Z"
    except OSError:
        return False


def test_tools_are_listed_and_called(hearer):
    hearer.servers.start(spec())
    ready = hearer.until(ServerReady)
    assert [tool.name for tool in ready.tools][:2] == ["weather", "sleep"]
    assert any("'bad name!'" in line for line in hearer.lines())
    answered = hearer.call("weather", city="Oslo")
    assert (answered.text, answered.failed) == ("12 degrees in Oslo", False)
    failed = hearer.call("fail")
    assert (failed.text, failed.failed) == ("no such city", True)
    long = hearer.call("long").text
    assert long.startswith("z" * MOST_RESULT) and long.endswith(
        "200,000 characters, 65,536 are kept"
    )
    hearer.servers.stop("test")
    assert hearer.until(ServerEnded).problem == ""
    assert "is not running" in hearer.call("weather").text


def test_a_server_that_is_started_again_while_it_ends_runs_again(hearer):
    """As one that is removed and added under its name; a stop behind that holds."""
    hearer.servers.start(spec())
    hearer.until(ServerReady)
    hearer.servers.stop("test")
    hearer.servers.start(spec())
    hearer.until(ServerReady)
    assert hearer.call("weather", city="Oslo").text == "12 degrees in Oslo"
    assert not [event for event in hearer.heard if isinstance(event, ServerEnded)]
    for work in ("stop", "start", "stop"):
        hearer.servers.start(spec()) if work == "start" else hearer.servers.stop("test")
    assert hearer.until(ServerEnded).problem == ""
    assert not hearer.servers._servers


def test_a_call_that_hangs_ends_by_itself_or_is_stopped(hearer):
    hearer.servers.start(spec())
    hearer.until(ServerReady)
    late = hearer.call("sleep", seconds=0.2)
    assert late.failed and late.text == "sleep took longer than 0.2 s and was given up"
    hearer.servers.call("2", "test", "sleep", {}, PATIENCE)
    hearer.servers.cancel("2")
    assert hearer.until(CallEnded).text == "The call was stopped."


def test_a_server_that_dies_in_a_call_is_told_and_can_be_started_again(hearer):
    hearer.servers.start(spec())
    hearer.until(ServerReady)
    assert hearer.call("die").text == "The server ended: it ended with code 3"
    assert hearer.until(ServerEnded).problem == "it ended with code 3"
    assert "out of cheese" in hearer.lines()
    hearer.servers.start(spec())
    hearer.until(ServerReady)
    assert not hearer.call("weather", city="Oslo").failed


ENDINGS = {
    "hang": "it did not answer within 0.5 s",
    "exit": "it ended with code 2",
    "stray": "it wrote more than 16 MiB without a pause",
    "blank": "it wrote more than 16 MiB without a pause",
    "flood": "it wrote more than 16 MiB without a pause",
    "loud": "it wrote more than 16 MiB without a pause",
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_server_that_misbehaves_is_ended_with_a_sentence(hearer, how):
    hearer.servers.start(spec(how, start_seconds=0.5 if how == "hang" else PATIENCE))
    assert hearer.until(ServerEnded).problem == ENDINGS[how]
    assert len(hearer.lines()) <= LOG_LINES + 1
    assert all(len(line) <= 500 for line in hearer.lines())


def test_a_line_without_end_is_not_kept(hearer):
    hearer.servers.start(spec())
    hearer.until(ServerReady)
    assert "a line of more than 4 MiB" in hearer.call("flood").text
    assert "a line of more than 4 MiB" in hearer.until(ServerEnded).problem


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def child_of(hearer):
    """The process that a server says it has started."""
    while not (found := [line for line in hearer.lines() if line.startswith("child")]):
        hearer.until(ServerLogged)
    return int(found[0].split()[1])


def until_gone(*words):
    """No process is left that has these among its arguments: a hydra changes its number."""
    end = time.monotonic() + PATIENCE
    while left := [pid for pid in running_with(*words) if is_alive(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.01)


def running_with(*words):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = path.read_bytes().split(b"\0")
            if all(word.encode() in arguments for word in words):
                found.append(int(path.parent.name))
    return found


@needs_proc
@pytest.mark.parametrize("how", ["family", "daemon", "hydra"])
@pytest.mark.parametrize("closing", [False, True])
def test_what_a_server_has_started_ends_with_it(hearer, tmp_path, closing, how):
    named = str(tmp_path)  # among the arguments of the server, and so of what it forks
    hearer.servers.start(spec(how, named))
    hearer.until(ServerReady)
    child = child_of(hearer)
    assert how == "hydra" or is_alive(child)
    assert len(running_with(named)) >= 2
    if closing:
        hearer.servers.close(PATIENCE)
    else:
        hearer.servers.stop("test")
        hearer.until(ServerEnded)
    until_gone(named)
    assert not is_alive(child)


@needs_proc
def test_what_a_server_leaves_behind_ends_when_it_ends_by_itself(hearer, tmp_path):
    hearer.servers.start(spec("orphans", str(tmp_path)))
    child = child_of(hearer)
    assert hearer.until(ServerEnded).problem == "it ended with code 4"
    until_gone(str(tmp_path))
    assert not is_alive(child)


@needs_proc
@pytest.mark.parametrize("how", ["daemon", "hydra", "hang"])
def test_servers_end_when_the_program_is_killed(tmp_path, how):
    named = str(tmp_path)
    code = (
        "import sys, time; from tests.core.tools.test_servers import spec; "
        "from llm_lite.core.tools.servers import ToolServers; "
        "servers = ToolServers(); servers.start(spec(sys.argv[1], sys.argv[2])); time.sleep(600)"
    )
    program = subprocess.Popen([sys.executable, "-c", code, how, named], cwd=ROOT)
    least = 3 if how == "hang" else 4  # program, supervisor, server, its child
    end = time.monotonic() + PATIENCE
    while len(running_with(named)) < least:
        assert time.monotonic() < end and program.poll() is None
        time.sleep(0.01)
    program.kill()
    program.wait()
    until_gone(named)


@needs_proc
@pytest.mark.skipif(not supervisor.LINUX, reason="needs prctl")
def test_a_server_whose_supervisor_is_killed_ends(hearer, tmp_path):
    hearer.servers.start(spec("well", str(tmp_path)))
    hearer.until(ServerReady)
    pids = [int(line) for line in running_with(supervisor.__file__, str(tmp_path))]
    os.kill(pids[0], signal.SIGKILL)
    assert hearer.until(ServerEnded).problem == "it ended with code -9"
    until_gone(str(tmp_path))


def test_a_schema_that_no_prompt_could_hold_is_left_out(hearer):
    hearer.servers.start(spec("odd"))
    names = [tool.name for tool in hearer.until(ServerReady).tools]
    assert "weather" not in names and "sleep" not in names and "die" in names
    assert "a tool is left out: tool 1 (weather), parameters: Infinity is no JSON" in hearer.lines()


def test_tools_that_are_none_cost_no_others(hearer):
    hearer.servers.start(spec("broken tools"))
    names = [tool.name for tool in hearer.until(ServerReady).tools]
    assert names == ["weather", "sleep", "die", "flood", "long", "fail", "blocks"]
    left_out = [line for line in hearer.lines() if line.startswith("a tool is left out")]
    assert len(left_out) == 9 and "tool 3: expected an object, found a text" in left_out[2]


def test_blocks_of_a_result_cost_no_others(hearer):
    hearer.servers.start(spec("broken tools"))
    hearer.until(ServerReady)
    answered = hearer.call("blocks")
    unknown = '{\n  "type": "hologram",\n  "depth": 3\n}\n{\n  "type": "text"\n}'
    link, structured = "[resource, file:///tide.csv, tide.csv]", '{\n  "high": "04:12"\n}'
    assert answered.text == f"Tide tables\n{unknown}\n{link}\n{structured}"
    assert not answered.failed


PAGES = {
    "pages": (["weather", "sleep", "fail"], ""),
    "circle": (["weather", "sleep"], "its list of tools comes to the same page again"),
    "torn": (["weather", "sleep"], "a page of its tools is missing: tools: expected a list"),
}


@pytest.mark.parametrize("how", PAGES)
def test_tools_come_in_pages(hearer, how):
    hearer.servers.start(spec(how))
    names, problem = PAGES[how]
    assert [tool.name for tool in hearer.until(ServerReady).tools] == names
    assert any(problem in line for line in hearer.lines() or [""])
    assert not hearer.call("weather", city="Oslo").failed


def test_tools_that_change_are_listed_again(hearer):
    hearer.servers.start(spec("changes"))
    assert "tide" not in [tool.name for tool in hearer.until(ServerReady).tools]
    assert not hearer.call("weather", city="Oslo").failed
    assert "tide" in [tool.name for tool in hearer.until(ServerReady).tools]
    assert not hearer.call("tide", city="Oslo").failed


def test_a_server_written_by_hand_works(hearer):
    script = SCRIPT.with_name("hand_written_server.py")
    command = shlex.join([sys.executable, str(script)])
    hearer.servers.start(ServerSpec("test", command, start_seconds=PATIENCE))
    assert [tool.name for tool in hearer.until(ServerReady).tools] == ["weather"]
    for _ in range(40):  # each prints a line
        assert hearer.call("weather").text == "12 degrees"
    lines = hearer.lines()
    assert "no message: Weather server 1.0 ready" in lines
    assert "its version of the protocol is '1.0': it is asked as of the newest known" in lines
    assert lines[-1] == "what else it writes that is no message is not shown"


COMMANDS = {
    "/nonexistent/server --x": "/nonexistent/server cannot be started: No such file or directory",
    "'unclosed": "the command cannot be split: no closing quotation",
    "  ": "the command is empty",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_cannot_run_is_a_sentence(hearer, command):
    hearer.servers.start(ServerSpec("test", command))
    assert hearer.until(ServerEnded).problem == COMMANDS[command]


def test_a_server_gets_its_own_variables_and_none_of_ours(hearer, monkeypatch):
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    told = "import os, sys; sys.stderr.write(os.environ.get('SECRET_OF_OURS', 'none') + "
    code = told + "os.environ['KEY'] + '\\n')"
    command = shlex.join([sys.executable, "-c", code])
    hearer.servers.start(ServerSpec("test", command, (("KEY", "=mine"),)))
    hearer.until(ServerEnded)
    assert hearer.lines() == ["none=mine"]


def test_no_shell_reads_a_command():
    assert split_command("a 'b c' $HOME ; rm") == ["a", "b c", "$HOME", ";", "rm"]
    with pytest.raises(RequestError, match="null character"):
        split_command("a \0")


def test_closing_without_a_start_does_nothing():
    servers = ToolServers()
    servers.close()
    servers.stop("test")
    assert servers.poll() == []


def test_a_server_that_is_stopped_while_it_ends_is_told_and_can_start_again(hearer, monkeypatch):
    """By then its calls have their last words."""
    servers, ends = hearer.servers, threading.Event()

    async def run(self, spec):
        task = asyncio.create_task(asyncio.sleep(PATIENCE, ("", False)))
        self._servers[spec.name].calls["1"] = task
        ends.set()
        return "it ended"

    monkeypatch.setattr(ToolServers, "_run_server", run)
    for _ in range(2):
        ends.clear()
        servers.start(spec())
        assert ends.wait(PATIENCE)
        servers.stop("test")
        servers.stop("test")
        assert hearer.until(ServerEnded).problem == "it ended"
