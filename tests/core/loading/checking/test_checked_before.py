"""Files that were sound are read once, until they change."""

import json
import os
import time

import pytest

from llm_lite.core.loading import checked_before
from llm_lite.core.loading.checked_before import verify_once
from llm_lite.core.loading.verification import Part


@pytest.fixture
def read(tmp_path, monkeypatch):
    """(the part of a file, a list that grows by one when it is read)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, times = tmp_path / "weights", []
    path.write_bytes(b"12345678")
    long_ago(path)

    def pieces():
        times.append(1)
        yield path.read_bytes()

    return Part(path, "w", "9ae0daaf", 8, pieces), times


def long_ago(path, days=1):
    then = time.time() - 86400 * days
    os.utime(path, (then, then))


def problems(part):
    return [str(problem) for problem in verify_once([part], release=False) if problem]


def test_sound_files_are_read_once(read):
    part, times = read
    assert [problems(part) for _ in range(3)] == [[]] * 3
    assert len(times) == 1


def test_a_file_that_was_written_again_is_read_again(read):
    part, times = read
    problems(part)
    part.path.write_bytes(b"12345679")
    long_ago(part.path, days=0.5)
    assert "is damaged" in problems(part)[0]
    assert "is damaged" in problems(part)[0]  # what is damaged is said each time
    assert len(times) == 3


def test_a_file_of_this_moment_is_not_settled(read):
    part, times = read
    part.path.write_bytes(b"12345678")
    assert problems(part) == problems(part) == []
    assert len(times) == 2


def test_a_record_that_cannot_be_used_costs_time_alone(read, tmp_path):
    part, times = read
    place = checked_before._place()
    place.parent.mkdir(parents=True)
    for nonsense in ("{", "[]", json.dumps({"sound": 3}), json.dumps({"sound": [1, None]})):
        place.write_text(nonsense)
        assert problems(part) == []
        place.unlink()
    assert len(times) == 4
    place.mkdir()  # nothing can be written there
    assert problems(part) == []
    assert len(times) == 5


def test_the_record_does_not_grow_for_ever(read, monkeypatch):
    part, _ = read
    monkeypatch.setattr(checked_before, "_MOST", 3)
    for day in range(6):
        long_ago(part.path, days=day + 1)
        assert problems(part) == []
    assert len(json.loads(checked_before._place().read_text())["sound"]) == 3
