"""`llm-lite chat`: answers, conversations, and requests that cannot be served."""

import json
import subprocess
import sys

import pytest

from llm_lite.cli.conversation import loop
from llm_lite.cli.main import main
from tests.children import PATIENCE
from tests.cli.terminal_runs import GREEDY, NUMPY, sentence, spawn
from tests.make_gguf import (
    TinyLlama,
    build_gguf,
    llama_metadata,
    llama_tensors,
    write_tiny_llama,
)


def chat(model, *more, tokens=8):
    return main(["chat", str(model), *NUMPY, *GREEDY, "--max-new-tokens", str(tokens), *more])


def test_chat_streams_to_stdout_and_tells_on_stderr(tiny_llama, capsys):
    assert chat(tiny_llama, "-p", "Hello there", "--json") == 0
    text = json.loads(capsys.readouterr().out)["text"]
    assert chat(tiny_llama, "-p", "Hello there") == 0
    out, err = capsys.readouterr()
    assert out == text + "\n"
    assert "[length]" in err
    assert "23 prompt tokens" in err
    assert "8 tokens at" in err


def test_chat_as_json(tiny_llama, capsys):
    assert chat(tiny_llama, "-p", "Hello there", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert set(answer) == {
        "text", "thought", "tokens", "prompt_tokens", "stop_reason", "stats"
    }  # fmt: skip
    assert len(answer["tokens"]) == 8
    assert (answer["prompt_tokens"], answer["stop_reason"]) == (23, "length")
    assert {"prefill_tok_s", "decode_tok_s", "ttft_ms", "peak_rss_bytes"} <= set(answer["stats"])
    assert all(answer["stats"][k] > 0 for k in ("prefill_tok_s", "ttft_ms", "peak_rss_bytes"))


def test_interventions_of_a_file(tiny_llama, tmp_path, capsys):
    changes = tmp_path / "changes.json"
    head = {"kind": "scale", "site": "blocks.1.attn.hook_z", "factor": 0, "unit": 1}
    shift = {"kind": "shift", "site": "blocks.0.hook_resid_post", "vector": [0.5, -0.5] * 32}
    changes.write_text(json.dumps({"changes": [head, shift]}))

    def tokens(*more):
        assert chat(tiny_llama, "-p", "Hello there", "--json", *more) == 0
        return json.loads(capsys.readouterr().out)["tokens"]

    assert tokens("--interventions", str(changes)) != tokens()
    changes.write_text('{"changes": [{"kind": "shift", "site": "logits"}]}')
    assert chat(tiny_llama, "-p", "Hello", "--interventions", str(changes)) == 1
    assert "changes.json: changes[0].vector: is missing" in capsys.readouterr().err
    changes.write_text(json.dumps({"changes": [{**shift, "site": "embedding"}]}))
    assert chat(tiny_llama, "-p", "Hello", "--interventions", str(changes)) == 1
    assert "only what layers leave is shifted" in capsys.readouterr().err


def test_raw_system_and_seed(tiny_llama, capsys):
    def tokens(*more):
        assert (
            main(["chat", str(tiny_llama), *NUMPY, "--max-new-tokens", "6", "--json", *more]) == 0
        )
        return json.loads(capsys.readouterr().out)

    assert (
        tokens("-p", "on the", "--raw")["prompt_tokens"] < tokens("-p", "on the")["prompt_tokens"]
    )
    with_system = tokens("-p", "on the", "--system", "Be brief")
    assert with_system["prompt_tokens"] > tokens("-p", "on the")["prompt_tokens"]
    seeded = [tokens("-p", "on the", "--seed", seed)["tokens"] for seed in ("1", "1", "2")]
    assert seeded[0] == seeded[1] != seeded[2]


BAD_REQUESTS = {
    "temperature: expected": ("-p", "x", "--temperature", "-1"),
    "top-p: expected": ("-p", "x", "--top-p", "nan"),
    "the prompt is empty": ("-p", "", "--raw"),
    "tokens, but the context holds 16": ("-p", "x" * 30, "--ctx", "16"),
    "expected at most 128 tokens": ("-p", "x", "--ctx", "129"),
    "--prompt is not valid UTF-8": ("-p", "\udcff"),
    "--system is not valid UTF-8": ("-p", "x", "--system", "a\udcff"),
    "--prompt is empty": ("-p", " \n"),
}


@pytest.mark.parametrize("words", BAD_REQUESTS)
def test_a_request_that_cannot_be_served(tiny_llama, capsys, words):
    assert main(["chat", str(tiny_llama), *NUMPY, *BAD_REQUESTS[words]]) == 1
    assert words in sentence(capsys)


def test_a_device_that_is_not_there_is_said(tiny_llama, capsys):
    words = ["-p", "x", "--device", "99", "--max-new-tokens", "2"]
    assert main(["chat", str(tiny_llama), *words]) == 0
    assert "because there is no Vulkan device 99" in capsys.readouterr().err


def test_a_template_that_fails_names_its_file(tmp_path, capsys):
    path = tmp_path / "broken.gguf"
    template = {"tokenizer.chat_template": "{{ nothing.at.all }}"}
    path.write_bytes(build_gguf(llama_metadata(TinyLlama()) | template, llama_tensors(TinyLlama())))
    assert main(["chat", str(path), *NUMPY, "-p", "x"]) == 1
    assert sentence(capsys).startswith(f"llm-lite: {path}: the chat template fails")


def test_a_file_name_stays_on_one_line(capsys):
    assert main(["chat", "/nowhere/a\nb\x1b[31m.gguf", "-p", "x"]) == 1
    assert "/nowhere/a\\nb\\x1b[31m.gguf" in sentence(capsys)


def test_a_conversation(tiny_llama, capsys, monkeypatch):
    """Turns reuse each other; a question that does not fit is refused, and the talk goes on."""
    typed = iter(["Hello there", "  ", "x" * 200, "And then?"])

    def answer(draft):
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(loop, "make_editor", lambda commands: answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert chat(tiny_llama, "--overflow", "stop", tokens=4) == 0
    err = capsys.readouterr().err
    first, second = (line for line in err.splitlines() if line.startswith("["))
    assert "23 prompt tokens (0 reused)" in first
    reused = int(second.split("(")[1].split()[0])
    assert reused == 23 + 4 - 1, "all that the first turn left in the cache"
    assert "the context holds 128" in err


def test_standard_input(tiny_llama):
    arguments = ("chat", tiny_llama, *NUMPY, *GREEDY, "--max-new-tokens", "4", "--json")
    typed = spawn(*arguments, stdin=subprocess.PIPE)
    out, _ = typed.communicate("바다 on the sea".encode(), timeout=PATIENCE)
    given = spawn(*arguments, "-p", "바다 on the sea")
    assert json.loads(out)["tokens"] == json.loads(given.communicate(timeout=PATIENCE)[0])["tokens"]
    bad = spawn(*arguments, stdin=subprocess.PIPE)
    out, err = bad.communicate(b"ab\xff", timeout=PATIENCE)
    assert (bad.returncode, out) == (1, b"")
    assert b"not valid UTF-8" in err
    assert err.count(b"\n") == 1


def test_a_terminal_of_few_characters(tiny_llama):
    arguments = ("chat", tiny_llama, *NUMPY, *GREEDY, "-p", "Hello there", "--max-new-tokens", "30")
    process = spawn(*arguments, env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert b"?" in out


def test_drafts_are_told_and_change_nothing(tiny_llama, capsys):
    def said(speculate):
        words = ["-p", "ab ab ab ab ab", "--raw", "--speculate", speculate, "--json"]
        assert chat(tiny_llama, *words, tokens=60) == 0
        read = capsys.readouterr()
        return json.loads(read.out), read.err

    plain, drafted = said("off"), said("lookup")
    assert drafted[0]["tokens"] == plain[0]["tokens"]
    stats = drafted[0]["stats"]
    assert 0 < stats["accepted"] <= stats["drafted"] and stats["passes"] + stats["accepted"] == 59
    assert f"in {stats['passes']} passes, {stats['accepted']} of {stats['drafted']}" in drafted[1]
    assert (plain[0]["stats"]["passes"], plain[0]["stats"]["drafted"]) == (59, 0)
    assert "drafted" not in plain[1]


def test_a_model_without_a_template_continues_what_is_typed(tmp_path, capsys):
    """As one text, unless the person wants a chat."""
    base = write_tiny_llama(tmp_path / "base.gguf", {"tokenizer.chat_template": ""})

    def answered(*more):
        assert chat(base, "-p", "Once upon a time", "--json", *more) == 0
        return json.loads(capsys.readouterr().out)

    continued = answered()
    assert continued["tokens"] == answered("--raw")["tokens"]
    assert continued["tokens"] == answered("--form", "completion")["tokens"]
    asked = answered("--form", "chat")
    assert asked["prompt_tokens"] > continued["prompt_tokens"]


def test_the_terminal_says_that_a_text_goes_on(tmp_path, capsys, monkeypatch):
    base = write_tiny_llama(tmp_path / "base.gguf", {"tokenizer.chat_template": ""})
    lines = iter(("Once upon", "/form", "/form chat", "And you?", "/form", "/temperature", None))

    def read(draft):
        line = next(lines)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(loop, "make_editor", lambda commands: read)
    assert chat(base, tokens=4) == 0
    err = capsys.readouterr().err
    assert "has no chat template: what you type is one text" in err
    assert "form: completion (auto)" in err and "form: chat (chat)" in err
