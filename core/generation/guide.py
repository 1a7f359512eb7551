"""The guide of an answer: thoughts end in time, and then the answer keeps to a grammar, whatever
the model would like."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Literal

from llm_lite.core.generation.grammars.grammar import Grammar, grammar_of
from llm_lite.core.generation.token_choice import Mask, no_tokens
from llm_lite.core.messages import SamplingOptions, Thinking
from llm_lite.core.text.thinking import MARKS, Split
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer

# What follows an opening: a thought, a call of a function, or text that keeps to the grammar.
_Content = Literal["thought", "call", "grammar"]
_Opening = tuple[tuple[int, ...], _Content]  # tokens of a mark that are left, and what follows it


class Guide:
    """The guide of one answer. `due`, `mask` and `take` are called once for each of its tokens, in
    order."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sampling: SamplingOptions,
        thinking: Thinking | None,
        grammar: Grammar | None,
        *,
        may_think: bool = True,
        calls: Iterable[str] = (),
    ) -> None:
        """Guide an answer. `thinking` is how it marks its thoughts. With `may_think`, an answer
        that keeps to a grammar may begin with thoughts. `calls` are texts with which a call of a
        function begins, which may stand in its place."""
        self.token_bytes = tokenizer.token_bytes
        self._tokenizer, self._decoder = tokenizer, StreamDecoder(tokenizer)
        self._end_ids = tokenizer.end_ids
        self._most = sampling.max_thinking_tokens
        self._split = None if thinking is None else Split.of(thinking)
        self._thought = 0  # tokens
        self._due: deque[int] = deque()  # tokens that must come next
        self._grammar = grammar
        self._grammar_waits = thinking is not None and thinking.inside  # for the thought's end
        calls = calls if grammar is not None else ()
        self._calls: list[_Opening] = [(tuple(self._ids(text)), "call") for text in calls]
        # What may come in place of what the grammar allows; alone, once an opening has begun.
        self._openings = list(self._calls)
        self._is_in_opening = False
        if thinking is not None and may_think and not thinking.inside and grammar is not None:
            self._openings.append((tuple(self._ids(MARKS[thinking.style].opening)), "thought"))

    def due(self) -> int | None:
        """Return the token that must come next; None if there is a choice."""
        if self._due:
            return self._due[0]
        next_ones = {ids[0] for ids, _ in self._openings} if self._is_in_opening else ()
        return next(iter(next_ones)) if len(next_ones) == 1 else None

    def mask(self) -> Mask | None:
        """Return the tokens that may come next; None: all. RequestError if there are none."""
        if self._grammar is None or self._grammar_waits:
            return None
        mask = (
            no_tokens(self._tokenizer.vocab_size) if self._is_in_opening else self._grammar.mask()
        )
        for ids, _ in self._openings:
            word, bit = divmod(ids[0], 32)
            mask[word] |= 1 << bit
        return mask

    def prepare(self) -> None:
        """Begin to compute what may come next, while the model's step runs."""
        if self._is_deciding:
            assert self._grammar is not None
            self._grammar.prepare()

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Return True if `mask` would not wait; waits up to `seconds` for it."""
        return not self._is_deciding or self._grammar is None or self._grammar.is_ready(seconds)

    def check(self) -> None:
        """Raise RequestError if the grammar is broken or costs too much, and if the tokens so far
        do not fit it."""
        if self._is_deciding:
            assert self._grammar is not None
            self._grammar.check()

    def rest(self) -> None:
        """Let the grammar's process rest until the answer goes on."""
        if self._grammar is not None:
            self._grammar.rest()

    @property
    def is_kept(self) -> bool:
        """Return whether the grammar is ready to go on, if one decides what comes next."""
        return not self._is_deciding or self._grammar is None or self._grammar.is_kept

    @property
    def is_busy(self) -> bool:
        """Return whether what may come next is still being found."""
        return self._grammar is not None and self._grammar.is_busy

    def close(self) -> None:
        """Release the grammar's process, as the answer is over or rests; from any thread."""
        if self._grammar is not None:
            self._grammar.close()

    @property
    def _is_deciding(self) -> bool:
        """Return True if the grammar decides what comes next."""
        return (
            self._grammar is not None
            and not self._grammar_waits
            and not self._due
            and not self._is_in_opening
        )

    def take(self, token: int) -> None:
        """Continue the answer with this token. RequestError if the grammar does not allow it."""
        if self._due and self._due[0] == token:
            self._due.popleft()
        else:
            self._due.clear()
        is_free = self._grammar is None or self._grammar_waits
        openings = [(ids[1:], what) for ids, what in self._openings if ids[0] == token]
        if not is_free and openings and not self._may_be_either(token, openings):
            self._continue_openings(openings)
        elif self._grammar is not None and not is_free and token not in self._end_ids:
            self._openings, self._is_in_opening = openings, False
            self._grammar.take(token)
        if self._split is not None and (self._grammar_waits or self._is_in_opening or self._most):
            self._update(self._split, token)

    def _may_be_either(self, token: int, openings: list[_Opening]) -> bool:
        """Return whether the grammar allows the token too, and no opening is complete."""
        if self._is_in_opening or self._grammar is None or not all(ids for ids, _ in openings):
            return False
        return bool(self._grammar.mask()[token // 32] >> (token % 32) & 1)

    def _continue_openings(self, openings: list[_Opening]) -> None:
        """Go on in one of these openings, which have all begun."""
        content = next((what for ids, what in openings if not ids), None)
        self._openings, self._is_in_opening = openings, content is None
        if content is not None:
            self._openings = list(self._calls) if content == "grammar" else []
            self._grammar_waits = content != "grammar"
        if content == "call":  # whose text is not followed
            self._split = None

    def take_all(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.take(token)

    def _update(self, split: Split, token: int) -> None:
        """Update the state of the thought after a token, and end a thought that is too long."""
        now = self._split = split.fed(self._decoder.feed(token))
        lead, closing, rest = _closing(now)
        if now.is_thinking:
            self._thought += 1
            if self._most and self._thought >= self._most and not self._due:
                self._due.extend(self._ids(lead + closing + rest, token))
        elif self._grammar_waits:
            ends = split.is_thinking and not self._due and self._grammar is not None
            if ends and not self._calls:
                self._due.extend(self._ids(rest, token))
            self._grammar_waits = bool(self._due) or (now.phase == "before" and not now.marked)
            if self._calls and not self._grammar_waits:
                self._openings = list(self._calls)
                if ends and (ids := tuple(self._ids(rest, token))):
                    self._openings.append((ids, "grammar"))
                    self._is_in_opening = True

    def _ids(self, text: str, *behind: int) -> list[int]:
        return self._tokenizer.encode(text, behind=behind) if text else []


def guide_of(
    tokenizer: Tokenizer,
    sampling: SamplingOptions,
    thinking: Thinking | None,
    *,
    may_think: bool = True,
    calls: Iterable[str] = (),
    written: Iterable[int] = (),
) -> Guide | None:
    """Return the guide of an answer that begins with the tokens `written`; None if nothing is to be
    guided. RequestError as of `Guide.check`."""
    grammar = grammar_of(sampling, tokenizer)
    if grammar is None and not sampling.dry_multiplier and not sampling.max_thinking_tokens:
        return None
    guide = Guide(tokenizer, sampling, thinking, grammar, may_think=may_think, calls=calls)
    try:
        guide.take_all(written)
        guide.check()
    except BaseException:
        guide.close()
        raise
    return guide


def _closing(split: Split) -> tuple[str, str, str]:
    """Return how thoughts are ended: the text before the mark, the mark, the text behind it."""
    marks = MARKS[split.thinking.style]
    lead, mark, rest = marks.written[1].partition(marks.closing)
    return lead, mark, rest
