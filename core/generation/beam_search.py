"""Beam search: the likeliest sequences that a few hypotheses at a time lead to.

Sums of log probabilities are divided by length^length_penalty (Wu et al. 2016, section 7). When a
search ends follows transformers' generation, so that both find the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.finite import checked
from llm_lite.core.generation.sampling import TokenChoice, score_token
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.plan.step import PAGE, Segment, Step
from llm_lite.core.records import replace

F32 = NDArray[np.float32]
# True: with as many finished hypotheses as the beam is wide; False: when the best that goes on is,
# at its length, no better than the worst finished; "never": nor can become so.
EarlyStopping = bool | Literal["never"]


class BeamOptions(Struct, frozen=True):
    """The options of a beam search. width: hypotheses at a time. ends: tokens that finish one.
    most_tokens: of a sequence, after its start. banned: tokens that are never chosen. forced_end:
    the last token of a sequence that reaches `most_tokens`; None: any. keeps_choices: the likeliest
    others in the place of a token. forced_begin: the first token; None: any. shortest: tokens of a
    sequence that ends, its end among them. no_repeat: so many tokens in a row never come twice in
    it; 0: they may."""

    width: int
    ends: frozenset[int]
    most_tokens: int
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    banned: tuple[int, ...] = ()
    forced_end: int | None = None
    keeps_choices: bool = False
    forced_begin: int | None = None
    shortest: int = 0
    no_repeat: int = 0


class Hypothesis(Struct, frozen=True):
    """A sequence of the beam. score: the sum of log probabilities; for a finished one divided by
    its length's power."""

    tokens: tuple[int, ...]
    score: float
    parent: int = 0  # its place among the hypotheses of the step before
    choices: tuple[TokenChoice, ...] = ()  # of each token, where they are kept


def repeating(tokens: Sequence[int], count: int) -> list[int]:
    """Return the tokens with which the last `count` of a sequence would come a second time."""
    last = tuple(tokens[len(tokens) - count + 1 :])
    runs = (tuple(tokens[at : at + count]) for at in range(len(tokens) - count + 1))
    return [run[-1] for run in runs if run[:-1] == last]


class BeamSearch:
    """A beam search. `running` are to be continued, best first; `finished` are the best that ended,
    best first."""

    def __init__(self, options: BeamOptions) -> None:
        self.options = options
        self.running: tuple[Hypothesis, ...] = (Hypothesis((), 0.0),)
        self.finished: tuple[Hypothesis, ...] = ()
        self.is_done = False

    def advance(self, logits: F32) -> None:
        """Continue the search. logits [running, vocabulary] behind each running hypothesis."""
        options, length = self.options, len(self.running[0].tokens) + 1
        candidates = self._candidates(self._log_probabilities(logits, length))
        ended = [c.tokens[-1] in options.ends or length >= options.most_tokens for c in candidates]
        best = zip(candidates[: options.width], ended, strict=False)
        power = length**options.length_penalty
        finished = [replace(c, score=c.score / power) for c, ends in best if ends]
        going_on = [c for c, ends in zip(candidates, ended, strict=True) if not ends]
        kept = self._with_choices([*finished, *going_on[: options.width]], logits)
        self._finish(kept[: len(finished)])
        self.running = tuple(kept[len(finished) :])
        self.is_done = not self.running or not self._can_improve(length)

    def ranking(self) -> tuple[Hypothesis, ...]:
        """Return the best hypotheses first, no more than the beam is wide: those that ended, and
        until the search is done those that continue, their scores divided by the same power of the
        length."""
        if self.is_done and self.finished:
            return self.finished
        power = max(1, len(self.running[0].tokens)) ** self.options.length_penalty
        going_on = [replace(h, score=h.score / power) for h in self.running]
        ranked = sorted((*self.finished, *going_on), key=lambda h: -h.score)
        return tuple(ranked[: self.options.width])

    @property
    def best(self) -> Hypothesis:
        """Return the likeliest hypothesis so far."""
        return self.ranking()[0]

    def _log_probabilities(self, logits: F32, length: int) -> F32:
        """float32 [running, vocabulary]; forbidden tokens have none."""
        shifted = logits - logits.max(axis=1, keepdims=True)
        logs: F32 = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        options = self.options
        logs[:, list(options.banned)] = -np.inf
        if length < options.shortest:
            logs[:, list(options.ends)] = -np.inf
        if options.no_repeat:
            for row, hypothesis in zip(logs, self.running, strict=True):
                row[repeating(hypothesis.tokens, options.no_repeat)] = -np.inf
        forced = options.forced_begin if length == 1 else None
        if options.forced_end is not None and length == options.most_tokens:
            forced = options.forced_end
        if forced is not None:
            logs[:] = -np.inf
            logs[:, forced] = 0.0
        return logs

    def _candidates(self, logs: F32) -> list[Hypothesis]:
        """Return candidates, the best first; so many that the beam stays full even if its best all
        end."""
        count = max(2, 1 + len(self.options.ends)) * self.options.width
        scores = (logs + np.array([[h.score] for h in self.running], np.float32)).reshape(-1)
        places = np.argpartition(-scores, min(count, scores.size) - 1)[:count]
        places = places[np.lexsort((places, -scores[places]))]
        candidates = []
        for place in places[np.isfinite(scores[places])]:
            parent, token = divmod(int(place), logs.shape[1])
            tokens = (*self.running[parent].tokens, token)
            candidates.append(Hypothesis(tokens, float(scores[place]), parent))
        return candidates

    def _with_choices(self, hypotheses: list[Hypothesis], logits: F32) -> list[Hypothesis]:
        """Add to each hypothesis its last token's probability, and the likeliest others."""
        if not self.options.keeps_choices:
            return hypotheses
        return [
            replace(h, choices=(*self.running[h.parent].choices, score_token(row, h.tokens[-1])))
            for h, row in ((h, logits[h.parent]) for h in hypotheses)
        ]

    def _finish(self, ended: list[Hypothesis]) -> None:
        merged = sorted((*self.finished, *ended), key=lambda h: -h.score)
        self.finished = tuple(merged[: self.options.width])

    def _can_improve(self, length: int) -> bool:
        options = self.options
        if len(self.finished) < options.width:
            return True
        if options.early_stopping is True:
            return False
        longest = options.early_stopping == "never" and options.length_penalty > 0
        reached = options.most_tokens if longest else length
        possible = self.running[0].score / reached**options.length_penalty
        return possible > self.finished[-1].score


class BeamDecoder:
    """Searches for a target by beams: `executor` runs a decoder's program with `beam_pages`; its
    source is there already."""

    def __init__(self, executor: Executor, source: int) -> None:
        """Decode with an executor of shared steps. source: positions of the encoder's cache."""
        pages = executor.program.pages
        assert pages is not None, "a program of shared steps"
        self._executor, self._source = executor, source
        caches = cache_layers(executor.program.plans[0])
        self._states = [tensor.name for layer in caches for tensor in layer.tensors]
        self._tables = np.arange(pages.pages, dtype=np.int32).reshape(pages.segments, pages.table)
        self._start = 0
        self._slots: list[int] = [0]  # of the running hypotheses

    def begin(self, start: int, options: BeamOptions) -> BeamSearch:
        """Begin a search whose hypotheses start behind this token; the one before ends."""
        self._start, self._slots = start, [0]
        return BeamSearch(options)

    def step(self, search: BeamSearch, should_stop: StopCheck | None = None) -> None:
        """Decode one token more. CancelledError once `should_stop` returns True."""
        length = len(search.running[0].tokens)
        tokens = [h.tokens[-1] if h.tokens else self._start for h in search.running]
        search.advance(self._logits(tokens, length, should_stop))
        self._move_caches(search.running, length + 1)

    def search(self, start: int, options: BeamOptions) -> BeamSearch:
        """Search from the token that decoding starts with to the end."""
        search = self.begin(start, options)
        while not search.is_done:
            self.step(search)
        return search

    def _logits(self, tokens: Sequence[int], start: int, should_stop: StopCheck | None) -> F32:
        """float32 [hypotheses, vocabulary] behind the tokens, which are at position `start`."""
        segments = tuple(Segment(start, 1, 1, self._tables[slot]) for slot in self._slots)
        step = Step(np.asarray(tokens, np.int32), 0, len(tokens), segments, source=self._source)
        return checked(self._executor.run(step, should_stop), "the logits of a beam")

    def _move_caches(self, running: Sequence[Hypothesis], length: int) -> None:
        """Move the caches of the hypotheses: each continues its parent's keys and values, the first
        child in place, others in a copy."""
        heirs: dict[int, int] = {}  # the first child of each parent
        for child, hypothesis in enumerate(running):
            heirs.setdefault(hypothesis.parent, child)
        used = {self._slots[parent] for parent in heirs}
        free = [slot for slot in range(len(self._tables)) if slot not in used]
        slots = []
        for child, hypothesis in enumerate(running):
            slot = self._slots[hypothesis.parent]
            if heirs[hypothesis.parent] != child:
                source, slot = slot, free.pop()
                self._copy(source, slot, length)
            slots.append(slot)
        self._slots = slots

    def _copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of a hypothesis."""
        for page, at in enumerate(range(0, length, PAGE)):
            rows = min(PAGE, length - at)
            first, second = (int(self._tables[s, page]) * PAGE for s in (source, target))
            for name in self._states:
                data = self._executor.read_state(name, first, rows)
                self._executor.write_state(name, second, data)
