"""Beside a search that tries every suffix."""

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.generation.speculation.lookup import (
    LEAST_MATCH,
    LookupSource,
    SuffixAutomaton,
)

_texts = st.lists(st.integers(0, 2), max_size=40)  # few tokens: many repeats


def longest_repeated_suffix(tokens):
    for length in range(len(tokens) - 1, 0, -1):
        suffix = tokens[len(tokens) - length :]
        ends = [end for end in range(length, len(tokens)) if tokens[end - length : end] == suffix]
        if ends:
            return length, ends
    return 0, []


@settings(max_examples=300, deadline=None)
@given(_texts)
def test_the_match_is_the_longest_at_every_token(tokens):
    automaton = SuffixAutomaton()
    for count, token in enumerate(tokens, 1):
        automaton.extend((token,))
        length, ends = longest_repeated_suffix(tokens[:count])
        match = automaton.match()
        assert match.length == length
        assert not length or match.end in ends


@settings(max_examples=100, deadline=None)
@given(_texts, st.integers(0, 40))
def test_what_follows_is_the_text_and_then_its_repetition(tokens, count):
    automaton = SuffixAutomaton(tokens)
    match = automaton.match()
    if match.length:
        expected = list(tokens)
        for at in range(match.end, match.end + count):
            expected.append(expected[at])
        assert automaton.following(match, count) == tuple(expected[len(tokens) :])


def test_states_grow_with_the_text_alone():
    """2n - 1 states at most (Blumer et al. 1985), whatever repeats itself."""
    for tokens in ([1] * 500, [1, 2] * 250, list(range(500)), [1] * 250 + [2] * 250):
        assert len(SuffixAutomaton(tokens)._next) <= 2 * len(tokens)


def test_later_occurrences_are_preferred():
    """A phrase that goes on in another way the second time is drafted as it last went on."""
    automaton = SuffixAutomaton([1, 2, 3, 9, 1, 2, 4, 9, 9, 1, 2])
    match = automaton.match()
    assert match.length == 3, "9 1 2"
    automaton = SuffixAutomaton([5, 1, 2, 3, 6, 1, 2, 4, 7, 1, 2])
    assert automaton.following(automaton.match(), 2) == (4, 7)


def test_texts_that_go_on_are_not_read_again():
    source = LookupSource()
    source.begin([1, 2, 3, 4])
    first = source._automaton
    source.begin([1, 2, 3, 4, 1, 2])
    assert source._automaton is first
    assert source.draft(2).tokens == (3, 4)
    source.begin([1, 9, 3, 4, 1, 2])
    assert source._automaton is not first, "another text"
    assert source.draft(2).tokens == (), f"a match of fewer than {LEAST_MATCH} says nothing"


def test_evidence_is_the_length_of_the_match():
    source = LookupSource()
    source.begin([1, 2, 3, 4, 5, 1, 2, 3])
    draft = source.draft(3)
    assert (draft.tokens, draft.evidence) == ((4, 5, 1), 3)
    source.add(4)
    assert source.draft(1).evidence == 4
