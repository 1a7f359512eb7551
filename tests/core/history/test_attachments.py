"""What came with a message is kept with it: in the file, through migrations and exchanges."""

import sqlite3
from contextlib import closing

import pytest

from llm_lite.core.attached_text import Attachment
from llm_lite.core.history import ConversationTree, History
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import schema
from llm_lite.core.history.exchange.exporting import export_file
from llm_lite.core.history.exchange.html import to_html
from llm_lite.core.history.exchange.importing import read_conversations
from llm_lite.core.history.exchange.markdown import to_markdown

FILES = (
    Attachment("notes.md", "# Words\n", 12, "markdown"),
    Attachment("paper.pdf", "[Page 1]\nwords", 9, "pdf", 4_000),
    Attachment("cat.png", kind="picture"),
)


def kept(history, talk):
    return ConversationTree.of(history.conversation(talk)).path[0].attachments


def test_they_are_there_after_a_restart(tmp_path):
    history = History(tmp_path / "history.db")
    talk = history.begin().id
    history.add_message(talk, None, "", attachments=FILES)
    assert kept(history, talk) == FILES
    assert history.close()
    history = History(tmp_path / "history.db")
    assert history.wait_until_open() and kept(history, talk) == FILES
    assert history.summary(talk).title == "notes.md", "files alone name the conversation"
    assert history.close()


def test_an_edit_keeps_them(tmp_path):
    history = History(tmp_path / "history.db")
    talk = history.begin().id
    first = history.add_message(talk, None, "What?", attachments=FILES)
    assert history.edit(first, "Why?").attachments == FILES
    assert kept(history, talk) == FILES
    assert history.close()


def older(path):
    """A file of the first version, with a message that has a file."""
    connections.make_file(path)
    with closing(connections.connect_writer(path)) as made:
        schema.migrate(made, schema.MIGRATIONS[:1])
        made.execute("INSERT INTO conversations (id, created, updated, selected) VALUES (1,1,1,2)")
        made.execute(
            "INSERT INTO messages (id, conversation, role, text, created) VALUES (2,1,'user','a',1)"
        )
        made.execute("INSERT INTO attachments VALUES (2, 0, 'old.py', 'x = 1', 3)")


def test_an_older_file_is_brought_to_the_newest_version(tmp_path):
    path = tmp_path / "history.db"
    older(path)
    history = History(path)
    assert history.wait_until_open()
    assert kept(history, 1) == (Attachment("old.py", "x = 1", 3, "code"),)
    assert history.close()
    with closing(sqlite3.connect(path)) as there:
        assert schema.version_of(there) == len(schema.MIGRATIONS)


def test_an_older_file_that_is_damaged_is_saved_with_them(tmp_path):
    from llm_lite.core.history.database.salvage import _copy

    older(tmp_path / "old.db")
    with closing(connections.connect_memory()) as new:
        assert _copy(tmp_path / "old.db", new) == (1, 1)
        assert new.execute("SELECT name, text, whole FROM attachments").fetchall() == [
            ("old.py", "x = 1", 0)
        ]


def test_they_come_back_from_our_own_file(tmp_path):
    history = History(tmp_path / "history.db")
    talk = history.begin().id
    history.add_message(talk, None, "What?", attachments=FILES)
    path = tmp_path / "out.json"
    export_file([history.conversation(talk)], "json", path)
    (conversation,) = read_conversations(path).conversations
    assert conversation.messages[0].attachments == FILES
    assert history.close()


def test_exports_to_read_hold_their_texts(tmp_path):
    history = History(tmp_path / "history.db")
    talk = history.begin().id
    history.add_message(talk, None, "What?", attachments=FILES)
    whole = history.conversation(talk)
    text, page = to_markdown(whole), to_html(whole)
    assert "```markdown\n# Words\n```" in text and "the first 14 of 4,000 characters" in text
    assert "Attached: cat.png" in text
    assert "<summary>Attached: paper.pdf</summary><pre>[Page 1]\nwords</pre>" in page
    assert history.close()


@pytest.mark.parametrize("row", [(2, 0, "a", "t", 1, "nonsense", -5), (2, 0, "a.py", "t", 1)])
def test_a_row_of_nonsense_is_read(row):
    from llm_lite.core.history.database.rows import attachment_of

    read = attachment_of(row)
    assert read.kind in ("text", "code") and read.whole == 0
