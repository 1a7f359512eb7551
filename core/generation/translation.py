"""Translation from a source text to a target, by an encoder-decoder.

The target of a beam is read again by the decoder that a person inspects, so that maps, cache and
probabilities are there whatever found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError, TooLongError
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.generation.beam_search import BeamDecoder, BeamOptions, BeamSearch, Hypothesis
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.token_estimate import estimated_tokens, utf8_bytes
from llm_lite.core.generation.token_texts import alternatives, completed_texts, text_of
from llm_lite.core.inspect.inspected import SequenceGains
from llm_lite.core.inspect.inspected_encoder import InspectedEncoder
from llm_lite.core.messages import SourceToken, TargetToken
from llm_lite.core.messages.translating import MOST_BEAMS
from llm_lite.core.models.model import DecodingDefaults
from llm_lite.core.plain_text import estimate
from llm_lite.core.plan.attention_layers import cross_states
from llm_lite.core.plan.step import Step
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer

F32 = NDArray[np.float32]


class SourceEncoder(InspectedEncoder):
    """Runs an encoder's program, and hands keys and values on to executors of its decoder."""

    def __init__(
        self, executor: Executor, decoder_layers: int, *, made_by: str = "", model: str = ""
    ) -> None:
        super().__init__(executor, made_by=made_by, model=model)
        self.handed_states = tuple(name for i in range(decoder_layers) for name in cross_states(i))
        self.hidden: F32 | None = None  # [tokens, width], of what was encoded last

    def encode(self, tokens: Sequence[int], should_stop: StopCheck | None = None) -> F32:
        """Encode a source and return its hidden states float32 [tokens, width]. RequestError if the
        source is too long."""
        check_source(tokens, self.executor.program.max_tokens)
        step = Step(np.asarray(tokens, np.int32), 0, len(tokens))
        with self._encoding(tokens):
            hidden = self.executor.run(step, should_stop)
            self.hidden = self.checked(hidden, "the encoder's hidden states")
        return self.hidden

    def hand_to(self, decoder: Executor) -> None:
        """Write the keys and values of the last source to the decoder; its steps then have
        `source=len(self.tokens())`."""
        for name in self.handed_states:
            decoder.write_state(name, 0, self.executor.read_state(name, 0, len(self._tokens)))


Watch = Callable[[Sequence[int]], None]  # the best target so far, after every token
BeamExecutor = Callable[[int], Executor]  # of a width
LONGER, PLUS = 2, 200  # a target may have so many times the tokens of its source, and so many more


def longest_target(source: int) -> int:
    """Return the most tokens of a target whose length nobody chose, for a source of `source`
    tokens: a model that finds no end would continue to the end of its context. As generous as
    fairseq's --max-len-b (200)."""
    return LONGER * source + PLUS


class Target(Struct, frozen=True):
    """The likeliest hypothesis and the next best of the beam. Its tokens are without the one that
    the decoder starts with, and with the one that ends it. Its score is the mean of log
    probabilities, or as the length penalty has it."""

    best: Hypothesis
    others: tuple[Hypothesis, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.best.tokens

    @property
    def score(self) -> float:
        return self.best.score


class GreedyDecoder:
    """Decodes the likeliest token each time, in the session that a person inspects: the first of a
    beam of one that ends."""

    def __init__(self, session: Session, start: int) -> None:
        self._session, self._start = session, start

    def begin(self, options: BeamOptions) -> BeamSearch:
        return BeamSearch(replace(options, early_stopping=True))

    def step(self, search: BeamSearch, should_stop: StopCheck | None = None) -> None:
        tokens = [self._start, *search.running[0].tokens]
        search.advance(self._session.prefill(tokens, should_stop=should_stop)[None])


class TargetWriter:
    """A target on its way, a token a step."""

    def __init__(
        self, search: BeamSearch, step: Callable[[BeamSearch], None], read: Callable[[Target], None]
    ) -> None:
        """Make the writer. `read` brings a target that is not there yet into the cache."""
        self._search, self._step, self._read = search, step, read

    def step(self) -> bool:
        """Write a token; False once the target is complete, and after it nothing is done."""
        if not self._search.is_done:
            self._step(self._search)
        return not self._search.is_done

    @property
    def is_done(self) -> bool:
        return self._search.is_done

    @property
    def best(self) -> Hypothesis:
        """Return the likeliest hypothesis so far."""
        return self._search.best

    def finish(self) -> Target:
        """Return what was found until now; the session then holds it, but for its last token."""
        best, *others = self._search.ranking()
        target = Target(best, tuple(others))
        self._read(target)
        return target


class Translator:
    """The translator of one model. `beam_executor` makes the executor of a width when such a beam
    is requested; it is kept until another width is, and then closed by `close_beam`."""

    def __init__(
        self,
        session: Session,
        encoder: SourceEncoder,
        defaults: DecodingDefaults,
        ends: frozenset[int],
        beam_executor: BeamExecutor,
        close_beam: Callable[[Executor], None],
    ) -> None:
        """Make the translator. ends: tokens that end a target."""
        self._session, self._encoder = session, encoder
        self._defaults, self._ends = defaults, ends
        self._beam_executor, self._close_beam = beam_executor, close_beam
        self._beam: Executor | None = None
        self._beam_width = 0

    @property
    def start(self) -> int:
        """Return the token that the decoder begins with."""
        return self._defaults.start

    def options(
        self, beams: int = 0, most_tokens: int = 0, *, keeps_choices: bool = False
    ) -> BeamOptions:
        """Return the options of a search: without `beams` as many as the model's file says, without
        `most_tokens` those of `longest_target` for the source that was read. RequestError for a
        beam that is too wide."""
        width, context = beams or self._defaults.beams, self._session.context
        longest = most_tokens or longest_target(self._session.source)
        if not 1 <= width <= MOST_BEAMS:
            raise RequestError(f"beams: expected 1 to {MOST_BEAMS}, found {width}")
        return BeamOptions(
            width,
            self._ends,
            min(longest, context - 1),
            self._defaults.length_penalty,
            self._defaults.early_stopping,
            self._defaults.banned,
            self._defaults.forced_end,
            keeps_choices,
            self._defaults.forced_begin,
            self._defaults.shortest,
            self._defaults.no_repeat,
        )

    def translate(
        self,
        source: Sequence[int],
        options: BeamOptions,
        watch: Watch = lambda tokens: None,
        should_stop: StopCheck | None = None,
    ) -> Target:
        """Write the target of a source. RequestError for one that is too long, CancelledError."""
        self.read_source(source, should_stop)
        return self.whole(options, watch, should_stop)

    def whole(
        self,
        options: BeamOptions,
        watch: Watch = lambda tokens: None,
        should_stop: StopCheck | None = None,
    ) -> Target:
        """Write the target of the source that was read. CancelledError."""
        writer = self.write(options, should_stop)
        going_on = True
        while going_on:
            going_on = writer.step()
            watch(writer.best.tokens)
        return writer.finish()

    def read_source(self, source: Sequence[int], should_stop: StopCheck | None = None) -> None:
        """Read the source of the next targets. RequestError if it is too long, CancelledError."""
        self._encoder.encode(source, should_stop)
        self._encoder.hand_to(self._session.executor)
        self._session.see_source(source)

    def write(self, options: BeamOptions, should_stop: StopCheck | None = None) -> TargetWriter:
        """Begin a target of the source that was read, a token a step, which may be cancelled."""
        if options.width == 1:
            greedy = GreedyDecoder(self._session, self.start)
            return TargetWriter(
                greedy.begin(options),
                lambda search: greedy.step(search, should_stop),
                lambda target: None,
            )
        decoder = BeamDecoder(self._beam_of(options.width), self._session.source)
        return TargetWriter(
            decoder.begin(self.start, options),
            lambda search: decoder.step(search, should_stop),
            lambda target: self.read_target(target.tokens[:-1]),
        )

    def read_target(self, tokens: Sequence[int]) -> None:
        """Have the session hold a target, its tokens without the one that it starts with.
        RequestError where it is too long."""
        self._session.prefill([self.start, *tokens])

    def forget(self) -> None:
        """Hold no source and no target."""
        self._session.see_source(())

    def _beam_of(self, width: int) -> Executor:
        """Return the executor of a beam of this width, with the session's source and gains."""
        if self._beam is not None and self._beam_width != width:
            beam, self._beam = self._beam, None
            self._close_beam(beam)
        if self._beam is None:
            self._beam, self._beam_width = self._beam_executor(width), width
        executor = self._beam
        self._encoder.hand_to(executor)
        SequenceGains(executor).write(self._session.gains)
        return executor


def check_source(tokens: Sequence[int], most: int, vocabulary: int = 1 << 31) -> None:
    """Raise RequestError unless there are 1 to `most` tokens, all of them in the vocabulary."""
    if not 0 < len(tokens) <= most:
        raise RequestError(f"the source has {len(tokens)} tokens, expected 1 to {most}")
    if (wrong := next((t for t in tokens if not 0 <= t < vocabulary), None)) is not None:
        raise RequestError(f"token {wrong} is not in the vocabulary of {vocabulary}")


def encode_source(tokenizer: Tokenizer, text: str, context: int) -> list[int]:
    """Return the ids of a source with the tokens that end it. TooLongError, without tokenizing it,
    for a text that is certainly longer than `context` tokens."""
    most, found = context * tokenizer.longest_token_bytes, utf8_bytes(text)
    if found > most:
        tokens = estimated_tokens(tokenizer, (text,))
        raise TooLongError(
            f"the source has {estimate(tokens)} tokens, but the context holds {context}; shorten "
            "it or load the model with a larger context",
            tokens,
        )
    return tokenizer.encode(text, add_special=True)


def source_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[SourceToken, ...]:
    return tuple(SourceToken(i, text_of(tokenizer, i), tokenizer.is_special(i)) for i in ids)


def target_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the target's text without special tokens and the spaces around it."""
    return tokenizer.decode(ids, skip_special=True).strip()


def target_tokens(tokenizer: Tokenizer, target: Hypothesis) -> tuple[TargetToken, ...]:
    """Return the target's tokens with the probabilities of its choices."""
    texts = completed_texts(tokenizer, target.tokens)
    return tuple(
        TargetToken(
            choice.token,
            text,
            choice.probability,
            alternatives(tokenizer, choice.best),
            tokenizer.is_special(choice.token),
        )
        for choice, text in zip(target.choices, texts, strict=True)
    )
