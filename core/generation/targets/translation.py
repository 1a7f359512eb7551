"""From a source text to a target: what encoder-decoders are asked for.

The target of a beam is read again by the decoder that a person looks into, so that maps, cache and
probabilities are there whatever found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.targets.beam_decoder import BeamDecoder
from llm_lite.core.generation.targets.beam_search import BeamOptions, BeamSearch, Hypothesis
from llm_lite.core.generation.targets.source import SourceEncoder
from llm_lite.core.models.model import DecodingDefaults

MOST_BEAMS = 16
Watch = Callable[[Sequence[int]], None]  # the best target so far, after every token
BeamExecutor = Callable[[int], Executor]  # of a width


@dataclass(frozen=True, slots=True)
class Target:
    """tokens: without the one that the decoder starts with, and with the one that ends it.
    score: the mean of log probabilities, or as the length penalty has it. others: the next best
    hypotheses of the beam."""

    tokens: tuple[int, ...]
    score: float
    others: tuple[Hypothesis, ...] = ()


class Translator:
    """Of one model. `beam_executor` makes that of a width when such a beam is first asked for."""

    def __init__(
        self,
        session: Session,
        encoder: SourceEncoder,
        defaults: DecodingDefaults,
        ends: frozenset[int],
        beam_executor: BeamExecutor,
    ) -> None:
        """ends: tokens that end a target."""
        self._session, self._encoder = session, encoder
        self._defaults, self._ends = defaults, ends
        self._beam_executor = beam_executor
        self._beams: dict[int, Executor] = {}

    def options(self, beams: int = 0, most_tokens: int = 0) -> BeamOptions:
        """What is left out (0) is the model's own. RequestError for a beam that is too wide."""
        width, context = beams or self._defaults.beams, self._session.context
        if not 1 <= width <= MOST_BEAMS:
            raise RequestError(f"beams: expected 1 to {MOST_BEAMS}, found {width}")
        return BeamOptions(
            width,
            self._ends,
            min(most_tokens or context - 1, context - 1),
            self._defaults.length_penalty,
            self._defaults.early_stopping,
            self._defaults.banned,
            self._defaults.forced_end,
        )

    def translate(
        self,
        source: Sequence[int],
        options: BeamOptions,
        watch: Watch = lambda tokens: None,
        should_stop: StopCheck | None = None,
    ) -> Target:
        """The target of a source. RequestError for a source that is too long, CancelledError."""
        self._encoder.encode(source, should_stop)
        self._encoder.hand_to(self._session.executor)
        self._session.see_source(source)
        if options.width == 1:
            return self._greedy(options, watch, should_stop)
        target = self._search(len(source), options, watch, should_stop)
        self._session.prefill([self._defaults.start, *target.tokens[:-1]])
        return target

    def _greedy(self, options: BeamOptions, watch: Watch, should_stop: StopCheck | None) -> Target:
        """The likeliest token each time: the first of a beam of one that ends."""
        search = BeamSearch(replace(options, early_stopping=True))
        while not search.is_done:
            tokens = search.running[0].tokens
            logits = self._session.prefill([self._defaults.start, *tokens], should_stop=should_stop)
            search.advance(logits[None])
            best = search.running[0] if search.running else search.best
            watch(best.tokens)
        return Target(search.best.tokens, search.best.score)

    def _search(
        self, source: int, options: BeamOptions, watch: Watch, should_stop: StopCheck | None
    ) -> Target:
        width = options.width
        if width not in self._beams:
            self._beams[width] = self._beam_executor(width)
        executor = self._beams[width]
        self._encoder.hand_to(executor)
        search = BeamDecoder(executor, source).search(
            self._defaults.start, options, lambda found: watch(found.best.tokens), should_stop
        )
        return Target(search.best.tokens, search.best.score, search.finished[1:])
