"""What is kept of a conversation beside its messages."""

import sqlite3
from contextlib import closing

import pytest

from llm_lite.core.attached_text import Attachment, ConversationExtras, DraftedFile
from llm_lite.core.history import History
from llm_lite.core.history import fork as fork_of
from llm_lite.core.history.database import connection as connections
from llm_lite.core.history.database import schema
from llm_lite.core.history.database.rows import run_from_json
from llm_lite.core.history.database.salvage import _copy
from llm_lite.core.messages import Interventions, ModelIdentity, ModelInterventions
from llm_lite.core.messages.interventions import Choose, Scale, Shift
from llm_lite.core.records import replace

NONE = ConversationExtras()
CHANGES = ModelInterventions(
    "/models/a.gguf",
    Interventions(
        (
            Scale("layers.0.attention.heads", 0.0, 0),
            Scale("layers.1.attention.heads", 1.5, 1),
            Shift("layers.1.feed_forward.residual", (0.25, -1.0)),
        ),
        "A",
    ),
)
FILES = (
    DraftedFile("/there/a.txt", "a.txt", Attachment("a.txt", "some words", 0, "text", 20)),
    DraftedFile("/there/b.txt", "b.txt"),
)
WHOLE = ConversationExtras(CHANGES, "half a thought", FILES)


@pytest.fixture
def kept(tmp_path):
    history = History(tmp_path / "history.db")
    talk = history.begin().id
    history.add_message(talk, None, "Hello")
    history.set_extras(talk, WHOLE, NONE)
    yield history, talk
    history.close()


def test_they_are_read_before_and_behind_the_disk(kept):
    history, talk = kept
    assert history.conversation(talk).extras == WHOLE
    assert history.flush()
    assert history.conversation(talk).extras == WHOLE
    history.set_extras(talk, replace(WHOLE, draft=""), WHOLE)
    assert history.conversation(talk).extras == replace(WHOLE, draft="")
    history.set_extras(talk, NONE, replace(WHOLE, draft=""))
    assert history.flush() and history.conversation(talk).extras == NONE


def test_a_fork_has_the_interventions_and_not_the_draft(kept):
    history, talk = kept
    stored = history.conversation(talk)
    fork = history.add(fork_of(stored, stored.messages[-1].id, "Fork"))
    assert history.conversation(fork.id).extras == ConversationExtras(interventions=CHANGES)


def test_they_go_with_their_conversation(kept):
    history, talk = kept
    history.delete([talk])
    assert history.flush() and history.purge() == 1 and history.flush()
    history.set_extras(talk, WHOLE, NONE)  # of one that is gone
    assert history.flush()
    with closing(sqlite3.connect(history.path)) as there:
        assert there.execute("SELECT count(*) FROM extras").fetchone() == (0,)


def test_what_is_no_such_thing_is_nothing(kept):
    history, talk = kept
    assert history.flush()
    with closing(sqlite3.connect(history.path)) as there, there:
        there.execute("UPDATE extras SET gains = '{\"gains\": [[\"x\"]]}', files = '[1, {]'")
        there.execute('UPDATE extras SET interventions = \'{"model": "a", "interventions": 3}\'')
    assert history.conversation(talk).extras == ConversationExtras(draft="half a thought")


def test_gains_of_an_older_file_are_interventions(tmp_path):
    """Of a mixture, too: a factor for each of two experts, and whether it is chosen."""
    path = tmp_path / "history.db"
    connections.make_file(path)
    gains = '{"model": "/m", "gains": [[0.0,1.0,1.0],[1.0,1.0,1.5],[1,1,1,1],[0.0,1.0,2.0,0.0]]}'
    with closing(connections.connect_writer(path)) as made:
        schema.migrate(made, schema.MIGRATIONS[:4])
        made.execute("INSERT INTO conversations (id, created, updated) VALUES (1,1,1)")
        made.execute("INSERT INTO extras (conversation, gains) VALUES (1, ?)", (gains,))
        made.commit()
    history = History(path)
    assert history.wait_until_open()
    kept = history.conversation(1).extras
    assert kept.interventions == ModelInterventions(
        "/m",
        Interventions(
            (
                Scale("layers.0.attention.heads", 0.0, 0),
                Scale("layers.1.attention.heads", 1.5, 2),
                Scale("layers.1.feed_forward.route", 0.0, 0),
                Choose("layers.1.feed_forward.route", "always", 0),
                Choose("layers.1.feed_forward.route", "last", 1),
            )
        ),
    )
    history.set_extras(1, NONE, kept)
    assert history.flush() and history.conversation(1).extras == NONE, "the old ones are gone, too"
    assert history.close()


def test_gains_of_an_older_answer_are_interventions():
    kept = '{"mode": "q8", "gains": [[1, 0.5]], "interventions": {"changes": [%s]}}'
    shift = '{"kind": "shift", "site": "layers.0.feed_forward.residual", "vector": [2]}'
    found = run_from_json(kept % shift, ModelIdentity("A"))
    assert found.interventions.changes == (
        Scale("layers.0.attention.heads", 0.5, 1),
        Shift("layers.0.feed_forward.residual", (2.0,)),
    )
    assert run_from_json(kept % 3, ModelIdentity("A")).interventions.changes == (
        Scale("layers.0.attention.heads", 0.5, 1),
    )
    plain = run_from_json('{"gains": [[1, 1]]}', ModelIdentity("A"))
    assert plain.interventions == Interventions() and plain.model.name == "A"


def test_a_file_from_before_has_none(tmp_path):
    path = tmp_path / "history.db"
    connections.make_file(path)
    with closing(connections.connect_writer(path)) as made:
        schema.migrate(made, schema.MIGRATIONS[:3])
        made.execute("INSERT INTO conversations (id, created, updated, selected) VALUES (1,1,1,2)")
        made.execute(
            "INSERT INTO messages (id, conversation, role, text, created) VALUES (2,1,'user','a',1)"
        )
    with closing(connections.connect_older(path)) as older:
        assert older.execute("SELECT * FROM extras").fetchall() == []
    history = History(path)
    assert history.wait_until_open() and history.conversation(1).extras == NONE
    history.set_extras(1, WHOLE, NONE)
    assert history.flush() and history.conversation(1).extras == WHOLE
    assert history.close()


def test_they_are_saved_from_a_damaged_file(kept, tmp_path):
    history, _ = kept
    assert history.flush()
    with closing(connections.connect_memory()) as new:
        assert _copy(history.path, new) == (1, 1)
        assert new.execute("SELECT draft FROM extras").fetchall() == [("half a thought",)]
