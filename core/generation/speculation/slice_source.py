"""Drafts by a slice of the model that is to verify them: a smaller model among its own weights
(Devvrit et al. 2023, "MatFormer"), or a block behind its layers that was trained to draft."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import NO_DRAFT, Draft, Likely, draft_of

SLICE, BLOCK = "slice", "block"  # the names of these sources
_SHARE = 0.2  # of a new measurement in what a token is known to take
_UNKNOWN = 1e-3  # seconds: what a drafted token is taken to cost before one was measured


class SlicedSession(Protocol):
    """A session whose program has a slice; see `Session`."""

    def draft_by_slice(
        self, token: int, most: int, should_stop: StopCheck | None = None
    ) -> Sequence[Likely]: ...


class SliceDraftSource:
    """Proposes the tokens that the slice finds the likeliest, one step of it each.

    It needs no cache of its own: the text but for its last token is in the session's.
    """

    def __init__(self, session: SlicedSession, name: str = SLICE) -> None:
        self._session, self.name = session, name
        self._last: int | None = None  # token of the text
        self._seconds = 0.0  # of a drafted token; 0: not measured

    @property
    def seconds_per_token(self) -> float:
        return self._seconds or _UNKNOWN

    def begin(self, tokens: Sequence[int]) -> None:
        self._last = tokens[-1] if tokens else None

    def add(self, token: int) -> None:
        self._last = token

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        if self._last is None:
            return NO_DRAFT
        began = perf_counter()
        places = self._session.draft_by_slice(self._last, most, should_stop)
        if places:
            seconds = (perf_counter() - began) / len(places)
            known = self._seconds or seconds
            self._seconds = known + _SHARE * (min(seconds, 2 * known) - known)
        return draft_of(places)
