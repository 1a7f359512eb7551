"""Conversations of other programs and our own: read, put into a database, written out again."""

from __future__ import annotations

import json
import random
from contextlib import closing
from functools import cache

from llm_lite.core.history.database import reading
from llm_lite.core.history.database.changes import AddConversation
from llm_lite.core.history.database.connection import connect_memory
from llm_lite.core.history.exchange.document import to_json
from llm_lite.core.history.exchange.html import to_html
from llm_lite.core.history.exchange.importing import read_conversations
from llm_lite.core.history.exchange.markdown import to_markdown
from llm_lite.core.history.history import renumbered
from tests.fuzz.door import Case, Door, Result, problem_of_sentence
from tests.fuzz.mutations import change_json, mutate_bytes, special_file
from tests.fuzz.mutations import to_json as odd_json
from tests.paths import FIXTURES


@cache
def originals() -> tuple[bytes, ...]:
    """A file of each kind; ours is made of the others."""
    paths = sorted((FIXTURES / "history").iterdir())
    whole = [talk for path in paths for talk in read_conversations(path).conversations]
    return (*(path.read_bytes() for path in paths), to_json(whole))


def use(case: Case) -> Result:
    rng, path = case.rng, case.folder / "conversations.json"
    path.write_bytes(mutated(rng))
    if rng.random() < 0.02:
        special_file(path, rng)
    imported = read_conversations(path, limit=1 << 20)
    for note in imported.notes:
        assert not (wrong := problem_of_sentence(note)), f"{wrong}: {note!r}"
    with closing(connect_memory()) as memory:
        for talk in imported.conversations:
            new = renumbered(talk)
            AddConversation(new).apply(memory)
            assert reading.conversation(memory, new.summary.id) == new
            to_html(talk)
            to_markdown(talk, thoughts=True)
    path = case.folder / "again.json"
    path.write_bytes(to_json(imported.conversations))
    again = read_conversations(path)
    assert again.notes == ()
    assert to_json(again.conversations) == path.read_bytes()
    return Result([s.summary.created for s in imported.conversations])


def mutated(rng: random.Random) -> bytes:
    raw = rng.choice(originals())
    if rng.random() < 0.2:
        return mutate_bytes(raw, rng)
    value = json.loads(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        change_json(value, rng)
    return odd_json(value)


DOOR = Door("conversations", use, originals)
