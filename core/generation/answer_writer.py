"""`AnswerWriter` writes one answer, of the chat or of a client: it chooses the tokens, emits them,
and says when and why the answer is over. What runs the steps brings the logits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.guide import guide_of
from llm_lite.core.generation.prompt import Encoded
from llm_lite.core.generation.sampling import BEST, TokenChoice
from llm_lite.core.generation.token_chooser import TokenChooser
from llm_lite.core.generation.token_texts import TokenEmitter, labelled
from llm_lite.core.messages import (
    Event,
    GenerationStarted,
    GenerationStats,
    SamplingOptions,
    StopReason,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer


class AnswerWriter:
    """The writer of one answer survives a change of executor; `close` it in the end."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        encoded: Encoded,
        sampling: SamplingOptions,
        emit: Callable[[Event], None],
        *,
        vocabulary: int,
        may_think: bool = True,
        calls: Sequence[str] = (),
        continued: Sequence[int] = (),
        forced: Sequence[int] = (),
        best: int = BEST,
        requested: float | None = None,
    ) -> None:
        """Make the writer of an answer to `encoded`, requested at a time of `time.perf_counter`:
        now, if left out. `continued` are the tokens of the message that it continues; `calls` as
        of `Guide`; `forced` and `best` as of `TokenChooser`. RequestError as of this and of
        `guide_of`."""
        self._emit = emit
        self.prompt_tokens, self.reused = len(encoded.ids), 0
        self.labels, self.thinking = labelled(tokenizer, encoded), encoded.thinking
        self._emitter = TokenEmitter(
            tokenizer, emit, Endings[TokenDecoded](sampling, encoded), continued
        )
        self._emitter.requested = time.perf_counter() if requested is None else requested
        guide = guide_of(
            tokenizer,
            sampling,
            encoded.thinking,
            may_think=may_think,
            calls=calls,
            written=continued,
        )
        tokens, ends = list(encoded.ids), tokenizer.end_ids
        try:
            self.chooser = TokenChooser(
                tokens, sampling, ends, vocabulary, forced=forced, guide=guide, best=best
            )
        except BaseException:
            if guide is not None:
                guide.close()
            raise
        self.is_begun = False

    @property
    def produced(self) -> list[int]:
        """Return the tokens of the answer so far, those that it began with among them."""
        return self._emitter.produced

    @property
    def has_begun(self) -> bool:
        """Return whether a token was chosen."""
        return self._emitter.has_begun

    @property
    def dropped(self) -> int:
        """Return how many last tokens are hidden, as a stop string has begun in or before them."""
        return self._emitter.dropped

    @property
    def reason(self) -> StopReason | None:
        """Return why the answer is over; None if it may go on."""
        return self._emitter.reason or ("length" if self.chooser.is_over else None)

    @property
    def seconds(self) -> float:
        """Return the seconds since the request came."""
        return time.perf_counter() - self._emitter.requested

    def begin(self, reused: int) -> None:
        """Emit that the answer begins; `reused` positions of its prompt are in the cache
        already."""
        self.is_begun = True
        self.note_reused(reused)
        self.begin_steps()
        self._emit(GenerationStarted(self.prompt_tokens, self.reused, self.labels, self.thinking))

    def begin_steps(self) -> None:
        """Record that the prompt is about to be read."""
        self._emitter.begin_steps()

    def note_reused(self, positions: int) -> None:
        """Count positions of the prompt that need no step. The last one is read in any case."""
        if not self.produced:
            self.reused = min(self.reused + positions, self.prompt_tokens - 1)

    def take(
        self,
        logits: NDArray[np.float32],
        used: int,
        step_seconds: float,
        drafted: tuple[int, ...] = (),
    ) -> TokenChoice:
        """Choose the next token, as `TokenChooser.choose`, and emit it as `emit_token`."""
        choice = self.chooser.choose(logits, drafted)
        self.emit_token(choice, used, step_seconds)
        return choice

    def emit_token(self, choice: TokenChoice, used: int, step_seconds: float) -> None:
        """Emit a token; `used` positions of the context are full, and its step took
        `step_seconds`."""
        self._emitter.emit(choice, used, step_seconds)

    def flush(self) -> None:
        """Emit the text that was held back, as nothing follows."""
        self._emitter.flush()

    def close(self) -> None:
        """Release what its grammar needs of the machine."""
        self.chooser.close()

    def stats(self, prefilled: int, context_used: int, read_bytes: int) -> GenerationStats:
        """Return how fast the answer was. `prefilled` tokens were read before its first one;
        `read_bytes` is that of `GenerationStats`."""
        return replace(
            self.chooser.drafts.with_draft_counts(self._emitter.stats(prefilled)),
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused,
            context_used=context_used,
            peak_rss_bytes=peak_rss_bytes(),
            read_bytes=read_bytes,
        )


def peak_rss_bytes() -> int:
    """Return the most memory this process ever had resident; 0 if the system does not report it."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes on Linux
