"""The interface of sources of drafts: tokens that may follow a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import StopCheck

LOOKUP = "lookup"  # the name of the source that looks tokens up in the text


class Branch(Struct, frozen=True):
    """Tokens that may follow the first `fork` tokens of a draft instead of those behind them: the
    first one differs. Evidence as of a draft, or the share in percent that a model gives it."""

    tokens: tuple[int, ...] = ()
    fork: int = 0
    evidence: int = 0


NO_BRANCH = Branch()


class Draft(Struct, frozen=True):
    """Tokens that may follow, and the evidence for them: for a source that looks tokens up how many
    last tokens of the text it has found elsewhere; 0 for one that computes them."""

    tokens: tuple[int, ...] = ()
    evidence: int = 0
    branch: Branch = NO_BRANCH
    is_reading: bool = False  # the source reads the text yet: it drafts when it is asked again


NO_DRAFT = Draft()
STILL_READING = Draft(is_reading=True)


class DraftSource(Protocol):
    """The interface of a source that follows a text and proposes how it continues."""

    @property
    def name(self) -> str:
        """Return the source's name as people read it, one word."""
        ...

    @property
    def seconds_per_token(self) -> float:
        """Return the seconds that a drafted token costs, as last measured; 0.0 if drafts are looked
        up."""
        ...

    def begin(self, tokens: Sequence[int]) -> None:
        """Begin another text."""
        ...

    def add(self, token: int) -> None:
        """Continue the text with this token."""
        ...

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        """Draft at most `most` tokens that may follow; NO_DRAFT if nothing speaks for any.

        CancelledError when stopped.
        """
        ...


class Likely(Struct, frozen=True):
    """The two likeliest tokens of a place, with the shares that the model gives them."""

    token: int
    chance: float
    second: int
    second_chance: float


def likely(logits: NDArray[np.float32]) -> Likely:
    """Return the two likeliest tokens of logits float32 [V], V > 1, with their probabilities; of
    equal ones the first."""
    token = int(logits.argmax())
    weights = np.exp(logits - logits[token])
    total = float(weights.sum())
    weights[token] = -1.0
    second = int(weights.argmax())
    return Likely(token, 1.0 / total, second, float(weights[second]) / total)


def draft_of(places: Sequence[Likely]) -> Draft:
    """Return a draft of the likeliest tokens of consecutive places; the branch is the second one of
    the place where that is the likeliest to be right while all before it are. Its evidence is its
    share in percent: branches with alike shares are scored together."""
    branch, best, before = NO_BRANCH, 0.0, 1.0  # before: the chance of all tokens so far
    for fork, place in enumerate(places):
        if before * place.second_chance > best:
            evidence = round(100 * place.second_chance)
            branch, best = Branch((place.second,), fork, evidence), before * place.second_chance
        before *= place.chance
    return Draft(tuple(place.token for place in places), branch=branch)
