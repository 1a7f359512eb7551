"""Drafts that are looked up in the conversation itself: prompt, attached documents and answer."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import (
    LOOKUP,
    NO_BRANCH,
    NO_DRAFT,
    Branch,
    Draft,
)
from llm_lite.core.generation.speculation.suffix_automaton import SuffixAutomaton

LEAST_MATCH = 2  # tokens: of fewer nearly every text has some, and they say little
_MOST_BRANCH = 4  # tokens: a branch is seldom right
_MOST_TOKENS = 1 << 17  # of a text that is followed; bounds memory (some 0.5 KB each)


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
        known = len(self._automaton)
        if len(tokens) < known or list(tokens[:known]) != self._automaton.tokens:
            self._automaton, known = SuffixAutomaton(), 0
        self._automaton.extend(tokens[known:_MOST_TOKENS])

    def add(self, token: int) -> None:
        if len(self._automaton) < _MOST_TOKENS:
            self._automaton.extend((token,))

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        match = self._automaton.match()
        if match.length < self._least or len(self._automaton) == _MOST_TOKENS:
            return NO_DRAFT
        tokens = self._automaton.following(match, most)
        return Draft(tokens, match.length, self._branch(tokens[:1]))

    def _branch(self, first: tuple[int, ...]) -> Branch:
        """Return another continuation of such a text."""
        if not first:
            return NO_BRANCH
        match, tokens = self._automaton.other(first[0], _MOST_BRANCH)
        return Branch(tokens, 0, match.length)
