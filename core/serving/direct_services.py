"""Services that run a model themselves, without an engine: an encoder, or an encoder-decoder."""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np
from msgspec import Struct, field

from llm_lite.core import system_errors
from llm_lite.core.encoding.masked import encode_for_display
from llm_lite.core.encoding.texts import shortened
from llm_lite.core.errors import (
    BusyError,
    CancelledError,
    LlmLiteError,
    RequestError,
    UnavailableError,
)
from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.prompt import Encoded
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.token_texts import TokenEmitter, completed_texts, text_of
from llm_lite.core.generation.translation import (
    TargetWriter,
    Translator,
    check_source,
    encode_source,
    longest_target,
)
from llm_lite.core.handles import Handle
from llm_lite.core.loading import loader
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.runner import OWN_BEAMS, Runner, unchanged_while_writing
from llm_lite.core.messages import (
    Activations,
    AnswerRequest,
    ChatMessage,
    EncodeText,
    EngineOptions,
    Event,
    ExecutorInfo,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Mode,
    ModelInfo,
    ServedRequest,
    ServingStatus,
    StepRequest,
    StopReason,
    TokenDecoded,
    ToolSpec,
)
from llm_lite.core.questions.question import advance
from llm_lite.core.questions.replay import OtherText
from llm_lite.core.questions.runner_replay import replay_of
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.records import replace
from llm_lite.core.serving.kept_texts import KeptText, KeptTexts
from llm_lite.core.serving.service import (
    ENDED,
    F32,
    AnswerTokens,
    Embeddings,
    Emit,
    EncodedResponse,
    ModeController,
)

Found = TypeVar("Found")
_TOGETHER = 64  # texts, between which the next client has its turn
_AGAIN = 5.0  # seconds after which a client may ask again where too many wait


class RunnerService:
    """This `Service` answers questions about the texts that were read last, and refuses all that
    a model makes: derived classes add what their model can do. `runner` stays the caller's."""

    def __init__(self, runner: AnyRunner, model: ModelInfo, refusal: str) -> None:
        """Take the sentence `refusal`, which says what the model is for."""
        self._of, self._model, self._refusal = runner, model, refusal
        self._kept = KeptTexts()

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def executor(self) -> ExecutorInfo:
        return self._of.executor_info

    @property
    def options(self) -> EngineOptions:
        return self._of.options

    @property
    def modes(self) -> ModeController:
        return _FixedMode(self._model.name, self._model.kind)

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        tokenizer = self._of.model_file.tokenizer
        return tokenizer.encode(text, add_special=add_special, parse_special=False)

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        tokenizer = self._of.model_file.tokenizer
        return [text_of(tokenizer, token) for token in tokens]

    def detokenize(self, tokens: Sequence[int]) -> str:
        return self._of.model_file.tokenizer.decode(tokens)

    def check(self) -> None:
        self._of.session.files.check()

    def submit(self, request: AnswerRequest, emit: Emit) -> Handle:
        self._refuse()

    def cancel(self, number: int) -> None:
        """Do nothing: no request has a number."""

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        self._refuse()

    def encode(
        self, request: EncodeText, is_unwanted: Callable[[], bool] = lambda: False
    ) -> EncodedResponse:
        self._refuse()

    def prompt_tokens(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        thinking: bool = True,
        values: Mapping[str, Any] = {},
    ) -> list[int]:
        self._refuse()

    def answer_tokens(self, response: str) -> AnswerTokens:
        """Return the tokens of an encoder's text, or of what a decoder has read."""
        text = self._kept.find(response)
        tokens = text.target or text.source
        texts = completed_texts(self._of.model_file.tokenizer, tokens)
        prompt = 1 if text.target else len(tokens)
        first_query = len(tokens) if self._of.attention.note else 0
        return AnswerTokens(
            response,
            tokens,
            tuple(texts),
            prompt,
            first_query,
            self._model.layers,
            self._model.heads,
            text.source if text.target else (),
        )

    def ask(
        self,
        response: str,
        request: StepRequest,
        is_unwanted: Callable[[], bool] = lambda: False,
        check: Callable[[int], None] = lambda size: None,
    ) -> Any:
        """The text is read again. RequestError for questions that are not for such a model."""
        question, text = BY_REQUEST[type(request)], self._kept.find(response)

        def answer() -> Any:
            self._read_again(text)
            replay = replay_of(question, self._of, find_response=self._other)
            check(question.size(request, replay))
            parts = question.run(request, replay)
            while True:
                found = advance(parts, 0.0, is_unwanted)
                if found is not None:
                    return found

        return self._in_turn(answer)

    def _other(self, response: str) -> OtherText:
        """Return the tokens of another response. GoneError where they are not kept."""
        text = self._kept.find(response)
        return OtherText(text.source, text.target or None)

    def _read_again(self, text: KeptText) -> None:
        """Have the runner read a text, whose turn it is."""
        raise NotImplementedError

    def _in_turn(self, work: Callable[[], Found]) -> Found:
        """Return what `work` returns, which uses the runner once nobody else does."""
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        raise RequestError(self._refusal)


class EncoderService(RunnerService):
    """This `Service` answers what is about texts and vectors; all else ends in RequestError with
    what the model is for. `model.width` is that of the vectors."""

    def __init__(self, runner: EncoderRunner) -> None:
        model = replace(runner.model_info, width=runner.width, has_chat_template=False)
        kind = loader.kind_of(runner.model_file)
        refusal = (
            f"{model.name} is a {kind} model, an encoder, which writes no text: "
            "ask /v1/embeddings for vectors of texts"
        )
        super().__init__(runner, model, refusal)
        self._runner = runner
        self._turn = threading.Lock()  # of the runner
        self._counting = threading.Lock()  # of what follows
        self._finished = self._failed = self._tokens = 0

    def status(self) -> ServingStatus:
        return ServingStatus(
            model=self._model.name,
            parallel=1,
            context=self._runner.most_tokens,
            finished=self._finished,
            failed=self._failed,
            prompt_tokens=self._tokens,
        )

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        """Make vectors. Tokens beyond those that the model takes are not read. Raises
        RequestError for an empty text, and once nobody wants the vectors."""
        tokenizer, most = self._runner.model_file.tokenizer, self._runner.most_tokens
        given = [shortened(tokenizer, tokens, most) for tokens in texts]
        try:
            parts = [
                self._together(given[at : at + _TOGETHER], is_unwanted)
                for at in range(0, len(given), _TOGETHER)
            ]
        except BaseException:
            with self._counting:
                self._failed += 1
            raise
        count, name = sum(map(len, given)), f"embd-{secrets.token_hex(12)}"
        for index, tokens in enumerate(given):
            self._kept.keep(f"{name}.{index}" if index else name, KeptText(tuple(tokens)))
        with self._counting:
            self._finished, self._tokens = self._finished + 1, self._tokens + count
        return Embeddings(np.concatenate(parts), count, name)

    def encode(
        self, request: EncodeText, is_unwanted: Callable[[], bool] = lambda: False
    ) -> EncodedResponse:
        """Tokens beyond those that the model takes are not read. Raises RequestError for pairs and
        masked tokens where the model has none, and once nobody wants the answer."""
        runner = self._runner

        @contextmanager
        def turn() -> Iterator[None]:
            with self._turn:
                if is_unwanted():
                    raise RequestError("nobody waits for this text any more")
                yield

        tokenizer, most = runner.model_file.tokenizer, runner.most_tokens
        try:
            found = encode_for_display(runner.session, tokenizer, request, most, turn())
        except BaseException:
            with self._counting:
                self._failed += 1
            raise
        tokens = tuple(one.token for one in found.tokens)
        name = f"text-{secrets.token_hex(12)}"
        self._kept.keep(name, KeptText(tokens))
        with self._counting:
            self._finished, self._tokens = self._finished + 1, self._tokens + len(tokens)
        return EncodedResponse(name, found)

    def _read_again(self, text: KeptText) -> None:
        self._runner.session.hidden(text.source)

    def _in_turn(self, work: Callable[[], Found]) -> Found:
        with self._turn:
            return work()

    def _together(self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool]) -> F32:
        with self._turn:
            if is_unwanted():
                raise RequestError("nobody waits for these embeddings any more")
            return self._runner.embed_tokens(texts)


class TargetService(RunnerService):
    """This `Service` takes a request's text, or its last message, as a source, and answers with
    the target, searched for as the model's file says. It refuses vectors. `close` ends what runs;
    `runner` stays the caller's. Defects go to `log`."""

    def __init__(
        self, runner: Runner, most_waiting: int = 64, log: Callable[[str], None] = lambda line: None
    ) -> None:
        model = replace(runner.model_info, has_chat_template=False)
        refusal = (
            f"{model.name} is an encoder-decoder, which writes a target about a source: ask "
            "/v1/completions, /v1/chat/completions or /v1/responses for one"
        )
        super().__init__(runner, model, refusal)
        self._runner, self._most_waiting, self._log = runner, most_waiting, log
        self._change = threading.Condition()  # of all below
        self._waiting: deque[ServedTarget] = deque()
        self._jobs: deque[_Job] = deque()  # questions, which go before targets
        self._running: ServedTarget | None = None
        self._is_closing = False
        self._numbers = self._refused = 0
        self._ended = {"finished": 0, "cancelled": 0, "failed": 0}
        self._read = self._written = 0  # tokens of sources and targets
        self._thread = threading.Thread(target=self._work, name="targets", daemon=True)
        self._thread.start()

    def submit(self, request: AnswerRequest, emit: Emit) -> Handle:
        source = source_of(self._runner, request)
        with self._change:
            if self._is_closing:
                raise UnavailableError(ENDED)
            waiting = sum(not one.is_cancelled for one in self._waiting)
            if waiting >= self._most_waiting + (self._running is None):  # that begins at once
                self._refused += 1
                raise BusyError(
                    f"{waiting} requests wait already, as many as may: ask again in "
                    f"{_AGAIN:.0f} s, or serve with a longer queue",
                    _AGAIN,
                )
            self._numbers += 1
            handle = Handle(request, lambda report: emit(report.event))
            handle.on_cancel = partial(self.cancel, self._numbers)
            self._waiting.append(ServedTarget(self._numbers, handle, request, source))
            self._change.notify()
            return handle

    def cancel(self, number: int) -> None:
        with self._change:
            for one in self._all():
                if one.number == number:
                    one.is_cancelled = True

    def status(self) -> ServingStatus:
        with self._change:
            return ServingStatus(
                model=self._model.name,
                parallel=1,
                most_waiting=self._most_waiting,
                context=self._runner.session.context,
                requests=tuple(one.to_status() for one in self._all() if not one.is_cancelled),
                **self._ended,
                refused=self._refused,
                prompt_tokens=self._read,
                new_tokens=self._written,
            )

    def prompt_tokens(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        thinking: bool = True,
        values: Mapping[str, Any] = {},
    ) -> list[int]:
        """Return the tokens of the source that these messages ask for a target of."""
        return source_of(self._runner, AnswerRequest("", tuple(messages), tools=tuple(tools)))

    def close(self) -> None:
        """End the thread, and all that runs or waits with the reason "stopped". Any thread may
        call it."""
        with self._change:
            self._is_closing = True
            for one in self._all():
                one.is_cancelled = True
            while self._jobs:
                self._jobs.popleft().result.set_exception(UnavailableError(ENDED))
            self._change.notify()
        self._thread.join()

    def _in_turn(self, work: Callable[[], Found]) -> Found:
        job = _Job(work)
        with self._change:
            if self._is_closing:
                raise UnavailableError(ENDED)
            self._jobs.append(job)
            self._change.notify()
        found: Found = job.result.result()
        return found

    def _all(self) -> list[ServedTarget]:
        return [*([self._running] if self._running else []), *self._waiting]

    # The thread from here on.

    def _work(self) -> None:
        while (next_one := self._next()) is not None:
            if isinstance(next_one, _Job):
                next_one.do()
                continue
            try:
                next_one.write(self._runner, self._keep)
            except BaseException:  # a defect ends its target and no other
                self._log(f"internal error, please report it: {traceback.format_exc()}")
            with self._change:
                self._running = None
                self._count(next_one)

    def _keep(self, target: ServedTarget) -> None:
        if target.written:
            start = translator_of(self._runner).start
            decoded = (start, *target.written[:-1])
            self._kept.keep(target.request.response, KeptText(tuple(target.source), decoded))

    def _read_again(self, text: KeptText) -> None:
        translator = translator_of(self._runner)
        translator.read_source(text.source)
        translator.read_target(text.target[1:])

    def _next(self) -> ServedTarget | _Job | None:
        """Return what is to be done next; None once the service closes."""
        with self._change:
            while not self._waiting and not self._jobs and not self._is_closing:
                self._change.wait()
            if self._jobs:
                return self._jobs.popleft()
            if not self._waiting:
                return None
            self._running = self._waiting.popleft()
            return self._running

    def _count(self, target: ServedTarget) -> None:
        names = {"stopped": "cancelled", "error": "failed"}
        self._ended[names.get(target.reason or "", "finished")] += 1
        self._read += len(target.source) if target.has_begun else 0
        self._written += target.new_tokens


class _Job:
    """Work of another thread, which waits for what it returns."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Future[Any] = Future()
        self._work = work

    def do(self) -> None:
        try:
            self.result.set_result(self._work())
        except BaseException as error:  # for who asked: the thread goes on
            self.result.set_exception(error)


class ServedTarget(Struct):
    """Any thread may set `is_cancelled`; the rest belongs to the service's thread."""

    number: int
    handle: Handle
    request: AnswerRequest
    source: list[int]
    requested_at: float = field(default_factory=time.perf_counter)
    is_cancelled: bool = False
    has_begun: bool = False
    new_tokens: int = 0
    written: tuple[int, ...] = ()  # the target, once it is over
    reason: StopReason | None = None  # once it is over

    def write(self, runner: Runner, keep: Callable[[ServedTarget], None]) -> None:
        """Emit the whole target, and end its handle; `keep` is called before its end is told."""
        sampling, tokenizer = self.request.sampling, runner.model_file.tokenizer
        endings = Endings[TokenDecoded](sampling, Encoded([], []))
        emitter = TokenEmitter(tokenizer, self._tell, endings)
        emitter.requested = self.requested_at
        problem = ""
        try:
            self.reason = self._written(translator_of(runner), emitter)
            keep(self)
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
        read = len(self.source) if self.has_begun else 0
        return ServedRequest(
            self.number,
            self.request.response,
            self.request.client,
            not self.has_begun,
            len(self.source),
            read,
            self.new_tokens,
            time.perf_counter() - self.requested_at,
        )

    def _written(self, translator: Translator, emitter: TokenEmitter) -> StopReason:
        """Write the target; return why it ended. A greedy search emits each token as it comes, a
        beam emits all once the best one is known."""
        if self.is_cancelled:
            return "stopped"
        self.has_begun = True
        self._tell(GenerationStarted(len(self.source), 0))
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
        self.written = tuple(writer.best.tokens)
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
        if reason != "error":
            self._tell(GenerationFinished(reason, stats))
        with suppress(Exception):  # of a listener, which hears no more
            self.handle.end(problem)

    def _tell(self, event: Event) -> None:
        """Emit an event; a listener that fails ends its own target and no other."""
        try:
            self.handle.emit(event)
        except Exception:
            self.is_cancelled = True


def source_of(runner: Runner, request: AnswerRequest) -> list[int]:
    """Return the tokens of a request's source: its text, its tokens, or its last message, a
    user's. Raises RequestError for what a search for a target cannot do."""
    name, sampling = runner.model_info.name, request.sampling
    if request.interventions:
        raise unchanged_while_writing(name, "nothing is changed for one target", OWN_BEAMS)
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


def _step(writer: TargetWriter) -> tuple[bool, float]:
    """Run a step; return whether the search goes on, and the seconds that the step took."""
    began = time.perf_counter()
    return writer.step(), time.perf_counter() - began


class _FixedMode:
    """A model that is served without an engine keeps the mode that it was started with."""

    last = None

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind

    def request(self, mode: Mode, activations: Activations) -> None:
        raise RequestError(
            f"{self._name} is served as an {self._kind}, whose weight mode does not change: "
            f"start it with --mode {mode}"
        )

    def cancel(self) -> None:
        """Do nothing: no switch is ever under way."""
