"""Drafts by a smaller model of the same vocabulary, which runs beside the one that answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import FileError, LlmLiteError, NotFiniteError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation.draft import (
    NO_DRAFT,
    STILL_READING,
    Draft,
    Likely,
    draft_of,
    likely,
)

MODEL = "model"  # the name of this source
# A draft ends before a token that the model gives a smaller share: it is seldom what comes.
LEAST_CHANCE = 0.3
_DECAY = 0.9  # of what drafting cost, with every draft
_MOST_STEPS = 4  # that an offered token may count as, however seldom one is offered
_MEASURED = 3  # steps; the shortest counts
# What is wrong with the draft model alone: the model that answers goes on without drafts of it.
_OWN_FAULTS = (NotFiniteError, FileError)


class DraftingSession(Protocol):
    """The draft model's session; see `Session`."""

    @property
    def context(self) -> int: ...

    @property
    def context_used(self) -> int: ...

    @property
    def most_drafted(self) -> int: ...

    def tokens(self) -> tuple[int, ...]: ...

    def clear(self) -> None: ...

    def forget_after(self, kept: int) -> None: ...

    def prefill(
        self, prompt: Sequence[int], should_stop: StopCheck | None = None
    ) -> NDArray[np.float32]: ...

    def decode(
        self, token: int, should_stop: StopCheck | None = None, draft: Sequence[int] = ()
    ) -> NDArray[np.float32]: ...


class DraftModel:
    """Proposes the likeliest tokens of a smaller model, one after the other.

    Its cache follows the text: what it drafted in vain is dropped, and what it has not read yet is
    read before it drafts, in one pass where that is little. Nothing is read before a draft is
    requested. A text that does not fit into its context is not followed. Once it has failed, it
    drafts no more.
    """

    name = MODEL
    most_read = 1 << 30  # tokens of a text that it has not read, before `draft` returns

    def __init__(self, session: DraftingSession, vocabulary: int) -> None:
        """Draft with a session; tokens are those of the first `vocabulary` rows of its logits."""
        self._session, self._vocabulary = session, vocabulary
        self._text: list[int] = []
        self._cached: list[int] = []  # tokens at the positions of the cache
        self._shared = 0  # how many leading ones of these are the text's
        self._step_seconds = self._spent = self._offered = 0.0
        self._problem = ""  # why it drafts no more
        self._log: Callable[[str], None] | None = None

    def report_to(self, log: Callable[[str], None]) -> None:
        """Set the log, which is called once with the reason when it drafts no more."""
        self._log = log
        if self._problem:
            log(self._problem)

    def measure(self) -> None:
        """Measure how long a step takes, from an empty cache; before the first draft."""
        durations = []
        try:
            for token in range(1 + _MEASURED):
                began = perf_counter()
                self._session.decode(token % self._vocabulary)
                durations.append(perf_counter() - began)
        except _OWN_FAULTS as error:
            self._give_up(error)
            return
        self._session.clear()
        self._step_seconds = self._spent = min(durations[1:])
        self._offered = 1.0

    @property
    def seconds_per_token(self) -> float:
        """Return the seconds per token that was offered: drafts end where the model is not sure,
        which took time too."""
        if self._problem or not self._step_seconds:
            return 0.0
        return min(self._spent / max(self._offered, 0.01), _MOST_STEPS * self._step_seconds)

    def begin(self, tokens: Sequence[int]) -> None:
        self._text, self._shared = list(tokens), 0
        self._compare_cache()

    def add(self, token: int) -> None:
        self._text.append(token)
        self._compare()

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        """The last drafted token is not decoded, as what follows it is not needed."""
        most = min(most, self._session.context - len(self._text) + 1)
        if self._problem or most < 1 or not self._text:
            return NO_DRAFT
        behind, began = len(self._text) - self._shared, perf_counter()
        try:
            draft = self._likeliest(most, should_stop)
        except _OWN_FAULTS as error:
            self._give_up(error)
            return NO_DRAFT
        finally:
            self._compare_cache()
        if behind <= 1 + most:  # reading more than drafts leave behind says nothing of the next one
            self._spent = _DECAY * self._spent + perf_counter() - began
            self._offered = _DECAY * self._offered + len(draft.tokens)
        return draft

    def _likeliest(self, most: int, should_stop: StopCheck | None) -> Draft:
        places: list[Likely] = []
        logits = self._catch_up(should_stop)
        if not len(logits):
            return STILL_READING
        while (place := likely(logits[: self._vocabulary])).chance >= LEAST_CHANCE:
            places.append(place)
            if len(places) == most:
                break
            logits = self._session.decode(place.token, should_stop)
        return draft_of(places)

    def _give_up(self, error: LlmLiteError) -> None:
        self._problem = f"draft model: {error}; answers go on without its drafts"
        if self._log is not None:
            self._log(self._problem)

    def _catch_up(self, should_stop: StopCheck | None) -> NDArray[np.float32]:
        """Read what is missing of the text; logits float32 [V] of what follows it, [0] where that
        is more than `most_read`."""
        session = self._session
        keep = min(self._shared, len(self._text) - 1)
        session.forget_after(keep)
        if session.context_used > keep:  # a ring has lost what it would need
            session.clear()
            self._shared = 0
        first, *rest = self._text[session.context_used :]
        if len(rest) > session.most_drafted:
            end = session.context_used + self.most_read
            logits = session.prefill(self._text[:end], should_stop)
            return logits if end >= len(self._text) else logits[:0]
        logits = session.decode(first, should_stop, rest)
        for token in rest:  # the pass has run them: they only count now
            logits = session.decode(token, should_stop)
        return logits

    def _compare_cache(self) -> None:
        """Compare the cache with the text: the first `_shared` tokens are those of both."""
        self._cached = list(self._session.tokens())
        self._compare()

    def _compare(self) -> None:
        most = min(len(self._cached), len(self._text))
        while self._shared < most and self._cached[self._shared] == self._text[self._shared]:
            self._shared += 1
