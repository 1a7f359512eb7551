"""`ServedTarget` is one target that a client asks for, from its source to the last event."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct, field

from llm_lite.core import system_errors
from llm_lite.core.errors import CancelledError, LlmLiteError, RequestError
from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.prompts.prompt import Encoded
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.targets.source import check_source
from llm_lite.core.generation.targets.texts import encode_source
from llm_lite.core.generation.targets.translation import TargetWriter, Translator, longest_target
from llm_lite.core.generation.token_texts import TokenEmitter
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    AnswerRequest,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    ServedRequest,
    StopReason,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.core.serving.service import AnswerEvent, Emit


def source_of(runner: Runner, request: AnswerRequest) -> list[int]:
    """Return the tokens of a request's source: its text, its tokens, or its last message, a
    user's. Raises RequestError for what a search for a target cannot do."""
    name, sampling = runner.model_info.name, request.sampling
    if request.tools or sampling.json_schema or sampling.grammar:
        raise RequestError(
            f"{name} is an encoder-decoder, whose target keeps to no schema or grammar: expected "
            "neither these nor tools"
        )
    context, tokens = runner.session.context, list(request.tokens)
    if not tokens:
        tokens = encode_source(runner.model_file.tokenizer, _text_of(request), context)
    check_source(tokens, context, runner.model_file.model.shape.vocabulary)
    return tokens


def _text_of(request: AnswerRequest) -> str:
    if not request.messages:
        return request.text
    last = request.messages[-1]
    if last.role != "user":
        raise RequestError(
            f"the last message has the role {last.role}: an encoder-decoder writes about the last "
            "message, which must be a user's"
        )
    return last.content


class ServedTarget(Struct):
    """Any thread may set `is_cancelled`; the rest belongs to the service's thread."""

    number: int
    request: AnswerRequest
    source: list[int]
    emit: Emit
    asked: float = field(default_factory=time.perf_counter)
    is_cancelled: bool = False
    is_running: bool = False
    new_tokens: int = 0
    reason: StopReason | None = None  # once it is over

    def write(self, runner: Runner) -> None:
        """Emit the whole target, from GenerationStarted to GenerationFinished."""
        self.is_running = True
        sampling, tokenizer = self.request.sampling, runner.model_file.tokenizer
        endings = Endings[TokenDecoded](sampling, Encoded([], []))
        emitter = TokenEmitter(tokenizer, self.number, self._tell, endings)
        emitter.requested = self.asked
        problem = ""
        try:
            self.reason = self._written(translator_of(runner), emitter)
        except CancelledError:
            self.reason = "stopped"
        except LlmLiteError as error:
            self.reason, problem = "error", str(error)
        except BaseException as error:  # those of native libraries are no Exception
            problem = system_errors.sentence(error) or system_errors.defect(error)
            self._finish("error", GenerationStats(), problem)
            raise
        self._finish(self.reason, self._stats(emitter), problem)

    def to_status(self) -> ServedRequest:
        """Return the target as a row in a list of requests; any thread may call it."""
        read = len(self.source) if self.is_running else 0
        return ServedRequest(
            self.number,
            self.request.response,
            self.request.client,
            not self.is_running,
            len(self.source),
            read,
            self.new_tokens,
            time.perf_counter() - self.asked,
        )

    def _written(self, translator: Translator, emitter: TokenEmitter) -> StopReason:
        """Write the target; return why it ended. A greedy search emits each token as it comes, a
        beam emits all once the best one is known."""
        if self.is_cancelled:
            return "stopped"
        self._tell(GenerationStarted(self.number, len(self.source), 0))
        emitter.begin_steps()
        translator.read_source(self.source, self._is_stopped)
        most = min(self.request.sampling.max_new_tokens, longest_target(len(self.source)))
        options = translator.options(0, most, keeps_choices=True)
        writer = translator.write(options, self._is_stopped)
        going_on = True
        while going_on and not emitter.is_over:
            if self.is_cancelled:
                return "stopped"
            going_on, seconds = _step(writer)
            self.new_tokens = len(writer.best.tokens)
            if options.width == 1:
                self._take(emitter, writer.best.choices, seconds)
        if options.width > 1:
            self._take(emitter, writer.finish().best.choices, 0.0)
        emitter.flush()
        return emitter.reason or "length"

    def _take(self, emitter: TokenEmitter, choices: Sequence[TokenChoice], seconds: float) -> None:
        """Emit the tokens that were not emitted yet; a stop string may end the target before the
        last."""
        for choice in choices[len(emitter.produced) :]:
            if not emitter.is_over:
                emitter.emit(choice, len(emitter.produced), seconds)

    def _is_stopped(self) -> bool:
        return self.is_cancelled

    def _stats(self, emitter: TokenEmitter) -> GenerationStats:
        count = len(self.source)
        return replace(emitter.stats(count), prompt_tokens=count, context_used=self.new_tokens)

    def _finish(self, reason: StopReason, stats: GenerationStats, problem: str = "") -> None:
        self.reason, self.new_tokens = reason, stats.new_tokens
        self._tell(GenerationFinished(self.number, reason, stats, problem))

    def _tell(self, event: AnswerEvent) -> None:
        """Emit an event; a listener that fails ends its own target and no other."""
        try:
            self.emit(event)
        except Exception:
            self.is_cancelled = True


def _step(writer: TargetWriter) -> tuple[bool, float]:
    """Run a step; return whether the search goes on, and the seconds that the step took."""
    began = time.perf_counter()
    return writer.step(), time.perf_counter() - began
