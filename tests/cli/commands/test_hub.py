"""`llm-lite models search | show | pull` against a hub on the loopback address."""

import json

import pytest

from llm_lite.cli.commands.models_hub import bytes_of
from llm_lite.cli.main import main
from llm_lite.core.errors import RequestError
from tests.core.hub.remote.conftest import cache, hub  # noqa: F401
from tests.core.hub.remote.pulls import REPO

LLAMA = {"architecture": "llama", "total": 123_456_789, "context_length": 128}


@pytest.fixture
def talker(hub, tiny_llama, tmp_path, monkeypatch):  # noqa: F811
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    card = b"A model \x1b[2J that talks, in words that are enough for a description of it."
    files = {"tiny.Q4_1.gguf": tiny_llama, "mmproj-F16.gguf": b"x", "README.md": card}
    hub.add(REPO, files, gguf=LLAMA, downloads=1234, tags=["license:mit"])
    return hub


def test_search(talker, capsys):
    assert main(["models", "search", "tiny", "talk"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        f"{REPO}\n    llama, 123M, context 128, mit, 1,234 downloads, 2025-09-01\n"
    )
    assert "tiny.Q4_1.gguf  Q4_1" in told and "mmproj-F16.gguf  F16  (it sees images" in told
    assert main(["models", "search", "tiny", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["files"][0]["parts"] and row["repo"] == REPO
    assert main(["models", "search", "tiny", "--size", "1kB"]) == 0
    assert "nothing found for 'tiny' that runs here" in capsys.readouterr().err


def test_the_curated_list_asks_nobody(talker, capsys):
    assert main(["models", "search"]) == 0
    command = "llm-lite models pull unsloth/Qwen3.5-4B-GGUF:Qwen3.5-4B-Q4_K_M.gguf"
    assert command in capsys.readouterr().out
    assert main(["models", "search", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) >= 8
    assert talker.asked == []


def test_filters_alone_are_a_search(talker, capsys):
    assert main(["models", "search", "--size", "1GB"]) == 0
    assert REPO in capsys.readouterr().out


def test_show(talker, capsys):
    assert main(["models", "show", REPO]) == 0
    told = capsys.readouterr().out
    assert "A model \\x1b[2J that talks" in told and "\x1b" not in told
    assert f"llm-lite models pull {REPO}:tiny.Q4_1.gguf" in told
    assert main(["models", "show", f"hf:{REPO}:Q4_1"]) == 0  # as pull calls it
    capsys.readouterr()
    assert main(["models", "show", "tiny/talkr"]) == 1
    assert "near it are: tiny/talker" in capsys.readouterr().err


def test_pull(talker, capsys):
    assert main(["models", "pull", f"hf:{REPO}:Q4_1"]) == 0
    told = capsys.readouterr()
    assert told.out.strip().endswith("tiny.Q4_1.gguf")
    assert "huggingface_hub" not in told.err and "Traceback" not in told.err
    words = ["-p", "x", "--max-new-tokens", "2", "--backend", "numpy"]
    assert main(["chat", f"hf:{REPO}", *words]) == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [("800MB", 800_000_000), ("4 gb", 4_000_000_000), ("1.5G", 1_500_000_000), ("12", 12)],
)
def test_sizes(text, count):
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "much", "-1", "1e9", "4 XB", "9" * 30])
def test_no_sizes(text):
    with pytest.raises(RequestError, match="expected a size such as 800MB or 4GB"):
        bytes_of(text)
