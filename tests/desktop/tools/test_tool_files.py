"""Functions and servers in their file: kept, imported, and refused where they are wrong."""

import sys

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.messages import ServerSpec
from llm_lite.desktop.features.tools.host import read, write
from llm_lite.desktop.features.tools.model import (
    ImportFunctions,
    RemoveServer,
    SetFunctions,
    SetServer,
)
from llm_lite.desktop.features.tools.state import LONGEST_DECLARED
from tests.desktop.tools import test_tools
from tests.desktop.tools.functions import WEATHER
from tests.desktop.tools.test_tools import Chat

chat = test_tools.chat  # a fixture


def test_what_is_declared_is_kept_and_offered_when_it_is_switched_on(tmp_path):
    path = tmp_path / "tools.json"
    spec = ServerSpec("s", "a 'b c'", (("KEY", "v=1"),), 5.0, 60.0)
    write(path, WEATHER, (spec,))
    assert read(path) == (WEATHER, (spec,))
    assert sys.platform == "win32" or path.stat().st_mode & 0o077 == 0  # it may hold keys
    one = Chat(tmp_path, "Hi.")
    assert one.state.tools.servers[0].spec == spec and one.state.tools.servers[0].status == "off"
    assert [f.name for f in one.state.tools.functions] == ["weather"] and not one.state.tools.on
    one.do(RemoveServer("s"), SetFunctions("[{]"))
    one.close()
    assert read(path) == ("[{]", ())  # also while it is not right yet


def test_a_text_that_is_too_long_costs_no_server(tmp_path):
    spec = ServerSpec("s", "a")
    one = Chat(tmp_path, "Hi.")
    one.do(SetServer(spec), SetFunctions("[" + " " * 2 * LONGEST_DECLARED))
    problem = one.state.tools.problem
    one.close()
    again = Chat(tmp_path, "Hi.")
    assert [server.spec for server in again.state.tools.servers] == [spec]
    assert again.state.tools.problem == problem and "at most" in problem
    again.close()


def test_nothing_is_written_over_a_file_that_cannot_be_read(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text('{"servers": 5}')
    one = Chat(tmp_path, "Hi.")
    assert "servers: expected a list" in one.state.notices[-1].text
    one.do(SetFunctions(WEATHER))
    one.close()
    assert path.read_text() == '{"servers": 5}'


BROKEN = {
    '{"functions": 5}': "functions: expected a text",
    '{"servers": [5]}': "servers[0]: expected an object, found 5",
    '{"servers": [{"name": "a b"}]}': "servers[0].name: expected letters, digits",
    '{"servers": [{"name": "a"}]}': "servers[0].command: is missing: expected a text",
    '{"servers": [{"name": "a", "command": "b", "environment": {"A": 1}}]}': "A: expected a text",
    '{"servers": [{"name": "a", "command": "b", "call_seconds": 1e9}]}': "call_seconds: expected",
    "[": "not valid JSON",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_is_wrong_is_a_sentence(tmp_path, text):
    path = tmp_path / "tools.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"tools\.json") as told:
        read(path)
    assert BROKEN[text] in str(told.value)


def test_functions_are_imported_and_a_file_that_is_none_is_told(chat, tmp_path):
    one = chat("Hi.")
    (tmp_path / "f.json").write_text(WEATHER)
    one.do(ImportFunctions(str(tmp_path / "f.json")))
    assert [f.name for f in one.state.tools.functions] == ["weather"]
    (tmp_path / "g.json").write_bytes(b"\xff")
    one.do(ImportFunctions(str(tmp_path / "g.json")), ImportFunctions(str(tmp_path / "none")))
    told = [notice.text for notice in one.state.notices]
    assert "not valid UTF-8" in told[-2] and "none" in told[-1]
    one.do(SetFunctions("[{]"))
    assert one.state.tools.problem.startswith("line 1, column 3")
    assert [f.name for f in one.state.tools.functions] == ["weather"]  # those of before
