"""`llm-lite chat --connect`: a server answers, in the terminal as a model here does."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from llm_lite.cli.conversation import loop
from llm_lite.cli.main import main
from tests.cli.terminal_runs import sentence
from tests.core.remote.servers import ANSWER, KEY, scripted

WHOLE = "".join(ANSWER)


def test_an_answer(capsys: Any) -> None:
    with scripted("vllm") as server:
        assert main(["chat", "--connect", server.url, "-p", "Why?", "--system", "Be brief."]) == 0
        assert [m["role"] for m in server.chats[0]["messages"]] == ["system", "user"]
    out, err = capsys.readouterr()
    assert out == WHOLE + "\n" and "21 prompt tokens (16 reused)" in err


def test_an_answer_as_json_with_thoughts_and_a_key(capsys: Any) -> None:
    with scripted("vllm", key=KEY, thoughts=("Hm", ".")) as server:
        words = ["--api-key", KEY, "--model", "Qwen/Qwen3-8B", "-p", "Why?", "--json"]
        assert main(["chat", "--connect", server.url, *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["thought"], told["stop_reason"]) == (WHOLE, "Hm.", "end")


def test_a_conversation(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["Why?", "/model nothing", "/model gemma-3-4b-it", "/gains 0.1=0", "And?"])

    def answer(draft: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(loop, "make_editor", lambda commands: answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with scripted("lm-studio") as server:
        assert main(["chat", "--connect", server.url]) == 0
        first, second = server.chats
    assert (first["model"], second["model"]) == ("qwen3-8b", "gemma-3-4b-it")
    assert second["messages"][1] == {"role": "assistant", "content": WHOLE}
    err = capsys.readouterr().err
    assert "has no model 'nothing'; it has qwen3-8b, gemma-3-4b-it" in err
    assert "computes elsewhere" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--connect", "ftp://x"], "expected http"),
        (["--connect", "x", "--api-key", "a b"], "the key has characters"),
        (["--model", "x"], "--connect URL is missing"),
        (["here.gguf", "--connect", "x"], "give one of the two"),
    ],
)
def test_what_cannot_be(words: list[str], told: str, capsys: Any) -> None:
    assert main(["chat", *words, "-p", "x"]) == 1
    assert told in sentence(capsys)


def test_a_wrong_key(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_LITE_API_KEY", "sk-wrong")
    with scripted("vllm", key=KEY) as server:
        assert main(["chat", "--connect", server.url, "-p", "x"]) == 1
    assert "refuses the key (401)" in (told := sentence(capsys)) and "sk-wrong" not in told
