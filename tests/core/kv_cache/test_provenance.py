import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.kv_cache.provenance import (
    SINKS,
    SMALLEST,
    CacheContents,
    Conditions,
    Gap,
    Match,
    forgetting,
    match,
    plan_prefill,
)

A, B = Conditions("a"), Conditions("b")


def held(tokens, gaps=()):
    return CacheContents(tuple(tokens), (A,) * len(tokens), tuple(gaps))


def test_a_story_has_what_was_forgotten_in_its_place():
    some = held([0, 1, 5, 6, 9], [Gap(2, (2, 3, 4)), Gap(7, (7, 8))])
    assert some.full_tokens() == list(range(10))
    assert some.gap_positions() == [2, 4]
    assert some.missing() == [i in (2, 3, 4, 7, 8) for i in range(10)]
    assert some.first(4).full_tokens() == list(range(7))
    assert some.first(2).gaps == (), "nothing follows them"


def test_forgetting_joins_gaps():
    once = held(range(10)).without(2, 3)
    assert once == held([0, 1, 5, 6, 7, 8, 9], [Gap(2, (2, 3, 4))])
    assert once.without(2, 2) == held([0, 1, 7, 8, 9], [Gap(2, (2, 3, 4, 5, 6))])
    assert once.without(3, 1).gaps == (Gap(2, (2, 3, 4)), Gap(6, (6,)))


_story = st.lists(st.integers(0, 3), max_size=30)


@settings(deadline=None)
@given(_story, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=4), _story)
def test_a_match_is_what_both_begin_with(tokens, cuts, prompt):
    some = held(tokens)
    for keep, drop in cuts:
        some = some.without(keep, drop)
        assert some.full_tokens() == tokens, "whatever is forgotten, the story is the same"
    for gaps in (False, True):
        found = match(some, prompt, len(some.tokens), gaps=gaps)
        assert 0 <= found.full <= max(0, len(prompt) - 1)
        assert some.full_tokens()[: found.full] == list(prompt[: found.full])
        read = [t for t, gone in zip(tokens, some.missing(), strict=True) if not gone]
        assert read[: found.positions] == list(some.tokens[: found.positions])
        gone = sum(some.missing()[: found.full])
        assert found.positions == found.full - gone
        assert gaps or gone == 0


def test_what_was_forgotten_counts_only_where_the_prompt_goes_beyond_it():
    some = held(range(20)).without(4, 6)
    assert match(some, [*range(20), 99], 14, gaps=True) == Match(20, 14)
    assert match(some, [*range(20), 99], 14, gaps=False) == Match(4, 4)
    assert match(some, [*range(9), 99], 14, gaps=True) == Match(4, 4)
    assert match(some, [*range(20), 99], 3, gaps=True) == Match(3, 3), "made with other weights"


@settings(deadline=None, max_examples=300)
@given(
    st.integers(SMALLEST, 40),
    st.sampled_from(("forget-middle", "rolling")),
    st.integers(0, 100),
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=2),
    st.integers(1, 150),
    st.integers(0, 150),
)
def test_any_prompt_finds_room(context, policy, head, length, cuts, new, same):
    """The course leads to a cache that fits, ends with the prompt's end, and begins as it does."""
    some = held(range(min(length, context)))
    for keep, drop in cuts:
        some = some.without(keep, drop)
    prompt = [*some.full_tokens()[:same], *range(1000, 1000 + new)]
    way = plan_prefill(some, prompt, len(some.tokens), policy, head, context)
    after = some.first(way.reused)
    if way.forget is not None:
        after = after.without(*way.forget)
    assert after.full_tokens() == prompt[: way.start], "what stays is of the prompt"
    rest = [i for i in range(way.start, len(prompt)) if i not in way.skip]
    assert rest[-1] == len(prompt) - 1
    assert len(after.tokens) + len(rest) <= context
    if way.skip:
        assert way.start <= way.skip.start
        assert way.skip.start >= SINKS
    if len(prompt) <= context:
        assert not way.skip
        assert not after.gaps, "nothing is forgotten without need"


@pytest.mark.parametrize("context", [SMALLEST, 17, 100, 1024])
def test_a_full_cache_makes_room(context):
    assert forgetting("stop", 5, context) is None
    assert forgetting("rolling", 500, context) == (SINKS, context // 8)
    keep, drop = forgetting("forget-middle", 500, context)
    assert keep == min(500, context // 2), "the first turn, but no more than half"
    assert drop == (context - keep) // 2 > 0
    assert forgetting("rolling", 0, SMALLEST - 1) is None
