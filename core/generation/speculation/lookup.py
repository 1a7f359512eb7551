"""Drafts that are looked up in the conversation itself: prompt, attached documents and answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import LOOKUP, NO_DRAFT, Draft

_ROOT = 0
_NONE = -1
LEAST_MATCH = 2  # tokens: of fewer nearly every text has some, and they say little
_MOST_TOKENS = 1 << 17  # of a text that is followed; bounds memory (some 0.5 KB each)


class SuffixMatch(Struct, frozen=True):
    """The last `length` tokens of the text also stand before index `end`, which is not its end."""

    length: int
    end: int


NO_MATCH = SuffixMatch(0, 0)


class SuffixAutomaton:
    """The suffix automaton of the tokens that were added so far; each takes constant time,
    amortized.

    Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text". A state stands
    for substrings with the same ends in the text. The suffix link of the whole text leads to the
    longest suffix that has another end, which is the match.
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]  # by state: the state behind each token
        self._link = [_NONE]  # by state: that of its longest suffix with more ends
        self._length = [0]  # by state: tokens of its longest substring
        self._end = [0]  # by state: where it was last found to end, as an index of the text
        self._last = _ROOT  # of the whole text
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> Sequence[int]:
        """Return the text; not to be changed."""
        return self._tokens

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._add(token)

    def match(self) -> SuffixMatch:
        """Return the longest suffix of the text that ends before its end too; the earlier
        occurrence is the one where this suffix was last the longest, else the first."""
        state = self._link[self._last]
        return SuffixMatch(self._length[state], self._end[state]) if state > _ROOT else NO_MATCH

    def following(self, match: SuffixMatch, count: int) -> tuple[int, ...]:
        """Return the `count` tokens behind the earlier occurrence. Where they reach the end of the
        text they continue as they began: the text repeats itself."""
        period = len(self._tokens) - match.end
        first = self._tokens[match.end : match.end + count]
        return tuple(first[i % period] for i in range(count))

    def _add(self, token: int) -> None:
        before = self._last
        link = self._link[before]
        if link > _ROOT:  # the match of the text so far: it ends here as well
            self._end[link] = len(self._tokens)
        self._tokens.append(token)
        self._last = self._state({}, len(self._tokens), len(self._tokens))
        state = before
        while state != _NONE and token not in self._next[state]:
            self._next[state][token] = self._last
            state = self._link[state]
        self._link[self._last] = _ROOT if state == _NONE else self._suffix(state, token)

    def _suffix(self, state: int, token: int) -> int:
        """Return the state of the longest substring of `state` with the token behind it."""
        found, length = self._next[state][token], self._length[state] + 1
        if self._length[found] == length:
            return found
        clone = self._state(dict(self._next[found]), length, self._end[found])
        self._link[clone] = self._link[found]
        self._link[found] = clone
        while state != _NONE and self._next[state].get(token) == found:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _state(self, following: dict[int, int], length: int, end: int) -> int:
        self._next.append(following)
        self._link.append(_NONE)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1


class LookupSource:
    """Proposes what followed the longest suffix of the text where it stood before.

    Saxena 2023, "Prompt Lookup Decoding"; with an automaton: Hu et al. 2024, "SAM Decoding".
    """

    name = LOOKUP
    seconds_per_token = 0.0

    def __init__(self, least_match: int = LEAST_MATCH) -> None:
        self._least = least_match
        self._automaton = SuffixAutomaton()

    def begin(self, tokens: Sequence[int]) -> None:
        """Begin another text; if the text before is a beginning of it, that is not read again."""
        length = len(self._automaton)
        if len(tokens) < length or list(tokens[:length]) != self._automaton.tokens:
            self._automaton, length = SuffixAutomaton(), 0
        self._automaton.extend(tokens[length:_MOST_TOKENS])

    def add(self, token: int) -> None:
        if len(self._automaton) < _MOST_TOKENS:
            self._automaton.extend((token,))

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        match = self._automaton.match()
        if match.length < self._least or len(self._automaton) == _MOST_TOKENS:
            return NO_DRAFT
        return Draft(self._automaton.following(match, most), match.length)
