"""The terminal commands, in this process and as a person starts them."""

import builtins
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from core import catalog
from core.engine import Engine
from core.messages import TokenDecoded
from desktop.cli import main
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors
from tests.runners import BACKENDS

NUMPY = ("--backend", "numpy")
GREEDY = ("--temperature", "0", "--repetition-penalty", "1")
ROOT = Path(__file__).parents[2]


def chat(model, *more, tokens=8):
    return main(["chat", str(model), *NUMPY, *GREEDY, "--max-new-tokens", str(tokens), *more])


def sentence(capsys):
    """The one line on standard error; nothing on standard output."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("llm-lite: ")
    assert err.count("\n") == 1
    return err


def spawn(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "desktop.cli", *map(str, arguments)],
        cwd=ROOT,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        env=os.environ | options.pop("env", {}),
        **options,
    )


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
    assert set(answer) == {"text", "tokens", "prompt_tokens", "stop_reason", "stats"}
    assert len(answer["tokens"]) == 8
    assert (answer["prompt_tokens"], answer["stop_reason"]) == (23, "length")
    assert {"prefill_tok_s", "decode_tok_s", "ttft_ms", "peak_rss_bytes"} <= set(answer["stats"])
    assert all(answer["stats"][k] > 0 for k in ("prefill_tok_s", "ttft_ms", "peak_rss_bytes"))


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


def test_numbers_that_are_none(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["chat", "--device", "x"])
    assert caught.value.code == 2
    assert "--device: expected a whole number, found 'x'" in capsys.readouterr().err


def broken_models():
    whole = build_gguf(llama_metadata(TinyLlama()), llama_tensors(TinyLlama()))
    other = llama_metadata(TinyLlama()) | {"general.architecture": "other"}
    return {
        "is not a GGUF file": b"PNG" + whole[3:],
        "is empty": b"",
        "truncated": whole[:5000],
        "ends": whole[: len(whole) - 4000],
        "'other' is not known": build_gguf(other, llama_tensors(TinyLlama())),
    }


@pytest.mark.parametrize("kind", broken_models())
@pytest.mark.parametrize("command", ["chat", "logits"])
def test_a_broken_model_is_named(tmp_path, capsys, kind, command):
    path = tmp_path / "broken.gguf"
    path.write_bytes(broken_models()[kind])
    more = ["-p", "x"] if command == "chat" else ["--text", "x", "--out", str(tmp_path / "x.npy")]
    assert main([command, str(path), *NUMPY, *more]) == 1
    assert str(path) in sentence(capsys)
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("command", [["chat", "-p", "x"], ["bench"]])
def test_models_that_are_not_there(tmp_path, capsys, command):
    missing = tmp_path / "missing.gguf"
    assert main([command[0], str(missing), *command[1:], *NUMPY]) == 1
    assert f"{missing}: no such file" in sentence(capsys)
    assert main([command[0], "no-such-model", *command[1:], *NUMPY]) == 1
    assert catalog.DEFAULT in sentence(capsys)


WRONG_USAGE = (
    ["chat", "--no-such-option"],
    ["chat", "--backend", "abacus"],
    ["chat", "--device", "-1"],
    ["chat", "--threads", "many"],
    ["chat", "--max-new-tokens", "0"],
    ["logits", "model.gguf", "--out", "x.npy"],
    ["logits", "model.gguf", "--text", "a", "--tokens", "1", "--out", "x.npy"],
    ["logits", "model.gguf", "--text", "a"],
    ["models"],
    ["tour"],
)


@pytest.mark.parametrize("words", WRONG_USAGE, ids=" ".join)
def test_wrong_usage(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: llm-lite" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["chat", "--help"], ["--version"]])
def test_help_and_version(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    assert "llm-lite" in capsys.readouterr().out


def logits(model, out, *more):
    return main(["logits", str(model), *NUMPY, "--out", str(out), *more])


def test_logits(tiny_llama, tmp_path, capsys):
    out = tmp_path / "x.npy"
    ids = list(range(70, 140))  # more than one step takes
    assert logits(tiny_llama, out, "--tokens", ",".join(map(str, ids)), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    rows = np.load(out)
    assert (rows.dtype, rows.shape) == (np.float32, (70, 300))
    assert (report["tokens"], report["shape"]) == (ids, [70, 300])
    assert (report["keys"], report["activations"], report["backend"]) == ("fp32", "a32", "numpy")
    assert list(tmp_path.iterdir()) == [out], "nothing is left beside it"
    text = tmp_path / "text.txt"
    text.write_text("on the sea", encoding="utf-8")
    assert logits(tiny_llama, tmp_path / "a.npy", "--text-file", str(text)) == 0
    assert logits(tiny_llama, tmp_path / "b.npy", "--text", "on the sea") == 0
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


BAD_LOGITS = {
    "--tokens: expected numbers": ("--tokens", "1,two,3"),
    "--tokens: expected numbers with commas between, found ''": ("--tokens", ""),
    "token 300 is outside the vocabulary": ("--tokens", "1,300"),
    "token -1 is outside": ("--tokens=-1",),
    f"token {1 << 70} is outside": ("--tokens", str(1 << 70)),
    "the prompt is empty": ("--text", ""),
    "129 tokens, but the context holds 128": ("--tokens", ",".join(["5"] * 129)),
    "is not valid UTF-8 at byte 2": ("--text-file", "{tmp}/latin1.txt"),
    "no-such.txt: cannot be read": ("--text-file", "{tmp}/no-such.txt"),
}


@pytest.mark.parametrize("words", BAD_LOGITS)
def test_logits_of_nonsense(tiny_llama, tmp_path, capsys, words):
    (tmp_path / "latin1.txt").write_bytes(b"ab\xe4")
    more = [word.replace("{tmp}", str(tmp_path)) for word in BAD_LOGITS[words]]
    assert logits(tiny_llama, tmp_path / "x.npy", *more) == 1
    assert words in sentence(capsys)
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("place", ["no/such/x.npy", ".", "/", "folder", "n" * 300])
def test_a_place_that_cannot_be_written(tiny_llama, tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert logits(tiny_llama, place, "--text", "x") == 1
    text = sentence(capsys)
    assert "cannot be written" in text or "is a directory" in text
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_leaves_what_was_there(tiny_llama, tmp_path, capsys, monkeypatch):
    out = tmp_path / "x.npy"
    out.write_bytes(b"precious")

    def full(file, array):
        file.write(b"some")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert logits(tiny_llama, out, "--text", "x") == 1
    assert f"{out}: cannot be written: No space left on device" in sentence(capsys)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x.npy", b"precious")]


def test_models_list(capsys):
    assert main(["models", "list"]) == 0
    assert catalog.DEFAULT in capsys.readouterr().out
    assert main(["models", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) == {"name", "title", "licence", "path", "bytes"}


def test_a_conversation(tiny_llama, capsys, monkeypatch):
    """Turns reuse each other; a question that does not fit is refused, and the talk goes on."""
    typed = iter(["Hello there", "  ", "x" * 200, "And then?"])

    def answer(prompt):
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert chat(tiny_llama, tokens=4) == 0
    err = capsys.readouterr().err
    first, second = (line for line in err.splitlines() if line.startswith("["))
    assert "23 prompt tokens (0 reused)" in first
    reused = int(second.split("(")[1].split()[0])
    assert reused == 23 + 4 - 1, "all that the first turn left in the cache"
    assert "the context holds 128" in err


# As processes.


@pytest.fixture(scope="module")
def endless_llama(tmp_path_factory):
    """No token ends its answers."""
    size = TinyLlama(seed=2, context=100_000)
    metadata = llama_metadata(size) | {"tokenizer.ggml.token_type": [1] * size.vocab}
    del metadata["tokenizer.ggml.eos_token_id"]
    path = tmp_path_factory.mktemp("models") / "endless.gguf"
    path.write_bytes(build_gguf(metadata, llama_tensors(size)))
    return path


ENDLESS = ("-p", "Hello there", "--max-new-tokens", "90000", "--ctx", "95000")


def read_some(stream, count=12):
    seen = b""
    while len(seen) < count:
        byte = stream.read(1)
        assert byte, f"it ended after {seen!r}"
        seen += byte
    return seen


def test_interrupting_an_answer_keeps_what_was_said(endless_llama, capsys, monkeypatch):
    wait, seen = Engine.wait, []

    def interrupt_at_the_fifth_token(engine, timeout):
        events = wait(engine, timeout)
        before = len(seen)
        seen.extend(e for e in events if isinstance(e, TokenDecoded))
        if before < 5 <= len(seen):
            signal.raise_signal(signal.SIGINT)
        return events

    monkeypatch.setattr(Engine, "wait", interrupt_at_the_fifth_token)
    assert main(["chat", str(endless_llama), *ENDLESS, *NUMPY, "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert answer["stop_reason"] == "stopped"
    assert len(answer["tokens"]) == answer["stats"]["new_tokens"] == len(seen) >= 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_interrupting_a_stream(endless_llama, backend):
    process = spawn("chat", endless_llama, *ENDLESS, "--backend", backend)
    first = read_some(process.stdout)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - started < 2
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"[stopped]" in err
    assert (first + out).endswith(b"\n")


def test_interrupting_before_there_is_an_answer():
    process = spawn("chat", *NUMPY, "-p", "x", stdin=subprocess.PIPE)
    time.sleep(0.3)  # wherever it is now: starting, reading the file, about to answer
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode in (130, -signal.SIGINT)
    assert b"internal error" not in err


def test_a_reader_that_leaves(endless_llama):
    process = spawn("chat", endless_llama, *ENDLESS, *NUMPY)
    read_some(process.stdout)
    process.stdout.close()
    started = time.monotonic()
    assert process.wait(20) == 1
    assert time.monotonic() - started < 3
    assert process.stderr.read() == b""
    process.stderr.close()


def test_output_that_nobody_takes():
    process = spawn("models", "list")
    process.stdout.close()
    assert process.wait(20) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("models", "list"), ("chat", "-p", "x", *NUMPY, *GREEDY)])
def test_a_full_disk_behind_the_output(tiny_llama, words):
    words = (words[0], tiny_llama, *words[1:]) if words[0] == "chat" else words
    with Path("/dev/full").open("wb") as full:
        process = spawn(*words, stdout=full)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"No space left" in err
    assert b"Traceback" not in err


def test_standard_input(tiny_llama):
    arguments = ("chat", tiny_llama, *NUMPY, *GREEDY, "--max-new-tokens", "4", "--json")
    typed = spawn(*arguments, stdin=subprocess.PIPE)
    out, _ = typed.communicate("바다 on the sea".encode(), timeout=30)
    given = spawn(*arguments, "-p", "바다 on the sea")
    assert json.loads(out)["tokens"] == json.loads(given.communicate(timeout=30)[0])["tokens"]
    bad = spawn(*arguments, stdin=subprocess.PIPE)
    out, err = bad.communicate(b"ab\xff", timeout=30)
    assert (bad.returncode, out) == (1, b"")
    assert b"not valid UTF-8" in err
    assert err.count(b"\n") == 1


def test_a_terminal_of_few_characters(tiny_llama):
    arguments = ("chat", tiny_llama, *NUMPY, *GREEDY, "-p", "Hello there", "--max-new-tokens", "30")
    process = spawn(*arguments, env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert b"?" in out


IMPORTS = """
import sys
from desktop.cli import main
code = main({words!r})
loaded = sorted({{"imgui_bundle", "glfw", "vulkan"}} & set(sys.modules))
print(code, loaded, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["chat", "logits", "models"])
def test_the_terminal_needs_no_window(tiny_llama, tmp_path, command):
    words = {
        "chat": ["chat", str(tiny_llama), *NUMPY, "-p", "x", "--max-new-tokens", "2"],
        "logits": ["logits", str(tiny_llama), *NUMPY, "--text", "x", "--out", f"{tmp_path}/x.npy"],
        "models": ["models", "list"],
    }[command]
    process = subprocess.run(
        [sys.executable, "-c", IMPORTS.format(words=words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert process.stderr.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_bench(tiny_llama, capsys, backend):
    words = ["bench", str(tiny_llama), "--backend", backend, "--kv", "fp32", "--repeat", "2"]
    sizes = ["--prompt-tokens", "9", "--new-tokens", "4", "--depth", "5"]
    assert main([*words, *sizes, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = {"backend": backend, "mode": "as-stored", "prompt_tokens": 9, "new_tokens": 4}
    assert expected.items() <= report.items()
    assert (report["depth"], report["model"]) == (5, "Tiny llama 2")
    assert {"device", "activations", "threads", "weight_bytes", "bandwidth_share"} <= set(report)
    for rate in ("prefill_tok_s", "decode_tok_s"):
        assert set(report[rate]) == {"median", "min", "max"}
        assert 0 < report[rate]["min"] <= report[rate]["median"] <= report[rate]["max"]
    assert report["read_gb_s_measured"] > 0
    assert main([*words, *sizes]) == 0
    assert "tok/s" in capsys.readouterr().out


def test_doctor_measures_modes(tiny_llama, capsys):
    words = ["doctor", "--benchmark-modes", "--model", str(tiny_llama), "--backend", "cpu"]
    assert main([*words, "--json"]) == 0
    modes = json.loads(capsys.readouterr().out)["modes"]
    speeds = {row["mode"]: row["decode_tok_s"] for row in modes["rows"]}
    assert set(speeds) == {"as-stored", "fp32", "fp16", "int8", "int4"}
    assert min(speeds.values()) > 0 and modes["recommended"] in speeds and modes["reason"]
    assert main(words) == 0
    assert "\nRecommended " in capsys.readouterr().out


def test_doctor(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"processor", "devices", "auto"}
    assert report["processor"]["threads"] >= 1
    for device in report["devices"]:
        assert {"name", "kind", "queue_families", "features", "usable"} <= set(device)
    auto = report["auto"]
    assert auto["backend"] in ("vulkan", "cpu")
    assert auto["reason"]
    if all(device["kind"] == "software" for device in report["devices"]):
        assert auto["backend"] == "cpu"
    assert main(["doctor", "--backend", "cpu"]) == 0
    out = capsys.readouterr().out
    assert report["processor"]["name"] in out
    assert "Auto        cpu" in out
    assert "because --backend cpu asks for it" in out
    assert all(device["name"] in out for device in report["devices"])
