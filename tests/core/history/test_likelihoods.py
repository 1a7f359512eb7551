"""How likely each token was is kept beside it; files that were made before have none."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.history import AnswerEnd, History
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import schema
from llm_lite.core.history.database.rows import likelihoods_from_blob, likelihoods_to_blob
from llm_lite.core.history.database.salvage import repair
from llm_lite.core.history.exchange.exporting import export_file
from llm_lite.core.history.exchange.importing import read_conversations
from tests.core.history.talks import RUN

ODDS = (1.0, 0.5, -1.0, 0.0009765625)


def say(history, likelihoods=ODDS):
    talk = history.begin()
    question = history.add_message(talk.id, None, "Why?")
    answer = history.begin_answer(talk.id, question.id, RUN)
    history.write_answer(answer, "A", "", (1,), likelihoods[:1])
    end = AnswerEnd("end")
    history.finish_answer(answer, "A b c d", "", (1, 2, 3, 4), end, likelihoods)
    return talk.id


def test_they_come_back_before_and_after_they_are_saved(history):
    talk = say(history)
    assert history.conversation(talk).messages[1].likelihoods == ODDS
    assert history.flush()
    assert history.conversation(talk).messages[1].likelihoods == ODDS
    assert history.conversation(talk).messages[0].likelihoods == ()


def test_a_small_number_stays_what_it_was_to_three_digits():
    for p in (0.123456, 0.999, 1e-3, 2.5e-5):
        (kept,) = likelihoods_from_blob(likelihoods_to_blob((p,)))
        assert kept == pytest.approx(p, rel=1e-2 if p < 1e-4 else 1e-3)


@pytest.mark.parametrize("blob", [None, "text", b"\x00", b"\x00\x7e" * 3, b"\x00\xc4", 7])
def test_what_is_no_probability_is_not_known(blob):
    assert set(likelihoods_from_blob(blob)) <= {-1.0, 0.0}


def older(path):
    """A file of the first version, with a conversation."""
    connections.make_file(path)
    with closing(connections.connect_writer(path)) as connection:
        schema.migrate(connection, schema.MIGRATIONS[:1])
        connection.execute(
            "INSERT INTO conversations (id, title, created, updated, selected) "
            "VALUES (1, 'Old', 1.0, 1.0, 2)"
        )
        connection.execute(
            "INSERT INTO messages (id, conversation, role, text, tokens, created) "
            "VALUES (2, 1, 'assistant', 'said', x'01000000', 1.0)"
        )


def test_an_older_file_is_brought_further(tmp_path):
    path = tmp_path / "history.db"
    older(path)
    history = History(path)
    assert history.wait_until_open()
    (message,) = history.conversation(1).messages
    assert (message.text, message.tokens, message.likelihoods) == ("said", (1,), ())
    talk = say(history)
    assert history.flush() and history.conversation(talk).messages[1].likelihoods == ODDS
    history.close()
    with closing(sqlite3.connect(path)) as connection:
        assert schema.version_of(connection) == len(schema.MIGRATIONS)


def test_an_older_file_that_may_not_be_written_to_is_read(tmp_path):
    path = tmp_path / "history.db"
    older(path)
    with closing(connections.connect_older(path)) as connection:
        found = connection.execute("SELECT id, likelihoods FROM messages").fetchall()
        assert found == [(2, b"")]
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("DELETE FROM main.messages")
    if os.geteuid() == 0:
        return  # may write everywhere
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    history = History(path)
    assert history.wait_until_open()
    assert history.conversation(1).messages[0].text == "said"
    history.close()


def test_an_older_file_that_is_damaged_is_read_as_far_as_it_can_be(tmp_path):
    path = tmp_path / "history.db"
    older(path)
    assert repair(path).messages == 1
    with closing(connections.connect_reader(path)) as connection:
        found = connection.execute("SELECT text, likelihoods FROM messages").fetchall()
    assert found == [("said", b"")]


def test_they_leave_and_come_back_as_a_file(history, tmp_path):
    talk = say(history)
    path = tmp_path / "kept.json"
    export_file([history.conversation(talk)], "json", path)
    (conversation,) = read_conversations(path).conversations
    assert conversation.messages[1].likelihoods == pytest.approx(ODDS, abs=1e-6)
    kept = json.loads(path.read_text())
    kept["conversations"][0]["messages"][1]["likelihoods"][0] = 2
    path.write_text(json.dumps(kept))
    with pytest.raises(FileError, match=r"likelihoods: expected a list of probabilities"):
        read_conversations(path)
