"""A conversation on a terminal of its own: odd bytes, a full context, commands, the line editor."""

import json
import os
import re
import stat
import sys

import pytest

from llm_lite.cli.conversation import loop
from llm_lite.cli.conversation.commands import COMMANDS
from llm_lite.cli.conversation.conversation import CONTINUED
from tests.cli.terminal_runs import GREEDY, NUMPY
from tests.make_gguf import (
    TinyLlama,
    build_gguf,
    llama_metadata,
    llama_tensors,
    write_endless_llama,
)

if sys.platform == "win32":
    pytest.skip("terminals of this kind are Unix'", allow_module_level=True)

from tests.cli.on_terminal import on_terminal

ANSWERED = "tok/s\r\n"


@pytest.fixture
def talk(tiny_llama, tmp_path):
    """A conversation in plain lines, past its greeting."""
    words = ("chat", tiny_llama, *NUMPY, *GREEDY, "--max-new-tokens", "6")
    with on_terminal(*words, home=tmp_path) as terminal:
        terminal.until("> ")
        yield terminal


@pytest.fixture
def endless(tmp_path):
    return write_endless_llama(tmp_path / "endless.gguf")


def say(terminal, line):
    """What is answered to a line, up to the next prompt."""
    terminal.line(line)
    terminal.until("\n")  # the echo
    answer = ""
    while not answer:  # a line that came before the program listened is echoed behind a prompt too
        answer = terminal.until("> ").removesuffix("> ").strip()
    return answer


def leave(terminal):
    terminal.type(b"\x04")
    assert terminal.end() == (0, "\r\n")


def test_bytes_that_are_no_text(talk):
    talk.type(b"a\xff\xfe\r")
    assert "llm-lite: the line is not valid UTF-8 at byte 1" in talk.until("> ")
    assert "[length]" in say(talk, "Hello there")
    leave(talk)


def test_a_full_context_forgets_and_says_so_once(talk):
    answers = [say(talk, "on the sea on the sea on the sea " + str(n)) for n in range(8)]
    assert all("[length]" in answer for answer in answers), answers
    told = [answer for answer in answers if "the model no longer sees" in answer]
    assert len(told) == 1
    assert re.search(r"the context of 128 tokens is full: .* \d+ tokens .* \(positions ", told[0])
    assert say(talk, "/overflow stop") == "overflow: stop"
    assert "but the context holds 128" in say(talk, "and now?")
    assert say(talk, "/new") == "a new conversation"
    assert "[length]" in say(talk, "and now?")
    leave(talk)


def test_commands_change_how_it_answers(talk):
    first = say(talk, "Hello there")
    assert say(talk, "/temperature 1.5") == "temperature: 1.5"
    others = {say(talk, "/retry").split("[length]")[0] for _ in range(3)}
    assert len(others | {first.split("[length]")[0]}) > 1, "another seed gives another answer"
    assert say(talk, "/temperature 0") == "temperature: 0.0"
    again = say(talk, "/edit Hello there")
    assert again.split("[length]")[0] == first.split("[length]")[0]
    longer = say(talk, "/continue")
    assert "(0 reused)" not in longer
    shown = say(talk, "/show")
    assert shown.count("user:") == shown.count("assistant:") == 1
    assert "taken back: Hello there" in say(talk, "/undo")
    assert "there is no answer yet" in say(talk, "/undo")
    assert say(talk, "/system Be brief").endswith("Be brief")
    said = say(talk, "Hello there")
    before, after = (int(re.search(r"(\d+) prompt tokens", text)[1]) for text in (first, said))
    assert after > before
    stats = say(talk, "/stats")
    assert "first token after" in stats
    assert re.search(r"cache: \d+ of 128 tokens", stats)
    leave(talk)


def test_nothing_that_was_said_is_lost_by_another_answer_or_question(talk, tmp_path):
    assert "/retry and /edit do that" in say(talk, "/version")
    say(talk, "/temperature 1.5")
    say(talk, "Hello there")
    first = say(talk, "/show")
    say(talk, "/retry")
    second = say(talk, "/show")
    assert first != second
    assert "message 2, version 2 of 2: " in say(talk, "/version")
    say(talk, "/version 1")
    assert say(talk, "/show") == first
    say(talk, "And then?")
    longer = say(talk, "/show")
    assert longer.startswith(first) and longer.count("user:") == 2
    say(talk, "/version 2.2")
    assert say(talk, "/show") == second
    say(talk, "/edit Good evening")
    assert "message 1, version 2 of 2: Good evening" in say(talk, "/version")
    file = tmp_path / "talk.json"
    assert "2 messages, 5 of other versions left out" in say(talk, f"/save {file}").replace(
        "\r\n", ""
    )
    say(talk, "/version 1.1")
    assert say(talk, "/show") == second, "as it was left"
    say(talk, "/version 1")
    assert say(talk, "/show") == longer
    assert "expected 1 to 2, found 3" in say(talk, "/version 3")
    assert "expected message 1, 2, found '4'" in say(talk, "/version 4.1")
    assert "expected a whole number, found 'x'" in say(talk, "/version x")
    leave(talk)


def test_a_slash_twice_is_text(talk):
    assert "[length]" in say(talk, "//tmp is a folder")
    assert "  /tmp is a folder" in say(talk, "/show")
    leave(talk)


def test_other_executors_and_models(talk, tiny_llama):
    assert "backend: cpu" in say(talk, "/backend cpu")
    assert "mode: int8" in say(talk, "/mode int8")
    assert "activations: a8" in say(talk, "/activations a8")
    assert say(talk, "/kv int8,fp16").endswith("kv: int8 keys, fp16 values")
    assert say(talk, "/kv int8,int4").endswith("kv: int8 keys, int4 values")
    assert say(talk, "/context 64").endswith("context: 64 tokens, 128 trained")
    assert "[length]" in say(talk, "Hello")
    assert "no such file" in say(talk, "/model /no/such.gguf")
    assert f"from {tiny_llama}" in say(talk, f"/model {tiny_llama}").replace("\r\n", "")
    assert "expected at most 128" in say(talk, "/context 4000")
    assert "[length]" in say(talk, "Hello")
    leave(talk)


REFUSED = {
    "/tempature 1": "there is no command /tempature: the nearest is /temperature",
    "/temperature hot": "/temperature: expected a number, found 'hot'",
    "/temperature -1": "temperature: expected 0.0 to 100.0, found -1",
    "/top-k 1.5": "/top-k: expected a whole number, found '1.5'",
    "/overflow sometimes": "/overflow: expected one of stop, forget-middle, rolling",
    "/mode int": "/mode: expected one of as-stored, fp32, fp16, int8, int4, found 'int'",
    "/gains 9.0=1": "/gains: there is no head 9.0: the model has layers 0 to 1 and heads 0 to 3",
    "/gains 0.0=loud": "/gains: expected layer.head=gain such as 0.1=0",
    "/retry": "there is no answer yet",
    "/continue": "there is no answer yet",
    "/stats now": "/stats takes nothing, found 'now'",
    "/open /no/such": "/no/such: no such file",
    "/save /no/such/x": "/no/such/x: cannot be written: there is no directory /no/such",
    "/attention x.npz": "/attention: expected a file and heads such as 0.1",
}


def test_commands_that_are_refused(talk):
    for line, problem in REFUSED.items():
        assert f"llm-lite: {problem}" in say(talk, line), line
    assert "[length]" in say(talk, "Hello")
    leave(talk)


def test_help_names_every_command(talk):
    shown = say(talk, "/help")
    assert all(f"/{name}" in shown for name in COMMANDS)
    leave(talk)


def test_a_conversation_is_saved_and_opened(talk, tiny_llama, tmp_path):
    say(talk, "Hello there")
    assert "2 messages" in say(talk, f"/save {tmp_path}/talk.json")
    assert "there is such a file already" in say(talk, f"/save {tmp_path}/talk.json")
    assert "the cache was saved" in say(talk, f"/save-cache {tmp_path}/talk.kv")
    kept = json.loads((tmp_path / "talk.json").read_text("utf-8"))
    assert [m["role"] for m in kept["messages"]] == ["user", "assistant"]
    say(talk, "/new")
    assert "2 messages" in say(talk, f"/open {tmp_path}/talk.json")
    assert "tokens came back into the cache" in say(talk, f"/open {tmp_path}/talk.kv")
    reused = re.search(r"\((\d+) reused\)", say(talk, "And then?"))
    assert int(reused[1]) >= 23
    leave(talk)


DAMAGED = {
    "is no conversation": {"messages": []},
    "messages[0]: expected a message of role user": {"messages": [{"role": "assistant"}]},
    "messages[0].content: expected a text": {"messages": [{"role": "user", "content": 5}]},
    "questions and answers in turns": {"messages": [{"role": "user", "content": "x"}]},
    "messages[1].tokens: expected numbers below 300": {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "y", "tokens": [300]},
        ]
    },
}


def test_damaged_conversations(talk, tmp_path):
    for number, (problem, document) in enumerate(DAMAGED.items()):
        path = tmp_path / f"{number}.json"
        known = {"llm-lite": 1, "model": "Tiny llama 2"} if number else {}
        path.write_text(json.dumps(document | known), "utf-8")
        assert problem in say(talk, f"/open {path}").replace("\r\n", ""), problem
    os.mkfifo(tmp_path / "fifo")
    assert "it is not a regular file" in say(talk, f"/open {tmp_path}/fifo")
    leave(talk)


def test_maps_of_heads_to_a_file(talk, tmp_path):
    say(talk, "Hello there")
    assert "gains: 0.1=0" in say(talk, "/gains 0.1=0")
    assert "gains: all 1" in say(talk, "/gains off")
    assert "maps of 2 heads" in say(talk, f"/attention {tmp_path}/x.npz 0.1 1.3")
    assert (tmp_path / "x.npz").exists()
    leave(talk)


def test_lines_that_go_on(talk):
    talk.line("Hello \\")
    talk.until(". ")
    assert "[length]" in say(talk, "there")
    assert "  Hello \r\n  there" in say(talk, "/show")
    leave(talk)


def test_interrupts_clear_the_line_and_stop_answers(endless, tmp_path):
    sampling = ("--temperature", "1", "--seed", "4", "--max-new-tokens", "100000")
    words = ("chat", endless, *NUMPY, *sampling)
    with on_terminal(*words, home=tmp_path) as terminal:
        terminal.until("> ")
        terminal.type("half a line\x03")
        terminal.until("\n")  # not the prompt of the line that is left, which may be drawn again
        terminal.until("> ")
        terminal.line("Hello there")
        terminal.until("\n", 2)  # of the line, and of the model, which has begun to talk
        terminal.type("\x03")
        assert "[stopped]" in terminal.until("\r\n> ")  # behind what its drafts brought
        terminal.line("/show")
        terminal.until("\n")  # the echo
        # What the model said is random and may hold a prompt's "> ", but not at the very end.
        assert "user:\r\n  Hello there\r\nassistant:" in terminal.until("\r\n> ")
        terminal.line("/quit")
        assert terminal.end()[0] == 0


def test_what_a_model_says_does_not_reach_the_terminal_as_control(tmp_path):
    size = TinyLlama(seed=2)
    metadata = llama_metadata(size) | {"general.name": "Evil\x1b[2J\x1b]0;title\x07\nllm-lite: ok"}
    path = tmp_path / "evil.gguf"
    path.write_bytes(build_gguf(metadata, llama_tensors(size)))
    sampling = ("--temperature", "1", "--seed", "1", "--max-new-tokens", "90")
    words = ("chat", path, *NUMPY, *sampling)
    with on_terminal(*words, home=tmp_path) as terminal:
        greeting = terminal.until("> ")
        assert "Evil\\x1b[2J\\x1b]0;title\\x07\\nllm-lite: ok" in greeting
        seen = "".join(say(terminal, f"Say {n}") for n in range(3))
        assert "[" in seen
        controls = set(re.findall(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", seen))
        assert controls == set()
        leave(terminal)


@pytest.fixture
def edited(tiny_llama, tmp_path):
    """A conversation with the line editor."""
    words = ("chat", tiny_llama, *NUMPY, *GREEDY, "--max-new-tokens", "6")
    with on_terminal(*words, term="xterm", home=tmp_path) as terminal:
        terminal.until(READY)
        yield terminal


READY = "\x1b[?2004h"  # bracketed paste on: the editor reads


def test_the_editor_remembers_completes_and_takes_several_lines(edited, tmp_path):
    edited.line("Hello there")
    edited.until("[length]")
    edited.until(READY)
    edited.type("two\x1b\r")  # Alt-Enter
    edited.line("lines")
    edited.until("[length]")
    edited.until(READY)
    edited.line("/show")
    assert "  two\r\n  lines" in edited.until(READY)
    edited.type("/temp\t")
    edited.until("erature")
    edited.line(" 0.25")
    edited.until("temperature: 0.25")
    edited.until(READY)
    edited.line("/edit")  # the question is there to be edited
    edited.until(READY)
    edited.line(" more")
    edited.until(" tok/s")  # sampled: it may end before its length
    edited.until(READY)
    edited.line("/show")
    assert "  lines more" in edited.until(READY)
    edited.type(b"ab\xffcd\r")
    edited.until("the line is not valid UTF-8")
    edited.until(READY)
    edited.type("gone\x03")
    edited.until(READY)
    edited.type("\x04")
    code, _ = edited.end()
    assert code == 0
    (full_editor,) = tmp_path.rglob("chat-history")
    assert stat.S_IMODE(full_editor.stat().st_mode) == 0o600
    typed = [json.loads(line) for line in full_editor.read_text("utf-8").splitlines()]
    assert typed[:3] == ["Hello there", "two\nlines", "/show"]
    assert all("\udcff" not in line for line in typed)


CODE = "What does this do?\rdef f(x):\r\tif x:\r\t\treturn 1"


def test_a_paste_without_marks_is_one_question(edited, tmp_path):
    """A terminal that marks no pastes gives their lines as if typed; tabs are no completion."""
    edited.type(CODE)  # in one write: what follows a line is there when the line is read
    edited.until("return 1")
    edited.type("\r")
    edited.until(" tok/s")
    edited.until(READY)
    edited.line("/show")
    assert "def f(x):" in edited.until(READY)
    edited.type("\x04")
    assert edited.end()[0] == 0
    (history,) = tmp_path.rglob("chat-history")
    first = json.loads(history.read_text("utf-8").splitlines()[0])
    assert first == CODE.replace("\r", "\n")


def test_commands_that_come_together_are_each_one(edited):
    edited.type("/temperature 0.25\r/top-k 7\r")
    edited.until("temperature: 0.25")
    edited.until("top-k: 7")
    edited.until(READY)
    edited.type("\x04")
    assert edited.end()[0] == 0


def test_a_paste_in_plain_lines_is_one_question(talk):
    talk.type(CODE.replace("\t", "    "))  # the terminal itself may show tabs in its own way
    talk.until(CONTINUED, 3)  # three lines were read, and the fourth one is expected
    talk.type("\r")
    talk.until(" tok/s")
    talk.until("> ")
    talk.line("/show")
    shown = talk.until("assistant:")
    assert shown.count("user:") == 1
    assert "  def f(x):\r\n      if x:\r\n          return 1\r\n" in shown


class Typed:
    """Lines of a terminal; `more` of them are followed by another at once."""

    def __init__(self, monkeypatch, *lines, more=0):
        self.lines, self.more = list(lines), more
        monkeypatch.setattr(loop, "_read_line", lambda before: self.lines.pop(0))
        monkeypatch.setattr(loop, "more_input", self._more_input)

    def _more_input(self):
        self.more -= 1
        return self.more >= 0


def test_the_unfinished_last_line_of_a_paste_is_of_it(monkeypatch):
    """The terminal keeps it until Enter, so that nothing seems to follow the line before it."""
    typed = Typed(monkeypatch, "What is this?", "def f(x):", "    return 1", "the next", more=1)
    assert loop.read_plain() == "What is this?\ndef f(x):\n    return 1"
    assert loop.read_plain() == "the next"
    assert typed.lines == []


def test_a_paste_with_an_end_waits_for_enter(monkeypatch):
    typed = Typed(monkeypatch, "one", "", "two", "", "", "the next", more=3)
    assert loop.read_plain() == "one\n\ntwo\n"
    assert loop.read_plain() == "the next"
    assert typed.lines == []


def test_lines_that_come_alone_are_a_message_each(monkeypatch):
    Typed(monkeypatch, "one", "", "two\\", "", "/help")
    assert [loop.read_plain() for _ in range(4)] == ["one", "", "two\n", "/help"]


def test_the_history_is_there_the_next_time(tiny_llama, tmp_path):
    place = tmp_path / "state" / "llm-lite" / "chat-history"
    place.parent.mkdir(parents=True)
    place.write_text('"older"\nnot JSON\n5\n"\\udcff"\n"Hello from before"\n', "utf-8")
    words = ("chat", tiny_llama, *NUMPY, *GREEDY, "--max-new-tokens", "6")
    with on_terminal(*words, term="xterm", home=tmp_path) as terminal:
        terminal.until(READY)
        terminal.type("\x1b[A")  # up
        terminal.until("Hello from before")
        terminal.type("\r")
        terminal.until("[length]")
        terminal.until(READY)
        terminal.type("\x04")
        assert terminal.end()[0] == 0


def test_history_that_has_grown_or_is_no_file(tmp_path, monkeypatch):
    from llm_lite.cli.conversation import full_editor

    monkeypatch.setattr(full_editor, "KEPT", 200)
    monkeypatch.setattr(full_editor, "GROWN", 1000)
    path = tmp_path / "h"
    kept = full_editor.LineHistory(path)
    for n in range(200):
        kept.store_string(f"line {n}")
        assert path.stat().st_size < 1100
    lines = list(kept.load_history_strings())
    assert lines[0] == "line 199" and len(lines) > 5
    os.mkfifo(tmp_path / "fifo")
    fifo = full_editor.LineHistory(tmp_path / "fifo")
    fifo.store_string("x")
    assert list(fifo.load_history_strings()) == []
    nowhere = full_editor.LineHistory(path / "no" / "folder")
    nowhere.store_string("x")
    assert list(nowhere.load_history_strings()) == []
