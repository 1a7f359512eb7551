"""Texts that wait for an encoder: between two commands the last one of each kind is served."""

from __future__ import annotations

import time

from llm_lite.core.encoding.masked import encode_for_display
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.engine.hosting.model_host import NO_MODEL
from llm_lite.core.errors import CancelledError, DeviceError, LlmLiteError, RequestError
from llm_lite.core.generation.answer import Emit
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.messages import CompareTexts, EncodeText, TextEncoded, TextsCompared

EncodingRequest = EncodeText | CompareTexts


class EncodingRequests:
    """The queue of requests for an encoder, for the engine's thread."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._waiting: dict[type, EncodingRequest] = {}
        self._failed: EncodingRequest | None = None  # on a device that was lost

    def submit(self, request: EncodingRequest) -> None:
        """Queue a request, in place of a waiting one of the same kind."""
        self._waiting[type(request)] = request

    def serve(self, runner: AnyRunner | None) -> None:
        """Answer what waits. DeviceError passes through, and the request waits for the executor
        that takes over; one that fails again is refused."""
        while self._waiting:
            request = self._waiting.pop(next(iter(self._waiting)))
            try:
                self._emit(_answer(request, runner))
            except DeviceError as error:
                if request is self._failed:
                    self._emit(_refusal(request, str(error)))
                else:
                    self._failed = request
                    self._waiting.setdefault(type(request), request)
                raise
            except (LlmLiteError, CancelledError) as error:
                self._emit(_refusal(request, str(error)))


def _answer(request: EncodingRequest, runner: AnyRunner | None) -> TextEncoded | TextsCompared:
    if runner is None:
        raise RequestError(NO_MODEL)
    if not isinstance(runner, EncoderRunner):
        name = runner.model_info.name
        raise RequestError(f"{name} is no encoder, as BERT is: it makes no vectors of texts here")
    if isinstance(request, CompareTexts):
        return _compare(request, runner)
    tokenizer = runner.model_file.tokenizer
    return encode_for_display(runner.session, tokenizer, request, runner.most_tokens)


def _compare(request: CompareTexts, runner: EncoderRunner) -> TextsCompared:
    """Return the cosines of the texts. They share steps, so that the maps of the last text stay."""
    if len(request.texts) < 2:
        raise RequestError(f"expected two texts or more, found {len(request.texts)}")
    started = time.perf_counter()
    found = cosines(runner.embed(request.texts))
    seconds = time.perf_counter() - started
    return TextsCompared(request.request, tuple(map(tuple, found.tolist())), seconds)


def _refusal(request: EncodingRequest, problem: str) -> TextEncoded | TextsCompared:
    if isinstance(request, EncodeText):
        return TextEncoded(request.request, problem=problem)
    return TextsCompared(request.request, problem=problem)
