"""Tokens with their texts, as events have them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from llm_lite.core.generation import prompt
from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.sampling import Allowed, TokenChoice
from llm_lite.core.memory import bytes_from_disks
from llm_lite.core.messages import (
    AllowedTokens,
    Alternative,
    ChatMessage,
    DraftedToken,
    GenerationStats,
    PromptToken,
    StopReason,
    TokenDecoded,
    TokenTrace,
)
from llm_lite.core.messages.inspecting.lesson import TokenLogit
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer


class TokenEmitter:
    """Emits an event for each token of an answer, with the characters that it completes, up to
    where the answer ends because of its text; and measures how fast the tokens came."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        emit: Callable[[TokenDecoded], None],
        endings: Endings[TokenDecoded],
        continued: Sequence[int] = (),
    ) -> None:
        """Make the emitter. `continued` are the tokens of the message that the answer continues."""
        self.produced: list[int] = []
        self.ended = False  # by a token that ends a turn
        self.requested = self._begun = time.perf_counter()
        self._tokenizer, self._emit = tokenizer, emit
        self._decoder = StreamDecoder(tokenizer)
        self._decoder.feed(*continued)
        self._endings = endings
        if continued:
            endings.feed_previous(tokenizer.decode(continued))
        self._steps = 0  # tokens that took a step
        self._prefill_seconds = self._first = self._last = 0.0
        self._from_disks = 0  # bytes, until the first token

    @property
    def reason(self) -> StopReason | None:
        """Return why the answer is over behind its last token; None if it goes on."""
        return "end" if self.ended else self._endings.reason

    @property
    def is_over(self) -> bool:
        return self.reason is not None

    @property
    def dropped(self) -> int:
        """Return how many last tokens are hidden, as a stop string has begun in or before them."""
        return self._endings.dropped

    @property
    def has_begun(self) -> bool:
        """Return True once a token was chosen."""
        return self._steps > 0

    def begin_steps(self) -> None:
        """Record that the prompt is about to be read."""
        self._begun = time.perf_counter()

    def emit(self, choice: TokenChoice, used: int, step_seconds: float) -> None:
        """Emit the token of a choice. `used` positions of the context are full; a step of
        `step_seconds` chose the token. Forced tokens were not chosen: they have no probability."""
        tokenizer, token, chosen = self._tokenizer, choice.token, not math.isnan(choice.probability)
        if chosen:
            self._note_time()
        self.produced.append(token)
        self.ended = chosen and token in tokenizer.end_ids
        # Half a character at the end of a stopped answer is not shown, and completed by Continue.
        text = self._decoder.flush() if self.ended else self._decoder.feed(token)
        event = TokenDecoded(
            token,
            text,
            choice.probability,
            used,
            alternatives(tokenizer, choice.best),
            1e3 * step_seconds,
            allowed_tokens(tokenizer, choice.allowed),
            self._ttft_ms() if self._steps == 1 else 0.0,
            choice.accepted,
            tuple(DraftedToken(t, text_of(tokenizer, t)) for t in choice.rejected),
        )
        is_said = chosen and not self.ended
        self._show(self._endings.feed(event, token, text, is_chosen=is_said))

    def flush(self) -> None:
        """Emit what was held back, as nothing follows."""
        self._show(self._endings.flush())

    def stats(self, prefilled: int) -> GenerationStats:
        """Return the statistics that depend on time; `prefilled` tokens were read before the first
        one."""
        return GenerationStats(
            new_tokens=len(self.produced),
            prefill_tok_s=_rate(prefilled, self._prefill_seconds),
            decode_tok_s=_rate(self._steps - 1, self._last - self._first),
            ttft_ms=self._ttft_ms(),
            disk_bytes=max(0, bytes_from_disks() - self._from_disks) if self._steps else 0,
        )

    def _show(self, shown: list[tuple[TokenDecoded, str]]) -> None:
        for event, text in shown:
            self._emit(event if text == event.text else replace(event, text=text))

    def _note_time(self) -> None:
        self._last = time.perf_counter()
        self._steps += 1
        if self._steps == 1:
            self._first = self._last
            self._prefill_seconds = self._first - self._begun
            self._from_disks = bytes_from_disks()

    def _ttft_ms(self) -> float:
        return 1e3 * (self._first - self.requested) if self._first else 0.0


def _rate(count: int, seconds: float) -> float:
    """Return a count per second; 0 if no time passed."""
    return count / seconds if seconds > 0 else 0.0


def labelled(tokenizer: Tokenizer, encoded: prompt.Encoded) -> tuple[PromptToken, ...]:
    """Return the tokens with their texts and owners, by position."""
    return tuple(
        PromptToken(token, text_of(tokenizer, token), owner)
        for token, owner in zip(encoded.ids, encoded.owners, strict=True)
    )


def lacks_tokens(
    conversation: Sequence[PromptToken], used: int, messages: Sequence[ChatMessage]
) -> bool:
    """Return whether the first `used` tokens of a conversation lack others than a cache does behind
    an answer: the last one of it, which is not computed, and what the template writes behind it."""
    last = len(messages) - 1
    ends = (at for at in range(len(conversation), 0, -1) if conversation[at - 1].message == last)
    end = next(ends, None)
    if end is None or messages[last].role != "assistant":
        return used < len(conversation)
    return used < end - 1


def alternatives(
    tokenizer: Tokenizer, best: Sequence[tuple[int, float]]
) -> tuple[Alternative, ...]:
    return tuple(Alternative(token, text_of(tokenizer, token), p) for token, p in best)


def allowed_tokens(tokenizer: Tokenizer, allowed: Allowed | None) -> AllowedTokens | None:
    if allowed is None:
        return None
    best = alternatives(tokenizer, allowed.best)
    return AllowedTokens(allowed.count, allowed.probability, best)


def with_texts(tokenizer: Tokenizer, trace: TokenTrace) -> TokenTrace:
    """Return the trace with the texts of its tokens, and of those that may follow."""

    def with_text(token: TokenLogit) -> TokenLogit:
        return replace(token, text=text_of(tokenizer, token.id))

    distribution = trace.distribution
    went_on = distribution.went_on and with_text(distribution.went_on)
    top = tuple(map(with_text, distribution.top))
    return replace(
        trace,
        distribution=replace(distribution, top=top, went_on=went_on),
        texts=tuple(token_label(tokenizer, token) for _, token in trace.tokens),
        source=tuple(replace(one, text=token_label(tokenizer, one.id)) for one in trace.source),
    )


def token_label(tokenizer: Tokenizer, token: int) -> str:
    """Return the token's text, for a special token what the file calls it."""
    return text_of(tokenizer, token) or tokenizer.token_text(token)


def text_of(tokenizer: Tokenizer, token: int) -> str:
    """Return the text of a token by itself: U+FFFD for a part of a character."""
    return tokenizer.token_bytes(token).decode(errors="replace")


def completed_texts(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    """Return what each of consecutive tokens adds to their text: a character of several tokens is
    added by the last of these, the others add ""."""
    decoder = StreamDecoder(tokenizer)
    return [decoder.feed(token) for token in tokens]
