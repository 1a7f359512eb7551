"""The interface of sources of drafts: tokens that may follow a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import StopCheck

LOOKUP = "lookup"  # the name of the source that looks tokens up in the text


class Draft(Struct, frozen=True):
    """Tokens that may follow, and the evidence for them: for a source that looks tokens up how many
    last tokens of the text it has found elsewhere; 0 for one that computes them."""

    tokens: tuple[int, ...] = ()
    evidence: int = 0
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
    """The likeliest token of a place, with the share that the model gives it."""

    token: int
    chance: float


def likely(logits: NDArray[np.float32]) -> Likely:
    """Return the likeliest token of logits float32 [V], with its probability; of equal ones the
    first."""
    token = int(logits.argmax())
    return Likely(token, 1.0 / float(np.exp(logits - logits[token]).sum()))


def draft_of(places: Sequence[Likely]) -> Draft:
    """Return a draft of the likeliest tokens of consecutive places."""
    return Draft(tuple(place.token for place in places))
