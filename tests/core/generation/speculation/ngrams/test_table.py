"""What followed the same last tokens: learned, forgotten and proposed."""

import random

from llm_lite.core.generation.speculation import ngram_table as table_module
from llm_lite.core.generation.speculation.draft import NO_DRAFT, Draft
from llm_lite.core.generation.speculation.ngram_learning import NgramSource
from llm_lite.core.generation.speculation.ngram_table import ENTRIES, WAYS, Follower, NgramTable

TEXT = (5, 6, 7, 8, 9, 10, 11)


def taught(*texts):
    table = NgramTable()
    for text in texts:
        table.learn(text)
    return table


def drafted(table, text, most=8):
    source = NgramSource(lambda: table)
    source.begin(text[:1])
    for token in text[1:]:
        source.add(token)
    return source.draft(most)


def test_longer_contexts_speak_louder():
    table = taught(TEXT)
    assert table.follower((5, 6)) == Follower(7, 1)
    assert table.follower((1, 5, 6)) == Follower(7, 1)
    assert table.follower((5, 6, 7)) == Follower(8, 2)
    assert table.follower((5, 6, 7, 8)) == Follower(9, 4)
    assert table.follower((1, 5, 6, 7, 8)) == Follower(9, 4)
    for unknown in ((6, 5), (5,), (), (10, 11)):
        assert table.follower(unknown) is None


def test_what_came_again_speaks_louder_and_what_came_otherwise_less():
    assert taught(TEXT, TEXT, TEXT).follower((5, 6)) == Follower(7, 3)
    assert taught(*[TEXT] * 9).follower((5, 6)) == Follower(7, 4), "more of it says no more"
    other = (5, 6, 40)
    assert taught(TEXT, TEXT, TEXT, other).follower((5, 6)) == Follower(7, 1)
    assert taught(TEXT, other).follower((5, 6)) is None, "one of each says nothing"
    assert taught(TEXT, *[other] * 6).follower((5, 6)).token == 40
    mixed = taught(TEXT, (1, 5, 6, 40), (2, 5, 6, 41))
    assert mixed.follower((2, 5, 6)) == Follower(41, 2), "the longest context that is known counts"


def test_counts_stay_in_their_byte():
    table = taught(*[TEXT] * 1000)
    assert table.follower((5, 6)) == Follower(7, 4)
    assert max(int(plane.max()) for plane in table.planes[2:]) <= 255


def test_drafts_follow_as_long_as_enough_speaks_for_them():
    table = taught((5, 6, 7, 8, 9, 10, 11, 12))
    assert drafted(table, (5, 6, 7, 8)) == Draft((9, 10, 11, 12), 4)
    assert drafted(table, (5, 6, 7, 8), most=2) == Draft((9, 10), 4)
    assert drafted(table, (5, 6)) == Draft((7,), 1), "three tokens of one text are too few to go on"
    assert drafted(table, (9, 9)) == NO_DRAFT == drafted(None, (5, 6, 7, 8))
    assert drafted(table, (9, 9), most=0) == NO_DRAFT


def test_another_text_begins():
    source = NgramSource(lambda: taught(TEXT))
    source.begin(TEXT[:4])
    source.begin((3,))
    assert source.draft(8) == NO_DRAFT
    source.begin((1, 2, 3, *TEXT[:4]))
    assert source.draft(1) == Draft((9,), 4)


def test_what_is_used_stays_where_others_make_room(monkeypatch):
    """Of a table that is far too small, and texts without end."""
    monkeypatch.setattr(table_module, "ENTRIES", 64)
    monkeypatch.setattr(table_module, "_BUCKETS", 64 // WAYS)
    table, chance = NgramTable(), random.Random(1)
    for _ in range(300):
        table.learn(TEXT)
        table.learn([chance.randrange(1000) for _ in range(8)])
    assert len(table) == 64
    assert table.follower(TEXT[:4]).token == TEXT[4]
    for _ in range(300):
        table.learn([chance.randrange(1000) for _ in range(40)])
    assert table.follower(TEXT[:4]) is None, "what nobody writes any more makes room"


def test_its_size_is_fixed():
    table = NgramTable()
    size = sum(plane.nbytes for plane in table.planes)
    chance = random.Random(2)
    table.learn([chance.randrange(1 << 32) for _ in range(2000)])
    assert sum(plane.nbytes for plane in table.planes) == size == 11 * ENTRIES < 2 << 20
    assert 5000 < len(table) <= 3 * 2000
