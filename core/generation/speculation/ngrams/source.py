"""Drafts that followed the same last tokens in answers of other conversations."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import NO_DRAFT, Draft
from llm_lite.core.generation.speculation.ngrams.table import LONGEST, NgramTable

NGRAMS = "ngrams"  # the name of this source
# Of every token of a draft behind the first: less is right less often than every second time.
LEAST_EVIDENCE = 4


class NgramSource:
    """Proposes the tokens that followed, one after the other, as long as enough speaks for them.

    Its evidence is that of the first token, see `Follower`. It changes nothing in the table.
    """

    name = NGRAMS
    seconds_per_token = 0.0

    def __init__(self, table: Callable[[], NgramTable | None]) -> None:
        """Make the source. `table` returns the table for each draft; None while there is none."""
        self._table = table
        self._last: deque[int] = deque(maxlen=LONGEST)  # tokens of the text

    def begin(self, tokens: Sequence[int]) -> None:
        self._last.clear()
        self._last.extend(tokens[-LONGEST:])

    def add(self, token: int) -> None:
        self._last.append(token)

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        table = self._table()
        if table is None:
            return NO_DRAFT
        tokens: list[int] = []
        text, evidence, least = [*self._last], 0, 1
        while len(tokens) < most:
            found = table.follower(text)
            if found is None or found.evidence < least:
                break
            tokens.append(found.token)
            text.append(found.token)
            evidence, least = evidence or found.evidence, LEAST_EVIDENCE
        return Draft(tuple(tokens), evidence)
