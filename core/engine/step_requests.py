"""Requests that are served between two steps of an answer: gains, their effect, inspection."""

from __future__ import annotations

import math
import queue
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from llm_lite.core.engine.encoding_requests import EncodingRequests
from llm_lite.core.engine.hosting.model_host import NO_MODEL
from llm_lite.core.engine.lesson_requests import traced
from llm_lite.core.engine.token_counts import TokenCounter
from llm_lite.core.errors import DeviceError, LlmLiteError, RequestError
from llm_lite.core.generation.answer import Emit
from llm_lite.core.generation.sampling import likeliest
from llm_lite.core.generation.token_texts import alternatives
from llm_lite.core.inspect import lens
from llm_lite.core.inspect.attention_export import snapshot, write_later
from llm_lite.core.inspect.attention_rows import AttentionRowsReader
from llm_lite.core.inspect.cache_statistics import Measuring
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    AttentionRows,
    CacheMeasured,
    CompareGains,
    CompareTexts,
    CountTokens,
    EncodeText,
    ExportMaps,
    FollowToken,
    Gains,
    GainsEffect,
    Inspect,
    LensResult,
    LensRow,
    Level,
    MapsExported,
    MeasureCache,
    ReadAttentionRows,
    SetGains,
    StepRequest,
    TokenFollowed,
    TokensCounted,
)

T = TypeVar("T", bound=StepRequest)
SERVE_SECONDS = 0.01  # of the time between two steps, for a request that can be cut


class StepRequestServer:
    """Keeps the gains that were set, and the requests that wait. `submit` is for any thread."""

    def __init__(
        self,
        emit: Emit,
        log: Callable[[Level, str], None],
    ) -> None:
        self._emit = emit
        self._log = log
        self._waiting: queue.SimpleQueue[StepRequest] = queue.SimpleQueue()
        self._gains: Gains | None = None  # None: all 1
        self._own_gains = False  # the cache belongs to an answer with gains of its own
        self._answering_with_own = False
        self._rows_reader: AttentionRowsReader | None = None  # at the runner of the last request
        self._rows_wanted: ReadAttentionRows | None = None  # wanted, or begun
        self._measures: deque[MeasureCache] = deque()
        self._encoding = EncodingRequests(emit)
        self._counter = TokenCounter(emit)
        self._measuring: Measuring | None = None  # at the first of these

    def submit(self, request: StepRequest) -> None:
        self._waiting.put(request)

    def reset(self) -> None:
        """Reset the gains to 1, as another model is loaded."""
        self._gains = None
        self._own_gains = False
        self._rows_reader = None

    def begin_answer(self, runner: Runner, own: Gains | None) -> None:
        """Set the gains of the steps that follow: the work's own ones, or else those in force."""
        gains = self._in_force(runner) if own is None else own
        runner.set_gains(gains, throughout=own is not None or self._own_gains)
        self._own_gains = self._answering_with_own = own is not None

    def end_answer(self) -> None:
        """End an answer; gains that are set from now on are in force at once."""
        self._answering_with_own = False

    def serve(self, runner: AnyRunner | None, hurry: Callable[[], bool]) -> None:
        """Serve what waits. DeviceError passes through, after the request was answered.

        Long requests are cut into slices; once there is `hurry`, the rest waits for the next call.
        """
        while (request := self._next()) is not None:
            if isinstance(request, ReadAttentionRows):
                self._rows_wanted = request
            elif isinstance(request, MeasureCache):
                self._measures.append(request)
            elif isinstance(request, EncodeText | CompareTexts):
                self._encoding.submit(request)
            else:
                self._guard(request, self._serve, runner)
        self._encoding.serve(runner)
        while self._rows_wanted is not None:
            self._guard(self._rows_wanted, self._serve_rows, runner)
            if hurry():
                return
        while self._measures:
            self._guard(self._measures.popleft(), self._serve_measure, runner)
            if hurry():
                return

    def _next(self) -> StepRequest | None:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None

    def _guard(
        self, request: T, serve: Callable[[T, AnyRunner | None], None], runner: AnyRunner | None
    ) -> None:
        try:
            serve(request, runner)
        except LlmLiteError as error:
            self._refuse(request, str(error))
            if isinstance(error, DeviceError):
                raise

    def _serve_rows(self, request: ReadAttentionRows, runner: AnyRunner | None) -> None:
        if runner is None:
            self._refuse(request, NO_MODEL)
            return
        source = runner.attention_of(request.part)
        if self._rows_reader is None or self._rows_reader.source is not source:
            self._rows_reader = AttentionRowsReader(source)
        self._rows_wanted = None  # a defect ends the request, not every step from here on
        rows = self._rows_reader.read(request, SERVE_SECONDS)
        if rows is None:
            self._rows_wanted = request
        else:
            self._emit(rows)

    def _serve_measure(self, request: MeasureCache, loaded: AnyRunner | None) -> None:
        runner = _writing(loaded)
        work, self._measuring = self._measuring, None  # a defect ends it, not every step from here
        if work is None or work.request is not request or work.source is not runner.attention:
            work = Measuring(request, runner.session, runner.attention)
        measured = work.advance(SERVE_SECONDS)
        if measured is None:
            self._measuring = work
            self._measures.appendleft(request)
        else:
            self._emit(measured)

    def _serve(self, request: StepRequest, runner: AnyRunner | None) -> None:
        if runner is None:
            self._refuse(request, NO_MODEL)
        elif isinstance(request, SetGains):
            self._set(request.gains, runner)
        elif isinstance(request, ExportMaps):
            self._export(request, runner)
        elif isinstance(request, CountTokens):
            self._counter.submit(request, runner.model_file, runner.model_info.context)
        elif isinstance(request, FollowToken):
            self._emit(TokenFollowed(request.request, traced(runner, request)))
        else:
            self._serve_writing(request, _writing(runner))

    def _serve_writing(self, request: StepRequest, runner: Runner) -> None:
        """Serve a request that inspects a text while it is being written."""
        if isinstance(request, Inspect):
            self._emit(self._lens(request, runner))
        elif isinstance(request, CompareGains) and not runner.session.context_used:
            self._refuse(request, "there is nothing to compare: the cache is empty")
        elif isinstance(request, CompareGains):
            self._emit(GainsEffect(request.request, lens.divergence(runner.session)))

    def _set(self, gains: Gains, runner: AnyRunner) -> None:
        runner.check_gains(gains)
        self._gains = gains
        if not self._answering_with_own:
            runner.set_gains(gains)

    def _lens(self, request: Inspect, runner: Runner) -> LensResult:
        tokenizer = runner.model_file.tokenizer
        rows = tuple(
            LensRow(layer, alternatives(tokenizer, likeliest(logits)))
            for layer, logits in lens.lens(runner.session, request.position)
        )
        return LensResult(request.request, request.position, rows)

    def _export(self, request: ExportMaps, runner: AnyRunner) -> None:
        def done(message: str) -> None:
            self._emit(MapsExported(request.request, request.path, message))

        source = runner.attention_of(request.part)
        write_later(snapshot(source, request.heads), Path(request.path), done)

    def _in_force(self, runner: Runner) -> Gains:
        return self._gains or tuple((1.0,) * len(row) for row in runner.gains)

    def _refuse(self, request: StepRequest, message: str) -> None:
        if isinstance(request, ReadAttentionRows):
            self._rows_wanted = None
            self._emit(
                AttentionRows(request.request, request.position, request.direction, (), message)
            )
        elif isinstance(request, Inspect):
            self._emit(LensResult(request.request, request.position, (), message))
        elif isinstance(request, CompareGains):
            self._emit(GainsEffect(request.request, math.nan, message))
        elif isinstance(request, ExportMaps):
            self._emit(MapsExported(request.request, request.path, message))
        elif isinstance(request, MeasureCache):
            what = request.what
            self._emit(CacheMeasured(request.request, what, request.first, 0, (), message))
        elif isinstance(request, CountTokens):
            self._emit(TokensCounted(request.request, message=message))
        elif isinstance(request, FollowToken):
            self._emit(TokenFollowed(request.request, None, message))
        else:
            self._log("error", message)


def _writing(runner: AnyRunner | None) -> Runner:
    """Return the runner that writes text. RequestError if there is no model, or an encoder."""
    if runner is None:
        raise RequestError(NO_MODEL)
    if not isinstance(runner, Runner):
        raise RequestError(loader.encoder_refusal(runner.model_file))
    return runner
