"""What all terminal commands share: usage, models by name, no window."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from llm_lite.cli.main import _COMMANDS, main
from llm_lite.cli.parser import mistyped
from llm_lite.core.hub import catalog
from tests.children import PATIENCE
from tests.cli.terminal_runs import NUMPY, ROOT, sentence
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors


def test_numbers_that_are_none(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["chat", "--device", "x"])
    assert caught.value.code == 2
    assert "--device: expected a whole number, found 'x'" in capsys.readouterr().err


def test_two_dashes_are_no_value(capsys):
    """argparse would make an empty list of them, whatever the option takes."""
    with pytest.raises(SystemExit) as caught:
        main(["attention", "no-such-model", "--out=--", "--text=a"])
    assert caught.value.code == 2
    assert "argument --out: expected a value, found '--'" in capsys.readouterr().err


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
    ["logits", "model.gguf", "--text", "a", "--out", "x.npy", "--speculate", "lookup"],
    ["logits", "model.gguf", "--out", "x.npy"],
    ["logits", "model.gguf", "--text", "a", "--tokens", "1", "--out", "x.npy"],
    ["logits", "model.gguf", "--text", "a"],
    ["bench", "--temperature", "0"],
    ["models"],
    ["embed"],
)


@pytest.mark.parametrize("words", WRONG_USAGE, ids=" ".join)
def test_wrong_usage(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2, "a sentence, and where help is"
    assert said[1].startswith("See `llm-lite") and said[1].endswith("--help`.")


def test_a_mistyped_command_opens_no_window(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["chatt"])
    assert caught.value.code == 2
    assert "did you mean chat?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "word", ["smollm2-135m-instruct", "gemma", "chat.gguf", "hf:a/chat", "./chat"]
)
def test_names_of_models_are_no_mistyped_commands(word):
    assert not mistyped(word, ["chat", "bench", "models", "tokenize", "embed"])


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_each_page_of_help_begins_with_what_the_command_does(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    description = shown.split("\n\n")[1]
    assert description[0].isupper() and description.endswith(".")


@pytest.mark.parametrize("words", [["--help"], ["chat", "--help"], ["--version"]])
def test_help_and_version(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    assert "llm-lite" in capsys.readouterr().out


ANSWERING = ("desktop", "chat")
MEASURING = ("logits", "attention", "bench", "perplexity", "doctor")


@pytest.mark.parametrize("command", ANSWERING + MEASURING)
def test_sampling_is_offered_where_tokens_are_chosen(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert "--backend" in shown
    sampling = ("--seed", "--temperature", "--top-k", "--top-p", "--min-p")
    sampling = (*sampling, "--repetition-penalty", "--max-new-tokens")
    assert [option in shown for option in sampling] == [command in ANSWERING] * len(sampling)


@pytest.mark.parametrize("command", [*ANSWERING, *MEASURING, "serve", "embed"])
def test_drafts_are_offered_where_answers_are_written(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    drafts = command in (*ANSWERING, "serve", "bench")
    assert ("--speculate off,auto,lookup" in _unbraced(capsys.readouterr().out)) == drafts


def _unbraced(shown):
    return shown.replace("{", "").replace("}", "")


def test_models_list(capsys):
    assert main(["models", "list"]) == 0
    assert catalog.DEFAULT in capsys.readouterr().out
    assert main(["models", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    row = next(row for row in rows if row["name"] == catalog.DEFAULT)
    assert row["size"] == Path(row["path"]).stat().st_size


IMPORTS = """
import sys
from pathlib import Path
from llm_lite.cli.main import _COMMANDS, main
from llm_lite.cli.parser import mistyped
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
        timeout=PATIENCE,
        check=True,
    )
    assert process.stderr.splitlines()[-1] == "0 []"
