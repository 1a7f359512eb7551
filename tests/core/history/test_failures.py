"""Disks that are full or read-only, locks, newer schemas: nothing that was said is lost, and it is
said once."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.history import (
    History,
    HistoryOpened,
    HistorySavedAgain,
    HistoryUnsaved,
)
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import schema
from llm_lite.core.history.database.changes import AddConversation
from tests.children import PATIENCE
from tests.core.history.talks import add_talk, told

pytestmark = pytest.mark.usefixtures("quick_retries")
LONG = "word " * 400


def test_a_full_disk_is_told_once_and_saved_to_later(tmp_path, monkeypatch):
    room = [1 << 30]  # pages
    connect = connections.connect_writer

    def limited(path):
        made = connect(path)
        made.execute(f"PRAGMA max_page_count = {room[0]}")
        return made

    monkeypatch.setattr(connections, "connect_writer", limited)
    history = History(tmp_path / "history.db")
    first = add_talk(history, "One?", LONG)
    assert history.flush()
    room[0] = 1  # less than there is: as many as there are
    history._writer._connection.execute("PRAGMA max_page_count = 1")
    talks = [add_talk(history, f"{number}?", LONG) for number in range(50)]
    message = told(history, HistoryUnsaved).message
    assert "the disk is full" in message and "kept in memory" in message
    assert not history.flush(1.0)
    assert history.unsaved > 0
    assert history.conversation(talks[-1]).messages[-1].text == LONG  # it can be read all the same
    assert len(history.page().conversations) == 51
    assert not any(isinstance(event, HistoryUnsaved) for event in history.poll())
    room[0] = 1 << 30
    told(history, HistorySavedAgain)
    assert history.flush() and history.unsaved == 0
    again = History(history.path)
    assert again.wait_until_open() and len(again.page().conversations) == 51
    assert again.conversation(first).messages[-1].text == LONG
    assert again.check() == ""
    again.close()
    assert history.close()


def test_a_file_system_without_room(tmp_path):
    if os.geteuid() != 0 or not hasattr(os, "posix_fallocate"):
        pytest.skip("needs a file system of its own")
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("may not mount")
    try:
        history = History(small / "history.db")
        talks = [add_talk(history, "One?", LONG * 20) for _ in range(40)]
        assert "full" in told(history, HistoryUnsaved).message
        assert history.conversation(talks[-1]).messages[-1].text == LONG * 20
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        told(history, HistorySavedAgain)
        assert history.close()
        again = History(small / "history.db")
        assert again.wait_until_open() and len(again.page().conversations) == 40
        assert again.check() == ""
        again.close()
    finally:
        subprocess.run(["umount", str(small)])


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    history = History(tmp_path / "file" / "history.db")
    talk = add_talk(history, "One?")
    assert "cannot be saved" in told(history, HistoryUnsaved).message
    assert [s.id for s in history.page().conversations] == [talk]
    (tmp_path / "file").unlink()
    told(history, HistorySavedAgain)
    assert history.close()


READER = """
import os, sys
from pathlib import Path
from llm_lite.core.history import History, HistoryUnsaved
import llm_lite.core.history.database.search, sqlite3, time
os.setuid(65534)
history = History(Path(sys.argv[1]))
assert history.wait_until_open()
assert len(history.page().conversations) == 1
talk = history.page().conversations[0].id
history.add_message(talk, None, "new")
until = time.monotonic() + 1200
events = []
while not events and time.monotonic() < until:
    events = [event for event in history.poll() if isinstance(event, HistoryUnsaved)]
    time.sleep(0.01)
print(events[0].message)
assert len(history.conversation(talk).messages) == 2
history.close(0.1)
"""


@pytest.mark.parametrize("folder_too", [False, True])
def test_what_is_read_only_is_read(folder_too):
    if not hasattr(os, "setuid") or os.geteuid() != 0:
        pytest.skip("files are read-only to another user")
    with tempfile.TemporaryDirectory() as name:  # which another user may enter
        folder = Path(name)
        history = History(folder / "history.db")
        add_talk(history, "One?")
        assert history.close()
        folder.chmod(0o555 if folder_too else 0o777)
        history.path.chmod(0o444)
        command = [sys.executable, "-c", READER, str(history.path)]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "read-only" in done.stdout or "cannot be opened" in done.stdout


def test_a_lock_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "BUSY_MS", 20)
    history = History(tmp_path / "history.db")
    talk = add_talk(history, "One?")
    assert history.flush()
    other = sqlite3.connect(history.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    history.set_title(talk, "Locked")
    assert "locked" in told(history, HistoryUnsaved).message
    assert history.summary(talk).title == "Locked"
    other.execute("COMMIT")
    other.close()
    told(history, HistorySavedAgain)
    assert history.close()


def test_a_newer_schema_is_read_and_not_written(tmp_path):
    history = History(tmp_path / "history.db")
    talk = add_talk(history, "One?")
    assert history.close()
    other = sqlite3.connect(history.path)
    other.execute("ALTER TABLE conversations ADD COLUMN colour TEXT")
    other.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    other.close()
    before = history.path.read_bytes()
    newer = History(history.path)
    assert newer.wait_until_open()
    message = told(newer, HistoryOpened).message
    assert newer.read_only and "newer version" in message and "not saved" in message
    newer.set_title(talk, "Seen, not saved")
    assert newer.summary(talk).title == "Seen, not saved"
    assert not newer.flush(1.0)
    assert not newer.close()
    assert history.path.read_bytes() == before


def test_migrations_follow_each_other(tmp_path):
    path = tmp_path / "history.db"
    connections.make_file(path)
    made = connections.connect_writer(path)
    schema.migrate(made, schema.MIGRATIONS)
    more = (*schema.MIGRATIONS, "CREATE TABLE two (x);\nCREATE TABLE three (x);", "DROP TABLE two;")
    schema.migrate(made, more)
    names = {row[0] for row in made.execute("SELECT name FROM sqlite_master")}
    assert schema.version_of(made) == len(more) and "three" in names and "two" not in names
    broken = (*more, "CREATE TABLE four (x);\nCREATE TABLE three (x);")
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(made, broken)
    names = {row[0] for row in made.execute("SELECT name FROM sqlite_master")}
    assert schema.version_of(made) == len(more) and "four" not in names
    made.close()


def _delete(path: Path) -> None:
    # The log first: once the file is gone, the log of a new one may stand there.
    for end in ("-wal", "-shm", ""):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


def test_what_is_saved_while_its_file_is_deleted_is_saved_again(history, monkeypatch):
    add = AddConversation.apply
    deleted = []

    def add_and_delete(change, connection):
        add(change, connection)
        if not deleted:
            _delete(history.path)
            deleted.append(change)

    monkeypatch.setattr(AddConversation, "apply", add_and_delete)
    talk = history.begin(title="Kept").id
    assert history.flush(PATIENCE) and deleted
    with contextlib.closing(connections.connect_reader(history.path)) as file:
        assert [row[0] for row in file.execute("SELECT id FROM conversations")] == [talk]


def test_a_file_that_is_deleted_under_us_is_made_again(history):
    add_talk(history, "One?")
    assert history.flush()
    _delete(history.path)
    talk = add_talk(history, "Two?")
    assert history.flush(PATIENCE)
    until = time.monotonic() + PATIENCE
    while history.conversation(talk) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert [s.id for s in history.page().conversations] == [talk]


def test_it_is_closed_while_threads_read(tmp_path):
    """Closing a connection within a call of another thread ended the process."""
    path = tmp_path / "history.db"
    filled = History(path)
    for number in range(50):
        talk = filled.begin(title=f"Talk {number}")
        filled.add_message(talk.id, None, "a quick brown fox " * 30)
    assert filled.flush() and filled.close()

    def read_until_closed(history):
        with contextlib.suppress(FileError):
            while True:
                history.search("quick")
                history.page()

    for number in range(20):
        history = History(path)
        assert history.wait_until_open()
        threads = [threading.Thread(target=read_until_closed, args=(history,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(number / 1000)
        assert history.close()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        with pytest.raises(FileError, match="closed"):
            history.page()
