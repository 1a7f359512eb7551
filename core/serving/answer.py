"""`ServedAnswer` is one answer of a server: its prompt, how its tokens are chosen, and the
events it emits."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.generation import prompt
from llm_lite.core.generation.answer_writer import AnswerWriter
from llm_lite.core.generation.prefill import PLAIN, check_prompt
from llm_lite.core.generation.prompt import encode
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.token_chooser import PATIENCE
from llm_lite.core.handles import Handle
from llm_lite.core.loading.model_file import LoadedModel
from llm_lite.core.messages import (
    MOST_ALTERNATIVES,
    AnswerRequest,
    ChatMessage,
    Event,
    GenerationFinished,
    GenerationStats,
    ServedRequest,
    StopReason,
)
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import pages_for
from llm_lite.core.questions.interventions.live import live_changes
from llm_lite.core.questions.interventions.table import UNKNOWN
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.sequence import PagedTokens
from llm_lite.core.tools.calls import MARKS


class ServedAnswer:
    """The thread that asks makes the answer; from then on it belongs to the engine's thread."""

    def __init__(
        self,
        number: int,
        handle: Handle,
        request: AnswerRequest,
        file: prompt.ChatFile,
        *,
        context: int,
        program: Program,
        model: LoadedModel = UNKNOWN,
    ) -> None:
        """Raise RequestError where the request cannot be answered, FileError where the model's
        template is at fault."""
        requested_at = time.perf_counter()
        self.number, self.handle, self.request = number, handle, request
        self.client = request.client
        tokenizer, vocabulary = file.tokenizer, program.vocabulary
        encoded = encode_request(file, request, context)
        check_prompt(encoded.ids, PLAIN, context=context, vocabulary=vocabulary)
        changes = live_changes(request.interventions, program, model=model)
        if not 0 <= request.alternatives <= MOST_ALTERNATIVES:
            found = f"expected 0 to {MOST_ALTERNATIVES}, found {request.alternatives}"
            raise RequestError(f"alternatives: {found}")
        last = len(request.messages) - 1
        self.writer = AnswerWriter(
            tokenizer,
            encoded,
            request.sampling,
            self._tell,
            vocabulary=vocabulary,
            may_think=request.thinking,
            calls=MARKS[request.calls].openings if request.calls in MARKS else (),
            continued=encoded.tokens_of(last) if request.continue_last else (),
            best=request.alternatives,
            requested=requested_at,
        )
        tokens = self.writer.chooser.tokens
        self.paged = PagedTokens(tokens, pages_for(context), changes)
        self._context = context
        self.is_cancelled = False  # set by any thread
        self.is_running = False
        self.reason: StopReason | None = None  # once it is over
        self.problem = ""
        self._is_at_fault = False  # the request, where a problem ended its answer
        # The logits float32 [V] of its next token, which waits for its grammar's mask, and the
        # seconds of their step.
        self._pending_logits: tuple[NDArray[np.float32], float] | None = None
        self.last_chunk = 0  # the step in which its prompt was last read on
        self.placed_at = 0  # the step in which it was queued, began, rested, or last went on
        self.unread: int | None = None  # tokens to read when it has a place; None: not known yet
        self.reached = 0  # tokens that were computed when it lost its place

    @property
    def drafts(self) -> AnswerDrafts:
        return self.writer.chooser.drafts

    @property
    def new_tokens(self) -> int:
        return len(self.writer.produced)

    @property
    def left(self) -> int:
        """Return how many tokens may still be chosen."""
        return min(self.writer.chooser.left, self._context - len(self.paged.tokens) + 1)

    @property
    def is_over(self) -> bool:
        return self.reason is not None

    def begin(self, reused: int) -> None:
        """Start the answer, of whose prompt `reused` positions were in the cache already."""
        if not self.writer.is_begun:
            self.writer.chooser.prepare()  # beside the prompt
            self.writer.begin(reused)

    def fit(self, context: int) -> None:
        """Limit the answer to a context of so many tokens; end it where it has more."""
        self._context = min(self._context, context)
        if len(self.paged.tokens) > context:
            self.end("context", f"the context of {context} tokens is full")

    def take_all(
        self,
        logits: NDArray[np.float32],
        drafted: tuple[int, ...],
        pool: PagePool,
        step_seconds: float,
        until: float,
    ) -> None:
        """Choose what follows all tokens, and what follows drafted ones as long as these are
        chosen. `logits` is float32 [1 + drafted tokens, V].

        Where its grammar has not said by `until`, of time.monotonic, what may come, the answer
        stays out of the steps of others until `resume`.
        """
        for accepted, row in enumerate(logits):
            if accepted:
                self.paged.advance(pool, 1)
                until = time.monotonic() + PATIENCE
            if not self.is_ready(max(0.0, until - time.monotonic())):
                self._pending_logits = row.copy(), 0.0 if accepted else step_seconds
                break
            if not self._take(row, 0.0 if accepted else step_seconds, drafted[accepted:]):
                break

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Return whether it is known which tokens may come next; wait for that up to `seconds`."""
        return self.writer.chooser.is_ready(seconds)

    @property
    def is_kept(self) -> bool:
        """Return whether its grammar, if it has one, goes on where it was."""
        return self.writer.chooser.is_kept

    @property
    def is_busy(self) -> bool:
        """Return whether its grammar has not said yet which tokens may come next."""
        return self.writer.chooser.is_busy

    @property
    def is_waiting_for_mask(self) -> bool:
        return self._pending_logits is not None

    def resume(self) -> None:
        """Choose the token that waited for its mask, once `is_ready`."""
        if self._pending_logits is not None:
            (row, seconds), self._pending_logits = self._pending_logits, None
            self._take(row, seconds)

    def restart(self) -> None:
        """Drop the logits of the last token, which are computed again, as the answer loses its
        place and its pages."""
        self.reached, self.unread = max(self.reached, self.paged.computed), None
        self._pending_logits = None
        self.writer.chooser.rest()

    def _take(
        self, logits: NDArray[np.float32], step_seconds: float, drafted: tuple[int, ...] = ()
    ) -> bool:
        """Choose what follows all tokens, of float32 [V]; it may be the last one. Return whether
        it is the first of `drafted`, the tokens drafted for its place and behind, and the answer
        goes on."""
        try:
            choice = self.writer.take(logits, self.paged.computed, step_seconds, drafted)
        except LlmLiteError as error:
            self._is_at_fault = isinstance(error, RequestError)
            self.end("error", str(error))
            return False
        if self.writer.reason is not None:
            self.end(self.writer.reason)
        elif self.paged.computed >= self._context:
            self.end("context", f"the context of {self._context} tokens is full")
        else:
            self.writer.chooser.prepare()
        return choice.accepted and not self.is_over

    def end(self, reason: StopReason, problem: str = "") -> None:
        """Mark the answer as over; `finish` emits what is left."""
        if self.reason is None:
            self.reason, self.problem = reason, problem

    def finish(self, read_bytes: int = 0) -> None:
        """Emit the text that was held back, and how the answer ended. `read_bytes` is that of
        GenerationStats."""
        assert self.reason is not None
        writer, stats = self.writer, GenerationStats()
        writer.close()
        writer.flush()
        if writer.is_begun:
            read = writer.prompt_tokens - writer.reused
            stats = writer.stats(read, self.paged.computed, read_bytes)
        failed = self.reason == "error"
        if not failed:
            self._tell(GenerationFinished(self.reason, stats, self.problem))
        with suppress(Exception):  # of a listener, which hears no more
            self.handle.end(self.problem if failed else "", at_fault=failed and self._is_at_fault)

    def to_status(self, *, waiting: bool) -> ServedRequest:
        """Return the answer as a row in a list of requests; any thread may call it."""
        return ServedRequest(
            self.number,
            self.request.response,
            self.client,
            waiting,
            self.writer.prompt_tokens,
            min(self.paged.computed, self.writer.prompt_tokens),
            self.new_tokens,
            self.writer.seconds,
        )

    def _tell(self, event: Event) -> None:
        """Emit an event; a listener that fails ends its own answer and no other."""
        try:
            self.handle.emit(event)
        except Exception as error:
            self.end("error", f"its listener failed: {error!r}")


def encode_request(file: prompt.ChatFile, request: AnswerRequest, context: int) -> prompt.Encoded:
    """Return the tokens of a request's prompt. Raises RequestError and FileError."""
    inputs = [name for name in ("messages", "tokens", "text") if getattr(request, name)]
    if len(inputs) > 1:
        raise RequestError(f"expected messages, tokens or a text, found {' and '.join(inputs)}")
    if request.tokens:
        return prompt.Encoded.of_ids(request.tokens)
    messages = request.messages or (ChatMessage("user", request.text),)
    prompt.check_size(file.tokenizer, messages, context)
    if not request.messages:
        return prompt.encode_raw(file.tokenizer, messages)
    return encode(
        file,
        messages,
        request.continue_last,
        request.thinking,
        request.tools,
        request.values,
    )
