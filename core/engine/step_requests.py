"""Requests that are served between two steps of an answer: gains, their effect, inspection."""

from __future__ import annotations

import queue
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core import system_errors
from llm_lite.core.encoding.masked import encode_for_display
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.engine.hosting.model_host import NO_MODEL
from llm_lite.core.engine.lesson_requests import traced
from llm_lite.core.engine.token_counts import TokenCounter
from llm_lite.core.errors import CancelledError, DeviceError, LlmLiteError, RequestError
from llm_lite.core.generation.sampling import likeliest
from llm_lite.core.generation.token_texts import alternatives
from llm_lite.core.handles import CANCELLED, SUPERSEDED, Handle
from llm_lite.core.inspect import lens
from llm_lite.core.inspect.attention_export import snapshot, write_later
from llm_lite.core.inspect.attention_rows import AttentionRowsReader
from llm_lite.core.inspect.cache_statistics import Measuring
from llm_lite.core.inspect.expert_routing import read_routing
from llm_lite.core.inspect.state_reads import StateReading
from llm_lite.core.inspect.tokens_again import SessionTokens
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
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
    ReadRouting,
    ReadStates,
    SetGains,
    TextsCompared,
    TokenFollowed,
)

SERVE_SECONDS = 0.01  # of the time between two steps, for a request that can be cut
_CUT = (ReadAttentionRows, MeasureCache, ReadStates)  # into slices of that time
_LONG = {MeasureCache: 1, ReadStates: 2}  # served behind the rest, in this order
# Of these, one that waits gives way to a later one.
_NEWEST_ONLY = (ReadAttentionRows, ReadRouting, ReadStates, EncodeText, CompareTexts)


class StepRequestServer:
    """Keeps the gains that were set, and the requests that wait. `submit` is for any thread."""

    def __init__(self, log: Callable[[Level, str], None]) -> None:
        self._log = log
        self._submitted: queue.SimpleQueue[Handle] = queue.SimpleQueue()
        self._waiting: list[Handle] = []
        self._failed: Handle | None = None  # on a device that was lost
        self._gains: Gains | None = None  # None: all 1
        self._own_gains = False  # the cache belongs to an answer with gains of its own
        self._answering_with_own = False
        self._rows_reader: AttentionRowsReader | None = None  # at the runner of the last request
        self._measuring: Measuring | None = None  # of the request that was cut
        self._reading: StateReading | None = None  # likewise
        self._counter = TokenCounter()

    def submit(self, handle: Handle) -> None:
        self._submitted.put(handle)

    def reset(self) -> None:
        """Reset the gains to 1, as another model is loaded."""
        self._gains = None
        self._own_gains = False
        self._rows_reader = self._measuring = self._reading = None

    def begin_answer(self, runner: Runner, own: Gains | None) -> None:
        """Set the gains of the steps that follow: the work's own ones, or else those in force."""
        gains = self._in_force(runner) if own is None else own
        runner.set_gains(gains, throughout=own is not None or self._own_gains)
        self._own_gains = self._answering_with_own = own is not None

    def end_answer(self) -> None:
        """End an answer; gains that are set from now on are in force at once."""
        self._answering_with_own = False

    def serve(self, runner: AnyRunner | None, hurry: Callable[[], bool]) -> None:
        """Serve what waits. DeviceError passes through: the request waits for the executor that
        takes over; one that fails again ends.

        Long requests are cut into slices; once there is `hurry`, the rest waits for the next call.
        One that runs tokens again does not even begin then: an answer would wait for its steps.
        """
        self._take_submitted()
        for handle in [one for one in self._waiting if not isinstance(one.command, _CUT)]:
            self._serve(handle, runner)
        while self._waiting:
            if isinstance(self._waiting[0].command, ReadStates) and hurry():
                return
            self._serve(self._waiting[0], runner)
            if hurry():
                return

    def _take_submitted(self) -> None:
        while not self._submitted.empty():  # only this thread takes any
            handle = self._submitted.get()
            if isinstance(handle.command, _NEWEST_ONLY):
                for older in [h for h in self._waiting if type(h.command) is type(handle.command)]:
                    self._waiting.remove(older)
                    older.end(SUPERSEDED, unwanted=True)
            self._waiting.append(handle)
        self._waiting.sort(key=lambda one: _LONG.get(type(one.command), 0))

    def _serve(self, handle: Handle, runner: AnyRunner | None) -> None:
        self._waiting.remove(handle)
        if handle.is_cancelled:
            handle.end(CANCELLED, unwanted=True)
            return
        try:
            if runner is None:
                raise RequestError(NO_MODEL)
            _SERVERS[type(handle.command)](self, handle, handle.command, runner)
        except DeviceError as error:
            if handle is self._failed:
                handle.end(str(error))
            else:
                self._failed = handle
                self._waiting.insert(0, handle)
            raise
        except CancelledError:
            handle.end(CANCELLED, unwanted=True)
        except LlmLiteError as error:
            handle.end(str(error))
        except BaseException as error:  # a defect ends its request, and not the answer
            if not (known := system_errors.sentence(error)):
                self._log("error", f"internal error, please report it: {traceback.format_exc()}")
            handle.end(known or system_errors.defect(error))

    def _rows(self, handle: Handle, request: ReadAttentionRows, runner: AnyRunner) -> None:
        source = runner.attention_of(request.part)
        if self._rows_reader is None or self._rows_reader.source is not source:
            self._rows_reader = AttentionRowsReader(source)
        rows = self._rows_reader.read(request, SERVE_SECONDS)
        if rows is None:
            self._waiting.insert(0, handle)
        else:
            handle.finish(rows)

    def _measure(self, handle: Handle, request: MeasureCache, loaded: AnyRunner) -> None:
        runner = _writing(loaded)
        work, self._measuring = self._measuring, None  # a defect ends it, not every step from here
        if work is None or work.request is not request or work.source is not runner.attention:
            work = Measuring(request, runner.session, runner.attention)
        measured = work.advance(SERVE_SECONDS)
        if measured is None:
            self._measuring = work
            self._waiting.insert(0, handle)
        else:
            handle.finish(measured)

    def _read_states(self, handle: Handle, request: ReadStates, loaded: AnyRunner) -> None:
        runner = _writing(loaded)
        work, self._reading = self._reading, None
        executor = runner.executor
        if work is None or work.request is not request or work.tokens.executor is not executor:
            work = StateReading(request, SessionTokens(runner.session), runner.weights)
        found = work.advance(SERVE_SECONDS)
        if found is None:
            self._reading = work
            self._waiting.insert(0, handle)
        else:
            handle.finish(found)

    def _read_routing(self, handle: Handle, request: ReadRouting, loaded: AnyRunner) -> None:
        handle.finish(read_routing(request, _writing(loaded).session))

    def _set(self, handle: Handle, request: SetGains, runner: AnyRunner) -> None:
        runner.check_gains(request.gains)
        self._gains = request.gains
        if not self._answering_with_own:
            runner.set_gains(request.gains)
        handle.end()

    def _compare_gains(self, handle: Handle, request: CompareGains, loaded: AnyRunner) -> None:
        runner = _writing(loaded)
        if not runner.session.context_used:
            raise RequestError("there is nothing to compare: the cache is empty")
        effect = lens.divergence(runner.session, lambda: handle.is_cancelled)
        handle.finish(GainsEffect(effect))

    def _lens(self, handle: Handle, request: Inspect, loaded: AnyRunner) -> None:
        runner = _writing(loaded)
        tokenizer = runner.model_file.tokenizer
        found = lens.lens(runner.session, request.position, lambda: handle.is_cancelled)
        rows = tuple(
            LensRow(layer, alternatives(tokenizer, likeliest(logits))) for layer, logits in found
        )
        handle.finish(LensResult(request.position, rows))

    def _trace(self, handle: Handle, request: FollowToken, runner: AnyRunner) -> None:
        handle.finish(TokenFollowed(traced(runner, request)))

    def _count(self, handle: Handle, request: CountTokens, runner: AnyRunner) -> None:
        self._counter.submit(handle, request, runner.model_file, runner.model_info.context)

    def _export(self, handle: Handle, request: ExportMaps, runner: AnyRunner) -> None:
        def done(problem: str) -> None:
            if not problem:
                handle.emit(MapsExported(request.path))
            handle.end(problem)

        source = runner.attention_of(request.part)
        write_later(snapshot(source, request.heads), Path(request.path), done)

    def _encode(self, handle: Handle, request: EncodeText, loaded: AnyRunner) -> None:
        runner = _encoding(loaded)
        tokenizer = runner.model_file.tokenizer
        handle.finish(encode_for_display(runner.session, tokenizer, request, runner.most_tokens))

    def _compare_texts(self, handle: Handle, request: CompareTexts, loaded: AnyRunner) -> None:
        """Compare the texts. They share steps, so that the maps of the last text stay."""
        runner = _encoding(loaded)
        if len(request.texts) < 2:
            raise RequestError(f"expected two texts or more, found {len(request.texts)}")
        started = time.perf_counter()
        found = cosines(runner.embed(request.texts))
        seconds = time.perf_counter() - started
        handle.finish(TextsCompared(tuple(map(tuple, found.tolist())), seconds))

    def _in_force(self, runner: Runner) -> Gains:
        return self._gains or tuple((1.0,) * len(row) for row in runner.gains)


_SERVERS: dict[type[Any], Callable[[StepRequestServer, Handle, Any, AnyRunner], None]] = {
    SetGains: StepRequestServer._set,
    CompareGains: StepRequestServer._compare_gains,
    Inspect: StepRequestServer._lens,
    ReadAttentionRows: StepRequestServer._rows,
    MeasureCache: StepRequestServer._measure,
    ReadRouting: StepRequestServer._read_routing,
    ReadStates: StepRequestServer._read_states,
    ExportMaps: StepRequestServer._export,
    FollowToken: StepRequestServer._trace,
    CountTokens: StepRequestServer._count,
    EncodeText: StepRequestServer._encode,
    CompareTexts: StepRequestServer._compare_texts,
}


def _writing(runner: AnyRunner) -> Runner:
    """Return the runner that writes text. RequestError if it is an encoder."""
    if not isinstance(runner, Runner):
        raise RequestError(loader.encoder_refusal(runner.model_file))
    return runner


def _encoding(runner: AnyRunner) -> EncoderRunner:
    """Return the runner that makes vectors of texts. RequestError if it writes text."""
    if not isinstance(runner, EncoderRunner):
        name = runner.model_info.name
        raise RequestError(f"{name} is no encoder, as BERT is: it makes no vectors of texts here")
    return runner
