"""Damaged files of the history: what is left of them is kept, and told."""

import os
import sqlite3
import time
from pathlib import Path

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.history import (
    History,
    HistoryRepaired,
    HistoryUnsaved,
)
from llm_lite.core.history.database import salvage, writer
from tests.children import PATIENCE
from tests.core.history.talks import add_talk, told
from tests.core.history.test_failures import LONG

pytestmark = pytest.mark.usefixtures("quick_retries")


def many(path, count=60) -> list[int]:
    history = History(path)
    talks = [add_talk(history, f"Question {n}?", LONG, "And?", f"Answer {n}") for n in range(count)]
    assert history.close()
    return talks


def pages_of(path, table: str) -> list[int]:
    """Numbers of the pages that hold a table's rows."""
    other = sqlite3.connect(path)
    rows = other.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,))
    pages = [row[0] for row in rows]
    other.close()
    return pages


def overwrite(path, page: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(content)


def repaired(path) -> tuple[History, HistoryRepaired]:
    """Opened, found to be damaged, and read anew."""
    history = History(path)
    assert history.wait_until_open()
    history.check()
    event = told(history, HistoryRepaired)
    assert history.flush()
    return history, event


@pytest.mark.parametrize("table", ["messages", "conversations", "answers"])
@pytest.mark.parametrize("content", [b"\xff" * 4096, b"\0" * 4096], ids=["ones", "zeros"])
def test_a_damaged_page_takes_its_rows_and_no_others(tmp_path, table, content):
    path = tmp_path / "history.db"
    talks = many(path)
    try:
        pages = pages_of(path, table)
    except sqlite3.OperationalError:
        pytest.skip("SQLite without dbstat")
    overwrite(path, pages[len(pages) // 2], content)
    history, event = repaired(path)
    assert "was damaged" in event.message and "could be read" in event.message
    assert (tmp_path / event.kept_as).exists()
    kept = {summary.id for summary in history.page(limit=1000).conversations}
    assert len(kept & set(talks)) >= (55 if table == "messages" else 30)
    if table == "conversations":  # their messages are there all the same
        assert kept == set(talks)
    whole = [history.conversation(talk) for talk in kept]
    said = sum(len(conversation.messages) for conversation in whole)
    assert said >= 230 if table != "messages" else said >= 200
    assert history.check() == ""
    again = add_talk(history, "After?")
    assert history.flush() and history.conversation(again) is not None
    history.close()


def test_a_file_cut_short_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "history.db"
    many(path)
    size = path.stat().st_size
    os.truncate(path, size * 9 // 10 // 4096 * 4096)
    history, event = repaired(path)
    assert history.check() == ""
    assert add_talk(history, "After?") and history.flush()
    assert (tmp_path / event.kept_as).stat().st_size < size
    history.close()


@pytest.mark.parametrize(
    "content", [b"no database", b"\0" * 9000, b"SQLite format 3\0" + b"x" * 9000]
)
def test_what_is_no_database_is_moved_aside(tmp_path, content):
    path = tmp_path / "history.db"
    path.write_bytes(content)
    history = History(path)
    assert history.wait_until_open()
    event = told(history, HistoryRepaired)
    assert "nothing in it could be read" in event.message
    assert (tmp_path / event.kept_as).read_bytes() == content
    talk = add_talk(history, "After?")
    assert history.flush() and history.conversation(talk) is not None
    history.close()


def test_a_schema_that_is_no_utf8_is_damage(tmp_path):
    """Python's module raises UnicodeDecodeError in the place of SQLite's sentence."""
    path = tmp_path / "history.db"
    many(path, 3)
    raw = path.read_bytes()
    assert b"CREATE TABLE messages" in raw
    path.write_bytes(raw.replace(b"CREATE TABLE messages", b"CREATE T\x93BLE messages"))
    history, said = repaired(path)
    assert Path(said.kept_as).is_file()
    talk = add_talk(history, "Once more")
    assert history.flush() and history.conversation(talk)
    assert history.close()


def test_an_empty_file_is_a_new_history(tmp_path):
    path = tmp_path / "history.db"
    path.touch()
    history = History(path)
    assert history.wait_until_open() and add_talk(history, "One?")
    assert history.close()
    assert list(tmp_path.glob("*damaged*")) == []


def test_damage_found_while_reading_is_repaired(tmp_path):
    path = tmp_path / "history.db"
    talks = many(path)
    try:
        page = pages_of(path, "messages")[3]
    except sqlite3.OperationalError:
        pytest.skip("SQLite without dbstat")
    overwrite(path, page, b"\xff" * 4096)
    history = History(path)
    assert history.wait_until_open()
    refused = 0
    for talk in talks:
        try:
            history.conversation(talk)
        except FileError as error:
            assert "is damaged" in str(error)
            refused += 1
            break
    assert refused
    told(history, HistoryRepaired)
    assert len(history.page(limit=1000).conversations) >= 55
    history.close()


def test_a_repair_that_finds_no_room_is_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    talks = many(path, 20)
    try:
        page = pages_of(path, "messages")[2]
    except sqlite3.OperationalError:
        pytest.skip("SQLite without dbstat")
    overwrite(path, page, b"\xff" * 4096)
    room = []
    copy = salvage._copy

    def copy_if_there_is_room(source, new):
        if not room:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return copy(source, new)

    monkeypatch.setattr(salvage, "_copy", copy_if_there_is_room)
    before = path.read_bytes()
    history = History(path)
    assert history.wait_until_open()
    assert "is damaged" in history.check()
    assert "the disk is full" in told(history, HistoryUnsaved).message
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir() if "history" not in file.name] == []
    room.append(True)
    history.check()
    told(history, HistoryRepaired)
    assert len(history.page(limit=100).conversations) >= len(talks) - 3
    assert history.close()
    left = {file.name for file in tmp_path.iterdir()}
    damaged = {name for name in left if name.startswith("history-damaged-")}
    assert left - damaged == {"history.db"} and damaged


def test_two_windows_on_a_damaged_file_go_on_with_one_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "LOOK", 0.02)
    path = tmp_path / "history.db"
    many(path, 20)
    one, two = History(path), History(path)
    assert one.wait_until_open() and two.wait_until_open()
    talk = add_talk(two, "Before?")
    assert two.flush() and two.conversation(talk)
    try:
        page = pages_of(path, "messages")[2]
    except sqlite3.OperationalError:
        pytest.skip("SQLite without dbstat")
    overwrite(path, page, b"\xff" * 4096)
    one.check()
    told(one, HistoryRepaired)
    after = add_talk(two, "After?")
    assert two.flush()
    assert len(list(tmp_path.glob("*damaged*.db"))) == 1
    for history in (one, two):
        assert history.conversation(talk) and history.conversation(after)
        assert history.check() == ""
        assert history.close()
    assert len(list(tmp_path.glob("*damaged*.db"))) == 1


def test_a_damaged_index_is_made_again(history):
    talk = add_talk(history, "Find these words", "and those")
    assert history.flush()
    other = sqlite3.connect(history.path)
    other.execute("UPDATE message_index_data SET block = x'00ff00ff00ff' WHERE id > 1")
    other.commit()
    other.close()
    add_talk(history, "More words that are new")
    assert history.flush()
    until = time.monotonic() + PATIENCE
    found = ()
    while len(found) < 2 and time.monotonic() < until:
        try:
            found = history.search("words").found
        except FileError:
            continue
    assert {place.conversation for place in found} >= {talk}
    assert history.flush()
    tries = history._writer._tries
    time.sleep(0.3)
    assert history._writer._tries < tries + 10  # it rests again
