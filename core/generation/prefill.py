"""Reads a prompt into the cache: how it is to be read, what is left to run, a step of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError, TooLongError
from llm_lite.core.kv_cache.provenance import SMALLEST
from llm_lite.core.messages import Overflow


class PrefillOptions(Struct, frozen=True):
    """The options by which a prompt is read: what is done when the context is full, and how many
    first tokens are kept then. With `resumed`, an answer continues, whatever weights read its
    beginning."""

    overflow: Overflow = "stop"
    head: int = 0
    resumed: bool = False
    afresh: bool = False  # nothing of the cache or of other prefixes is reused
    name: str = ""  # of the conversation, as the list of kept prefixes shows it
    conversation: int = 0  # its number in the history


PLAIN = PrefillOptions()


class Prepared(Struct, frozen=True):
    """A prompt after reuse of the cache: what is left to run.

    These are its tokens from `start` on, without those in `skip`.
    """

    prompt: tuple[int, ...]
    options: PrefillOptions
    reused: int  # positions that need no work
    forgotten: tuple[tuple[int, int], ...]  # first..last-1 of the prompt: what will not be read
    start: int
    skip: range

    @property
    def parts(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return tokens to run, then those to skip, then those to run."""
        first = self.skip.start if self.skip else self.start
        last = self.skip.stop if self.skip else self.start
        return self.prompt[self.start : first], self.prompt[first:last], self.prompt[last:]


class Prefilled(Struct, frozen=True):
    """Reports that one step of a prompt is done."""

    done: int  # positions that the cache holds
    total: int  # that it will hold once the prompt is read
    logits: NDArray[np.float32]  # [V], of what follows the last of them


class Forgotten(Struct, frozen=True):
    """Reports that the context was full, and positions were forgotten to make room for the next
    token."""


def chunks(tokens: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Return the tokens of each step, at most `most`."""
    return (tokens[start : start + most] for start in range(0, len(tokens), most))


def check_prompt(
    tokens: Sequence[int], options: PrefillOptions, *, context: int, vocabulary: int
) -> None:
    """Raise RequestError unless the prompt can be read: not empty, no longer than the context if
    nothing may be forgotten, every token in the vocabulary."""
    if not tokens:
        raise RequestError("the prompt is empty: it has no tokens")
    if len(tokens) > context and (options.overflow == "stop" or context < SMALLEST):
        raise TooLongError(
            f"the prompt has {len(tokens)} tokens, but the context holds {context}; "
            "shorten it or load the model with a larger context",
            len(tokens),
        )
    if min(tokens) < 0 or max(tokens) >= vocabulary:
        outside = next(t for t in tokens if not 0 <= t < vocabulary)
        raise RequestError(f"token {outside} is outside the vocabulary of {vocabulary} tokens")
