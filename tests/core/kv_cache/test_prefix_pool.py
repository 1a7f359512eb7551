import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.kv_cache.contents import CacheRows, Prefix
from llm_lite.core.kv_cache.prefix_pool import LEAST, PrefixPool
from llm_lite.core.kv_cache.provenance import CacheContents, Conditions

MADE = Conditions("w")
ROW = 10  # bytes


def prefix(tokens, made=MADE, name="chat"):
    data = np.zeros((len(tokens), ROW), np.uint8)
    held = CacheContents(tuple(tokens), (made,) * len(tokens))
    return Prefix(
        name, held, {"k": CacheRows(0, data, "f16"), "v": CacheRows(0, data.copy(), "f16")}
    )


def lengths(pool):
    return [p.tokens for p in pool.listed()]


@settings(deadline=None)
@given(
    st.integers(0, 4000),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=12),
    st.integers(0, 4000),
)
def test_it_never_holds_more_than_its_budget(budget, puts, later):
    pool = PrefixPool(budget)
    for chat, length in puts:
        pool.put(prefix([chat] * length))
        assert pool.used <= budget
        assert pool.used == sum(p.bytes for p in pool.listed()) == 2 * ROW * sum(lengths(pool))
    pool.budget = later
    assert pool.used <= later


def test_the_least_recently_used_goes_first():
    pool = PrefixPool(3 * 40 * 2 * ROW)
    first, second, third = (prefix([i] * 40) for i in range(3))
    for p in (first, second, third):
        pool.put(p)
    found, points = pool.best(lambda p: 9 if p.contents.tokens[0] == 0 else 0)
    assert (found, points) == (first, 9)
    pool.touch(found)
    pool.put(prefix([7] * 40))
    held = [p for p in (first, second, third) if pool.covers(p.contents)]
    assert held == [first, third]


def test_a_longer_prefix_takes_the_place_of_what_it_begins_with():
    pool = PrefixPool(1 << 20)
    pool.put(prefix(range(40)))
    pool.put(prefix(range(50)))
    assert lengths(pool) == [50]
    pool.put(prefix(range(60), Conditions("other")))
    assert lengths(pool) == [60, 50], "made with other weights"
    pool.put(prefix([9, *range(40)]))
    assert lengths(pool) == [41, 60, 50], "the most recent first"


def test_what_is_too_large_is_cut_and_what_is_short_not_kept():
    pool = PrefixPool(50 * 2 * ROW + 3)
    pool.put(prefix(range(200), name="long"))
    assert lengths(pool) == [50]
    assert pool.listed()[0].name == "long"
    pool.put(prefix(range(100, 100 + LEAST - 1)))
    assert lengths(pool) == [50]
    pool.budget = 0
    assert (lengths(pool), pool.used) == ([], 0)
    pool.put(prefix(range(200)))
    assert lengths(pool) == []


def test_nothing_of_rings_is_cut():
    pool = PrefixPool(50 * 2 * ROW)
    whole = prefix(range(200))
    ring = CacheRows(150, np.zeros((50, ROW), np.uint8), "f16")
    pool.put(Prefix("ring", whole.contents, {"k": whole.rows["k"], "v": ring}))
    assert lengths(pool) == []
