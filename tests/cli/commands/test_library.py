"""`llm-lite models list | import | remove | gc`, and what doctor says of places."""

import json

import pytest

from llm_lite.cli.commands import models_local
from llm_lite.cli.main import main
from llm_lite.core.hub.fit import machine
from llm_lite.core.messages import MODES
from tests.cli.on_terminal import on_terminal
from tests.cli.terminal_runs import sentence
from tests.core.hub.local.conftest import home  # noqa: F401  a home of its own
from tests.core.hub.local.layouts import COMMIT, digest, gguf, hub_repository, put
from tests.mixture_in_blocks import write_mixture_in_blocks


@pytest.fixture
def cache(home):  # noqa: F811
    folder = home / ".cache/huggingface/hub"
    hub_repository(folder, "acme/m", {"Tiny-Q4_0.gguf": gguf()})
    return folder


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_line_a_model_and_what_is_wrong(cache, home, capsys):  # noqa: F811
    put(home / ".lmstudio/models/a/b/broken.gguf", b"junk")
    assert main(["models", "list"]) == 0
    shown = lines(capsys)
    row = next(line for line in shown if line.startswith("tiny-q4_0"))
    assert "Q4_1" in row and "128" in row and "Hugging Face cache" in row
    assert any(line.startswith("broken: ") and "not a GGUF file" in line for line in shown)
    assert main(["models", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["tiny-q4_0"]["repo"] == "acme/m"
    assert rows["broken"]["problem"]


def test_names_that_would_command_a_terminal(home, capsys):  # noqa: F811
    put(home / ".lmstudio/models/a/b/\x1b[2Jx\u202e.gguf", b"junk")
    assert main(["models", "list"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\u202e" not in shown


def test_a_name_of_another_program_talks(cache, capsys):
    words = ["-p", "x", "--max-new-tokens", "2", "--backend", "numpy", "--json"]
    assert main(["chat", "tiny-q4", *words]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["verify", "tiny-q4"]) == 0


def test_import_and_forget(home, tmp_path, capsys):  # noqa: F811
    path = put(tmp_path / "mine" / "m.gguf", gguf())
    assert main(["models", "import", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    assert main(["models", "remove", "m", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "is only forgotten" in out and out.endswith("no file was deleted\n")
    assert path.exists()


def test_deleting_asks(cache, capsys, monkeypatch):
    assert main(["models", "remove", "tiny-q4_0"]) == 1
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr(models_local, "_can_ask", lambda: True)
    asked = []
    monkeypatch.setattr(
        models_local, "_confirmed", lambda question: asked.append(question) or False
    )
    assert main(["models", "remove", "tiny-q4_0"]) == 1
    assert f"free {len(gguf()) / 1e3:.0f} kB?" in asked[0]
    assert (cache / "models--acme--m").exists()
    capsys.readouterr()
    assert main(["models", "remove", "tiny-q4_0", "--yes", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"removed": ["tiny-q4_0"], "freed": len(gguf()) + len(COMMIT)}
    assert not (cache / "models--acme--m").exists()


@pytest.mark.parametrize("answer, code", [("n", 1), ("", 1), ("y", 0)])
def test_a_person_is_asked_on_a_terminal(cache, home, answer, code):  # noqa: F811
    with on_terminal("models", "remove", "tiny-q4_0", home=home) as terminal:
        terminal.until("[y/N] ")
        terminal.line(answer)
        assert terminal.end()[0] == code
    assert (cache / "models--acme--m").exists() == (code == 1)


def test_what_is_not_ours_is_one_sentence(home, capsys):  # noqa: F811
    put(home / ".lmstudio/models/a/b/m.gguf", gguf())
    assert main(["models", "remove", "m", "--yes"]) == 1
    assert "LM Studio's" in sentence(capsys)


def test_leftovers_are_shown_before_they_go(cache, capsys):
    partial = put(cache / f"models--acme--m/blobs/{digest(b'x')}.incomplete", bytes(5000))
    assert main(["models", "gc", "--dry-run"]) == 0
    shown = lines(capsys)
    assert str(partial) in shown[0] and shown[-1] == "5 kB would be freed"
    assert main(["models", "gc"]) == 0
    assert lines(capsys)[-1] == "5 kB freed"
    assert not partial.exists()
    assert main(["models", "gc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"found": [], "freed": 0}


def test_doctor_says_how_much_each_place_holds(cache, capsys):
    assert main(["doctor", "--json"]) == 0
    places = {p["origin"]: p for p in json.loads(capsys.readouterr().out)["models"]}
    assert places["huggingface"]["folder"] == str(cache)
    assert places["huggingface"]["size"] >= len(gguf())
    assert main(["doctor"]) == 0
    assert f"Hugging Face cache: {len(gguf()) / 1e3:.0f} kB, 1 model, {cache}" in (
        capsys.readouterr().out
    )


def test_what_a_model_takes(tiny_llama, home, capsys):  # noqa: F811
    assert main(["models", "fit", str(tiny_llama), "--backend", "cpu", "--ctx", "100"]) == 0
    shown = lines(capsys)
    assert "GB/s; context 100 tokens" in shown[0] and shown[1].startswith("free: ")
    assert [line.split()[0] for line in shown[3:-1]] == list(MODES)
    assert shown[-1].startswith("int4: ") and "to round them once more" in shown[-1]
    assert [line.split()[0] for line in shown if line.endswith("recommended")] == ["as-stored"]
    words = ["models", "fit", str(tiny_llama), "--backend", "cpu", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["mode"] for row in told["modes"]] == list(MODES)
    assert all(row["fits"] and row["bytes"] > 0 for row in told["modes"])
    kept = home / ".cache/llm-lite/bandwidth.json"
    assert list(json.loads(kept.read_text()).values()) == [told["read_gb_s"]]


def test_experts_that_do_not_fit_stay_in_their_file(
    tmp_path,
    home,  # noqa: F811
    capsys,
    monkeypatch,
):
    words = ["models", "fit", str(write_mixture_in_blocks(tmp_path)), "--backend", "cpu"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (whole,) = [row["bytes"] for row in told["modes"] if row["mode"] == "as-stored"]
    monkeypatch.setattr(machine, "available_bytes", lambda: (whole - 1) * 16 // 15)
    assert main(words) == 0
    shown = [line for line in lines(capsys) if line.startswith("as-stored:")]
    assert len(shown) == 1 and "of experts stay in the file" in shown[0]


def test_what_does_not_fit_is_one_sentence(tiny_llama, home, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr(machine, "available_bytes", lambda: 1 << 20)
    assert main(["models", "fit", str(tiny_llama), "--backend", "cpu"]) == 0
    assert "int4 does not fit: nothing smaller of this model fits" in capsys.readouterr().out
    words = ["chat", str(tiny_llama), "-p", "x", "--max-new-tokens", "1", "--backend", "cpu"]
    assert main(words) == 1
    assert sentence(capsys).endswith("; --force loads it all the same\n")
    assert main([*words, "--force"]) == 0
    capsys.readouterr()
    assert main(["bench", str(tiny_llama), "--backend", "cpu"]) == 1
    assert sentence(capsys).endswith("; --force loads it all the same\n")
