"""A model that thinks, in the terminal: dimmed there, left out of files and of later turns."""

import json
import sys
from types import SimpleNamespace

import pytest

from llm_lite.cli.conversation import saved
from llm_lite.cli.conversation.commands import run_command
from llm_lite.cli.conversation.conversation import TerminalConversation
from llm_lite.cli.main import main
from llm_lite.cli.terminal.answering import generate
from llm_lite.core.errors import RequestError
from llm_lite.core.handles import CANCELLED, CLOSING, Handle, Outbox
from llm_lite.core.messages import (
    ChatMessage,
    EngineOptions,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Thinking,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.cli.terminal_runs import GREEDY, NUMPY
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.make_gguf import write_tiny_llama

INSIDE = Thinking("think", inside=True)
PIECES = ("\nso", " it", " is\n</th", "ink>", "\n\n", "Yes", ".")
OPENING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}<think>\n{% endif %}{% endif %}"
)


class Scripted:
    """An engine that answers each question with the next list of pieces."""

    def __init__(self, *answers, thinking=INSIDE):
        self.answers, self.thinking = list(answers), thinking
        self.asked, self._outbox = [], Outbox(None)

    def submit(self, command):
        self.asked.append(command)
        handle = Handle(command, self._outbox.put)
        handle.emit(GenerationStarted(5, 0, (), self.thinking))
        for n, piece in enumerate(self.answers.pop(0)):
            handle.emit(TokenDecoded(n, piece, 0.5, n))
        handle.finish(GenerationFinished("end", GenerationStats(new_tokens=7)))
        return handle

    def wait(self, seconds):
        return self._outbox.poll()


def ask(engine, **changes):
    return generate(engine, Generate((ChatMessage("user", "Why?"),), **changes), shown=True)


def talk_with(engine, **changes):
    model = SimpleNamespace(
        **{
            n: getattr(MODEL, n)
            for n in ("name", "vocabulary", "context", "has_chat_template", "sampling")
        }
    )
    model.switches_thinking = changes.pop("switches", True)
    model.template_variables = changes.pop("variables", ())
    return TerminalConversation(engine, model, EXECUTOR, EngineOptions(), {}, **changes)


@pytest.mark.parametrize("together", [True, False])
def test_a_pipe_gets_what_is_said(capsys, together):
    answer = ask(Scripted(["".join(PIECES)] if together else PIECES))
    out, err = capsys.readouterr()
    assert out == "Yes.\n"
    assert (answer.text, answer.thought) == ("Yes.", "so it is")
    assert answer.tokens == list(range(1 if together else 7))
    if not together:
        assert answer.thought_tokens == 5
        assert "thoughts of 5 tokens are not in the output" in err


def test_a_terminal_gets_thoughts_dimmed(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ask(Scripted(PIECES))
    out, err = capsys.readouterr()
    dimmed = "".join(f"\x1b[2m{piece}\x1b[22m" for piece in ("so", " it", " is"))
    assert out == f"{dimmed}\n\nYes.\n"
    assert "not in the output" not in err
    monkeypatch.setenv("TERM", "dumb")
    ask(Scripted(PIECES))
    assert capsys.readouterr().out == "so it is\n\nYes.\n"


def test_thoughts_that_hold_control_characters_are_harmless(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    ask(Scripted(["a\x1b]0;x\x07", "</think>b"]))
    assert "\x1b]" not in capsys.readouterr().out


def test_an_answer_without_end_of_thoughts(capsys):
    answer = ask(Scripted(["so", " it</th"]))
    assert (answer.text, answer.thought) == ("", "so it</th")
    assert capsys.readouterr().out == "\n"


def test_the_next_turn_is_told_both_parts(capsys):
    engine = Scripted(PIECES, ["on</think>", "No."])
    talk = talk_with(engine)
    talk.submit("Why?")
    talk.submit("And?")
    (_, told, _) = engine.asked[1].messages
    assert told == ChatMessage("assistant", "Yes.", tuple(range(7)), "so it is")
    assert talk.messages[-1].content == "No."


def test_what_was_stopped_within_thoughts_is_continued_there(capsys):
    engine = Scripted(["so"], [" it</think>", "Yes"], ["."], thinking=Thinking("think"))
    engine.answers[0] = ["<think>so"]
    talk = talk_with(engine)
    talk.submit("Why?")
    assert (talk.messages[-1].content, talk.messages[-1].thought) == ("", "so")
    talk.continue_last()
    talk.continue_last()
    assert talk.messages[-1].content == "Yes."
    assert talk.messages[-1].thought == "so it"


def test_the_switch_of_a_conversation(capsys):
    engine = Scripted(PIECES, PIECES)
    talk = talk_with(engine)
    talk.submit("Why?")
    run_command(talk, "/think off")
    assert "thinking: off" in capsys.readouterr().err
    talk.submit("Why?")
    assert [command.thinking for command in engine.asked] == [True, False]
    with pytest.raises(RequestError, match="no switch"):
        run_command(talk_with(engine, switches=False), "/think")
    with pytest.raises(RequestError, match="expected one of on, off"):
        run_command(talk, "/think maybe")


def test_the_effort_of_a_conversation(capsys):
    engine = Scripted(PIECES, PIECES, PIECES)
    values = {"documents": []}
    talk = talk_with(engine, variables=("messages", "reasoning_effort"), values=values)
    for line in ("/effort high", "/effort", "/effort off"):
        run_command(talk, line)
        talk.submit("Why?")
        told = "off" if line.endswith("off") else "high"
        assert f"effort: {told}" in capsys.readouterr().err
    high = {"documents": [], "reasoning_effort": "high"}
    assert [command.values for command in engine.asked] == [high, high, values]
    assert values == {"documents": []}
    with pytest.raises(RequestError, match=f"template of {MODEL.name} takes no effort"):
        run_command(talk_with(engine), "/effort low")
    elsewhere = talk_with(engine)
    elsewhere.executor = replace(EXECUTOR, backend="remote")
    run_command(elsewhere, "/effort low")  # servers name what they leave out
    assert elsewhere.values == {"reasoning_effort": "low"}


def test_thoughts_are_saved_and_opened(tmp_path, capsys):
    talk = talk_with(Scripted(PIECES))
    talk.submit("Why?")
    said = talk.messages
    saved.save(talk, str(tmp_path / "talk.json"))
    talk.begin()
    saved.open_kept(talk, str(tmp_path / "talk.json"))
    assert talk.messages == said
    assert said[-1].thought == "so it is"


def test_a_real_template_is_switched_from_the_command_line(tmp_path, capsys):
    path = write_tiny_llama(tmp_path / "thinker.gguf", {"tokenizer.chat_template": OPENING})

    def answer(*more):
        words = ["chat", str(path), *NUMPY, *GREEDY, "--max-new-tokens", "4", "--json", "-p", "Hi"]
        assert main([*words, *more]) == 0
        return json.loads(capsys.readouterr().out)

    thinking, plain = answer(), answer("--no-thinking")
    assert (thinking["text"], bool(thinking["thought"])) == ("", True)
    assert (bool(plain["text"]), plain["thought"]) == (True, "")
    assert thinking["prompt_tokens"] > plain["prompt_tokens"]


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of this kind are Unix'")
@pytest.mark.parametrize(("term", "dimmed"), [("xterm", True), ("dumb", False)])
def test_a_terminal_of_its_own(tmp_path, term, dimmed):
    from tests.cli.on_terminal import on_terminal

    path = write_tiny_llama(tmp_path / "thinker.gguf", {"tokenizer.chat_template": OPENING})
    words = ["chat", path, *NUMPY, *GREEDY, "--max-new-tokens", "6", "-p", "Hello"]
    for more, expected in (((), dimmed), (("--no-thinking",), False)):
        with on_terminal(*words, *more, home=tmp_path, term=term) as terminal:
            assert ("\x1b[2m" in terminal.until("tok/s")) is expected
            assert terminal.end()[0] == 0


class Ending(Scripted):
    """It does not come to a question."""

    def __init__(self, problem, **options):
        super().__init__()
        self.problem, self.options = problem, options

    def submit(self, command):
        handle = Handle(command, self._outbox.put)
        handle.end(self.problem, **self.options)
        return handle


def test_an_answer_that_an_engine_does_not_come_to_is_not_waited_for():
    with pytest.raises(RequestError, match=CLOSING):
        ask(Ending(CLOSING))


def test_an_answer_that_was_cancelled_before_it_was_begun_was_stopped():
    answer = ask(Ending(CANCELLED, unwanted=True))
    assert (answer.finished.stop_reason, answer.text, answer.tokens) == ("stopped", "", [])
