"""The file of what drafts learned: kept from one program to the next, never trusted, deletable."""

import os
import stat
import struct
import subprocess
import sys
import zlib

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.files.leftovers import name_beside
from llm_lite.core.generation.speculation import ngram_file as file
from llm_lite.core.generation.speculation import ngram_learning as learning
from llm_lite.core.generation.speculation.ngram_learning import LearnedDrafts
from llm_lite.core.generation.speculation.ngram_table import ENTRIES, Follower

IDENTITY = "ab" * 32
TEXT, OTHER = tuple(range(20, 40)), tuple(range(60, 80))
COUNTERS = 8 + 64 + 96  # bytes before the numbers of the header


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "learned_folder", lambda: tmp_path / "learned")
    return tmp_path / "learned"


@pytest.fixture
def path():
    return file.file_of(IDENTITY)


def program(told=None, *, learns=True, identity=IDENTITY, vocabulary=300):
    """What a program that runs the model has; it has read the file."""
    learned = LearnedDrafts("Tiny", vocabulary, lambda: identity, learns=learns)
    learned.report_to((told if told is not None else []).append)
    while learned.work():
        pass
    return learned


def idle(learned):
    while learned.work():
        pass


def knows(learned, text):
    learned.source.begin(text[:4])
    return learned.source.draft(2).tokens == text[4:6]


def test_another_program_knows_what_one_has_learned(path):
    first = program()
    assert not knows(first, TEXT)
    first.learn(TEXT)
    assert not knows(first, TEXT), "not while it answers"
    idle(first)
    assert knows(first, TEXT) and not path.exists()
    first.close()
    second = program()
    assert knows(second, TEXT)
    assert (second.model.name, second.model.answers, second.model.tokens) == ("Tiny", 1, 20)
    assert not knows(program(identity="cd" * 32), TEXT), "another model has its own"
    if hasattr(stat, "S_IMODE"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_read_or_written_until_there_is_time(path):
    learned = LearnedDrafts("Tiny", 300, lambda: pytest.fail("asked"), learns=True)
    learned.source.begin(TEXT[:4])
    assert learned.source.draft(4).tokens == () and learned.model is None
    learned.close()
    assert not path.parent.exists()


def test_a_program_that_was_never_idle_writes_when_it_ends():
    first = LearnedDrafts("Tiny", 300, lambda: IDENTITY, learns=True)
    first.learn(TEXT)
    first.close()
    assert knows(program(), TEXT)


def test_who_only_uses_it_writes_nothing(path):
    first = program(learns=False)
    first.learn(TEXT)
    first.close()
    assert not path.exists()


def test_it_is_written_now_and_then(path, monkeypatch):
    monkeypatch.setattr(learning, "SAVED_EVERY", 30)
    first = program()
    first.learn(TEXT)
    idle(first)
    assert not path.exists()
    first.learn(OTHER)
    idle(first)
    assert knows(program(), TEXT) and knows(program(), OTHER)


def test_two_programs_at_once_lose_nothing():
    one, two = program(), program()
    one.learn(TEXT)
    two.learn(OTHER)
    one.close()
    two.close()
    third = program()
    assert knows(third, TEXT) and knows(third, OTHER) and third.model.answers == 2


def test_what_another_program_deleted_stays_deleted(path):
    first = program()
    first.learn(TEXT)
    first.close()
    second = program()
    assert file.remove(path) == path_size() and file.remove(path) == 0
    second.learn(OTHER)
    second.close()
    assert knows(program(), OTHER) and not knows(program(), TEXT)


def test_what_was_learned_before_another_program_deleted_goes_too(path):
    first = program()
    first.learn(TEXT)
    first.close()
    second, third = program(), program()
    for one in (second, third):
        one.learn(TEXT)
        idle(one)
    file.remove(path)
    second.close()
    assert not path.exists(), "it was told before the deletion"
    third.learn(OTHER)
    idle(third)
    assert knows(third, OTHER) and not knows(third, TEXT) and third.model.answers == 1
    third.close()
    assert knows(program(), OTHER) and not knows(program(), TEXT)


def path_size():
    return COUNTERS + 24 + 11 * ENTRIES + 4


def test_forgetting(path):
    first = program()
    first.learn(TEXT)
    idle(first)
    first.learn(OTHER)
    first.forget()
    first.close()
    assert not knows(first, TEXT) and first.model.answers == 0 and not path.exists()


def changed(content, at, new):
    """With a checksum that is right: only what is checked besides can refuse it."""
    body = content[:at] + new + content[at + len(new) : -4]
    return body + struct.pack("<I", zlib.crc32(body))


TOKENS_AT = COUNTERS + 24 + 4 * ENTRIES
RIGHT_AT, WRONG_AT = TOKENS_AT + 4 * ENTRIES, TOKENS_AT + 5 * ENTRIES
DAMAGES = {
    "short": (lambda c: b"LL", "does not begin with LLMLNG01"),
    "foreign": (lambda c: b"GGUF" + c[4:], "does not begin with LLMLNG01"),
    "truncated": (lambda c: c[:-10], "is truncated"),
    "longer": (lambda c: c + b"x", "which is too much"),
    "flipped": (lambda c: c[:5000] + bytes([c[5000] ^ 1]) + c[5001:], "its checksum is another"),
    "entries": (lambda c: changed(c, COUNTERS + 4, b"\xff" * 4), "entries: expected"),
    "tokens": (lambda c: changed(c, TOKENS_AT, b"\xff" * 4), "tokens: expected numbers below 300"),
    "right": (lambda c: changed(c, RIGHT_AT, b"\xff" * ENTRIES), "expected numbers below 255"),
    "wrong": (lambda c: changed(c, WRONG_AT, b"\xff" * ENTRIES), "expected numbers below 255"),
    "answers": (lambda c: changed(c, COUNTERS + 8, b"\xff" * 8), "answers, tokens: expected"),
    "vocabulary": (lambda c: changed(c, COUNTERS, b"\xff" * 4), "of another model"),
    "identity": (lambda c: changed(c, 8, b"ff"), "of another model"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_bad_file_is_told_and_replaced(name, path):
    first = program()
    first.learn(TEXT)
    first.close()
    damage, expected = DAMAGES[name]
    path.write_bytes(damage(path.read_bytes()))
    told = []
    second = program(told)
    assert len(told) == 1 and expected in told[0] and str(path) in told[0] and "\n" not in told[0]
    assert not knows(second, TEXT)
    second.learn(TEXT)
    second.learn(OTHER)
    second.close()
    assert knows(program(), TEXT) and knows(program(), OTHER)


def test_a_file_that_is_just_being_made_is_none(path):
    path.parent.mkdir()
    path.touch()
    told = []
    learned = program(told)
    learned.learn(TEXT)
    learned.close()
    assert told == [] and knows(program(), TEXT)


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(learning, "_MOST_KEPT", 2 * len(TEXT))
    learned = LearnedDrafts("Tiny", 300, lambda: IDENTITY, learns=True)
    for text in (TEXT, OTHER, OTHER):
        learned.learn(text)
    idle(learned)
    assert knows(learned, OTHER) and not knows(learned, TEXT)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_pipe_in_the_place_of_the_file(path, folder, monkeypatch):
    """Nobody reads it: to open it would wait forever."""
    folder.mkdir()
    os.mkfifo(path)
    opened = os.open

    def open_at_once(at, flags, *arguments, **named):
        waits = at == path and not flags & (os.O_NONBLOCK | os.O_EXCL)
        assert not waits, "it waits for a reader"
        return opened(at, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", open_at_once)
    told = []
    learned = program(told)
    learned.learn(TEXT)
    learned.close()
    assert len(told) == 1 and "is no regular file" in told[0]


def test_one_that_stays_keeps_no_other(path, folder, monkeypatch):
    """All that can be deleted is, also what a killed program left beside a file."""
    first = program()
    first.learn(TEXT)
    first.close()
    for name in ("a", "z"):
        (folder / f"{name}{file.SUFFIX}").write_bytes(b"mine")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    part = name_beside(path, "part")
    part = part.with_name(part.name.replace(f".{os.getpid()}-", f".{ended.pid}-"))
    part.write_bytes(path.read_bytes())
    remove, kept = file.remove_whole, folder / f"a{file.SUFFIX}"
    monkeypatch.setattr(file, "remove_whole", lambda at: None if at == kept else remove(at))
    with pytest.raises(FileError, match="cannot be deleted"):
        file.remove_all()
    assert [*folder.iterdir()] == [kept]


def test_a_name_is_one_line(path):
    first = program()
    first.learn(TEXT)
    first.close()
    path.write_bytes(changed(path.read_bytes(), 72, b"\x1b[2Jevil\n\xff"))
    (found,) = file.listed()
    assert "\x1b" not in found.model.name and "\n" not in found.model.name
    assert found.size == path_size() == file.disk_bytes()


def test_a_folder_with_other_things(path, folder):
    folder.mkdir(parents=True)
    (folder / f"a{file.SUFFIX}").mkdir()
    (folder / f"b{file.SUFFIX}").write_bytes(b"nonsense")
    (folder / "notes.txt").write_bytes(b"mine")
    found = file.listed()
    assert [(one.path.name[0], one.model) for one in found] == [("b", None)] and found[0].problem
    file.remove(found[0].path)
    assert file.listed() == [] and len([*folder.iterdir()]) == 2, "what is not ours stays"


def test_a_disk_that_takes_nothing(folder, monkeypatch):
    """A sentence once, drafts of what is in memory, and another try later."""
    folder.parent.joinpath(folder.name).write_bytes(b"a file in the folder's place")
    monkeypatch.setattr(learning, "SAVED_EVERY", 10)
    monkeypatch.setattr(learning, "_MOST_KEPT", 30)
    told = []
    learned = program(told)
    for _ in range(3):
        learned.learn(TEXT)
        idle(learned)
    assert len(told) == 1 and "cannot be made" in told[0] and knows(learned, TEXT)
    folder.unlink()
    learned.learn(OTHER)
    idle(learned)
    assert knows(program(), TEXT) and knows(program(), OTHER)


def test_a_model_whose_file_changed(path):
    def identity():
        raise FileError("model.gguf", "changed while it was in use")

    told = []
    learned = LearnedDrafts("Tiny", 300, identity, learns=True)
    learned.report_to(told.append)
    learned.learn(TEXT)
    idle(learned)
    learned.learn(TEXT)
    learned.close()
    assert "changed while it was in use" in told[0] and not path.parent.exists()


def test_what_follows_survives_the_file():
    first = program()
    for _ in range(3):
        first.learn(TEXT)
    first.close()
    assert program()._table.follower(TEXT[:2]) == Follower(TEXT[2], 3)
