"""`TokenChooser` chooses the tokens of one answer, whatever runs its steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.guide import Guide
from llm_lite.core.generation.sampling import BEST, Sampler, TokenChoice, check_bias, score_token
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace

PATIENCE = 0.01  # seconds in which an honest mask is there after a step


class TokenChooser:
    """Chooses the tokens of one answer from logits, and survives a change of executor.

    `tokens` are its prompt and the tokens to decode behind it: the list grows in place. An answer
    begins with the tokens `forced`: all but the last of them belong to the prompt, and the last is
    scored as if it had been chosen.
    """

    def __init__(
        self,
        tokens: list[int],
        sampling: SamplingOptions,
        ends: Collection[int],
        vocabulary: int,
        *,
        forced: Sequence[int] = (),
        guide: Guide | None = None,
        drafts: AnswerDrafts | None = None,
        best: int = BEST,
    ) -> None:
        """Make the chooser behind a prompt of `tokens`. `guide` says which tokens may come, and
        takes those that do. `best` is that of `Sampler`. RequestError where `sampling` is out of
        range, or weighs tokens that the vocabulary does not have."""
        check_bias(sampling, vocabulary)
        self._sampler = Sampler(sampling, guide.token_bytes if guide else None, best)
        self._guide, self._most = guide, sampling.max_new_tokens
        self.ends = ends
        self.tokens = tokens
        self.tokens += forced[:-1]
        self._unscored = deque(forced[:-1])
        self._forced = tuple(forced)  # until the last one is scored
        self.drafts = AnswerDrafts(ends) if drafts is None else drafts
        self.chosen = 0  # tokens, without forced ones
        self.is_over = self._most <= 0

    @property
    def left(self) -> int:
        """Return how many tokens may still be chosen."""
        return self._most - self.chosen

    @property
    def forced_end(self) -> tuple[int, ...]:
        """Return the last of the tokens that the answer begins with, unless it has been scored."""
        return self._forced[-1:]

    def prepare(self) -> None:
        """Begin to find out what may come next, while the model's step runs."""
        if self._guide is not None and not self._forced:
            self._guide.prepare()

    def is_ready(self, seconds: float = PATIENCE) -> bool:
        """Return whether it is known which tokens may come next; waits for that up to `seconds`."""
        return self._guide is None or bool(self._forced) or self._guide.is_ready(seconds)

    def rest(self) -> None:
        """Let the guide rest, as the answer waits for its turn."""
        if self._guide is not None:
            self._guide.rest()

    @property
    def is_kept(self) -> bool:
        """Return whether the guide has all that it had found."""
        return self._guide is None or self._guide.is_kept

    @property
    def is_busy(self) -> bool:
        """Return whether the guide still finds out what may come next."""
        return self._guide is not None and self._guide.is_busy

    def next_unscored(self) -> TokenChoice | None:
        """Return the next of the tokens that the answer begins with and that have no probability;
        None behind the last."""
        return TokenChoice(self._unscored.popleft(), math.nan) if self._unscored else None

    def choose(self, logits: NDArray[np.float32], drafted: tuple[int, ...] = ()) -> TokenChoice:
        """Choose what follows `tokens`, of logits float32 [V]; `drafted` are the tokens drafted for
        its place and behind. Unless it is the last one, it is to be decoded: one of `tokens`.

        RequestError where no token may come, and NotFiniteError, as of `Sampler.choose` and
        `Guide`.
        """
        if self._forced:
            choice = self._score_forced(logits)
        else:
            choice = self._choose_guided(logits)
            self.chosen += 1
        self.is_over = choice.token in self.ends or self.left <= 0
        if accepted := drafted[:1] == (choice.token,):
            self.drafts.note_accepted()
        if not self.is_over:
            self.tokens.append(choice.token)
        return replace(choice, accepted=accepted, rejected=() if accepted else drafted)

    def propose(self, most: int, should_stop: StopCheck | None = None) -> tuple[int, ...]:
        """Return at most `most` drafted tokens that may still be chosen behind the next one."""
        return self.drafts.propose(self.tokens, min(most, self.left - 1), should_stop)

    def close(self) -> None:
        """Release what the guide needs of the machine, as the answer is over or rests."""
        if self._guide is not None:
            self._guide.close()

    def _choose_guided(self, logits: NDArray[np.float32]) -> TokenChoice:
        guide = self._guide
        if guide is None:
            return self._sampler.choose(logits, self.tokens)
        due = guide.due()
        choice = (
            self._sampler.choose(logits, self.tokens, guide.mask())
            if due is None
            else self._sampler.score(logits, due)
        )
        guide.take(choice.token)
        return choice

    def _score_forced(self, logits: NDArray[np.float32]) -> TokenChoice:
        """Return the last of the forced tokens, as if it had been chosen."""
        *before, token = self._forced
        self._forced = ()
        if self._guide is None:
            return score_token(logits, token)
        self._guide.take_all(before)
        choice = score_token(logits, token, self._guide.mask())
        self._guide.take(token)
        return choice
