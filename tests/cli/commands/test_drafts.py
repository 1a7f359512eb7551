"""`llm-lite drafts`: what drafts learned from answers is listed and deleted."""

import json

import pytest

from llm_lite.cli.main import main
from llm_lite.core.generation.speculation import ngram_file as file
from llm_lite.core.generation.speculation.ngram_learning import LearnedDrafts


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "learned_folder", lambda: tmp_path / "learned")
    return tmp_path / "learned"


@pytest.fixture
def learned(folder):
    """Of one model, beside a damaged file."""
    drafts = LearnedDrafts("Tiny", 300, lambda: "ab" * 32, learns=True)
    drafts.learn(range(20))
    drafts.close()
    (folder / f"zz{file.SUFFIX}").write_bytes(b"nonsense")


def test_nothing(capsys):
    assert main(["drafts"]) == 0
    assert capsys.readouterr().out == "nothing was learned\n"
    assert main(["drafts", "--delete", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"learned": [], "freed": 0}


def test_a_line_for_each(learned, folder, capsys):
    assert main(["drafts"]) == 0
    tiny, damaged = capsys.readouterr().out.splitlines()
    assert "Tiny: 1 answer, 20 tokens" in tiny and str(folder) in tiny
    assert "does not begin with LLMLNG01" in damaged
    assert len(file.listed()) == 2, "to look deletes nothing"


def test_all_of_it_is_deleted(learned, capsys):
    assert main(["drafts", "--delete", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in found["learned"]] == ["Tiny", None]
    assert found["freed"] == sum(row["size"] for row in found["learned"]) > 1 << 20
    assert file.listed() == []


def test_what_cannot_be_deleted_is_said(learned, monkeypatch, capsys):
    monkeypatch.setattr(file, "remove_whole", lambda path: None)
    assert main(["drafts", "--delete"]) == 1
    assert "cannot be deleted" in capsys.readouterr().err


def test_a_conversation_learns_where_it_is_told_to(tiny_llama, capsys):
    words = ["chat", str(tiny_llama), "--backend", "cpu", "-p", "Hello", "--max-new-tokens", "8"]
    words += ["--temperature", "0"]  # an answer of one token would teach nothing
    assert main(words) == 0
    assert file.listed() == []
    assert main([*words, "--learned-drafts", "learn"]) == 0
    (found,) = file.listed()
    assert found.model.answers == 1


def test_doctor_says_what_it_takes(learned, capsys):
    assert main(["doctor", "--backend", "cpu"]) == 0
    assert "learned from answers: 1 MB" in capsys.readouterr().out
