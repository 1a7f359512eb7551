"""The tables of the database, and how an older one becomes the newest.

`PRAGMA user_version` holds the number of migrations that a file has seen. A later program only
adds to the tables, so that this one can read what it wrote.

Message ids ascend with time, which keeps a conversation's rows together. A message's parent lies in
the same conversation, which the foreign key says. The parent has no ON DELETE CASCADE: it would
recurse, and SQLite stops after a thousand levels; the conversation's takes all messages at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_FIRST = """
CREATE TABLE conversations (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL DEFAULT '',
  title_source TEXT NOT NULL DEFAULT 'none',
  created REAL NOT NULL,
  updated REAL NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0,
  archived INTEGER NOT NULL DEFAULT 0,
  deleted REAL,
  system_prompt TEXT NOT NULL DEFAULT '',
  selected INTEGER
);
CREATE INDEX conversations_listed ON conversations (archived, pinned DESC, updated DESC, id DESC)
  WHERE deleted IS NULL;
CREATE INDEX conversations_deleted ON conversations (deleted DESC, id DESC)
  WHERE deleted IS NOT NULL;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  parent INTEGER,
  role TEXT NOT NULL,
  text TEXT NOT NULL DEFAULT '',
  thought TEXT NOT NULL DEFAULT '',
  tokens BLOB NOT NULL DEFAULT x'',
  created REAL NOT NULL,
  finished INTEGER NOT NULL DEFAULT 1,
  selected INTEGER,
  based_on INTEGER,
  kept_tokens INTEGER NOT NULL DEFAULT 0,
  UNIQUE (conversation, id),
  FOREIGN KEY (conversation, parent) REFERENCES messages (conversation, id)
);
CREATE INDEX messages_parent ON messages (conversation, parent);
CREATE INDEX messages_unfinished ON messages (id) WHERE NOT finished;
CREATE TABLE answers (
  message INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
  model TEXT NOT NULL DEFAULT '',
  model_path TEXT NOT NULL DEFAULT '',
  model_bytes INTEGER NOT NULL DEFAULT 0,
  model_modified REAL NOT NULL DEFAULT 0,
  model_fingerprint TEXT NOT NULL DEFAULT '',
  run TEXT,
  stop_reason TEXT,
  problem TEXT NOT NULL DEFAULT '',
  seconds REAL NOT NULL DEFAULT 0,
  stats TEXT
);
CREATE TABLE attachments (
  message INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  tokens INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (message, place)
);
CREATE TABLE caches (
  id INTEGER PRIMARY KEY,
  conversation INTEGER REFERENCES conversations (id) ON DELETE SET NULL,
  message INTEGER REFERENCES messages (id) ON DELETE SET NULL,
  file TEXT NOT NULL UNIQUE,
  bytes INTEGER NOT NULL,
  model TEXT NOT NULL,
  created REAL NOT NULL,
  used REAL NOT NULL
);
CREATE INDEX caches_conversation ON caches (conversation);
CREATE INDEX caches_message ON caches (message);
"""

# How likely the model found each token of an answer: `rows.likelihoods_to_blob`.
_LIKELIHOODS = "ALTER TABLE messages ADD COLUMN likelihoods BLOB NOT NULL DEFAULT x'';"

# What kind of file an attachment was, and how many characters it had where only a part is kept.
_ATTACHED = """
ALTER TABLE attachments ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE attachments ADD COLUMN whole INTEGER NOT NULL DEFAULT 0;
"""

# Gains of heads and an unsent draft, `rows.extras_row`.
_EXTRAS = """
CREATE TABLE extras (
  conversation INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
  gains TEXT NOT NULL DEFAULT '',
  draft TEXT NOT NULL DEFAULT '',
  files TEXT NOT NULL DEFAULT ''
);
"""

# In the place of gains, which older rows still have: `rows.extras_of` reads both.
_INTERVENTIONS = "ALTER TABLE extras ADD COLUMN interventions TEXT NOT NULL DEFAULT '';"

MIGRATIONS: tuple[str, ...] = (_FIRST, _LIKELIHOODS, _ATTACHED, _EXTRAS, _INTERVENTIONS)

# What a file lacks that has seen so many migrations, and cannot be brought further as it may not be
# written to: readings have it as empty.
_LACKING = {
    1: {"messages": "x'' AS likelihoods"},
    2: {"attachments": "'' AS kind, 0 AS whole"},
    4: {"extras": "'' AS interventions"},
}
_LACKING_TABLES = {
    3: {"extras": "0 AS conversation, '' AS gains, '' AS draft, '' AS files, '' AS interventions"},
}

# The index of words follows what is finished: an answer that is being written would be indexed
# once for every save. It reads texts from a view, so that they are not in the file twice.
_INDEX = """
CREATE VIEW IF NOT EXISTS finished_messages AS SELECT id, text FROM messages WHERE finished;
CREATE VIRTUAL TABLE IF NOT EXISTS message_index
  USING fts5 (text, content = 'finished_messages', content_rowid = 'id', tokenize = 'trigram');
CREATE TRIGGER message_index_insert AFTER INSERT ON messages WHEN new.finished BEGIN
  INSERT INTO message_index (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER message_index_finish AFTER UPDATE OF text, finished ON messages
  WHEN new.finished AND NOT old.finished BEGIN
  INSERT INTO message_index (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER message_index_reopen AFTER UPDATE OF text, finished ON messages
  WHEN old.finished AND NOT new.finished BEGIN
  INSERT INTO message_index (message_index, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER message_index_delete AFTER DELETE ON messages WHEN old.finished BEGIN
  INSERT INTO message_index (message_index, rowid, text) VALUES ('delete', old.id, old.text);
END;
"""
_TRIGGERS = tuple(f"message_index_{name}" for name in ("insert", "finish", "reopen", "delete"))


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring the tables to the newest version, one transaction for each step. sqlite3.Error."""
    while version_of(connection) < len(migrations):
        # Another process may have come first: the version is read again under the lock.
        with transaction(connection):
            number = version_of(connection)
            if number < len(migrations):
                for statement in statements(migrations[number]):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number + 1}")


def complete(connection: sqlite3.Connection) -> None:
    """Complete an older file for reading: add views in place of tables that lack a column, or that
    are missing. sqlite3.Error."""
    lacking: dict[str, list[str]] = {}
    for version in range(version_of(connection), len(MIGRATIONS)):
        for table, columns in _LACKING_TABLES.get(version, {}).items():
            connection.execute(
                f"CREATE TEMP VIEW IF NOT EXISTS {table} AS SELECT {columns} WHERE 0"
            )
        for table, columns in _LACKING.get(version, {}).items():
            lacking.setdefault(table, []).append(columns)
    for table, added in lacking.items():
        connection.execute(
            f"CREATE TEMP VIEW IF NOT EXISTS {table} AS "
            f"SELECT *, {', '.join(added)} FROM main.{table}"
        )


def has_trigrams(connection: sqlite3.Connection) -> bool:
    """Return True if this SQLite has FTS5 with its trigram tokenizer (3.34 and newer)."""
    try:
        connection.execute(
            "CREATE VIRTUAL TABLE temp.trigram_probe USING fts5 (x, tokenize = 'trigram')"
        )
        connection.execute("DROP TABLE temp.trigram_probe")
    except sqlite3.OperationalError:
        return False
    return True


def is_indexed(connection: sqlite3.Connection) -> bool:
    """Return True if the index of words is there and follows what is written."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    return {"message_index", *_TRIGGERS} <= names


def bring_index(connection: sqlite3.Connection, *, possible: bool) -> None:
    """Make the index of words, or drop it if this SQLite has none: its triggers would fail
    every write. It is made again by the next program that has one. sqlite3.Error."""
    if possible == is_indexed(connection):
        return
    with transaction(connection):
        for name in _TRIGGERS:
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        if possible:
            for statement in statements(_INDEX):
                connection.execute(statement)
            connection.execute("INSERT INTO message_index (message_index) VALUES ('rebuild')")


def statements(script: str) -> list[str]:
    """Return the statements one by one: `executescript` would end the transaction."""
    found, begun = [], ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return found


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Begin with BEGIN IMMEDIATE, so that a lock is waited for before the first change and not
    behind it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # a full disk may have rolled back already
            connection.execute("ROLLBACK")
