"""Requests that are served between two steps of an answer: interventions, questions, texts."""

from __future__ import annotations

import queue
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core import system_errors
from llm_lite.core.encoding.masked import encode_for_display
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.engine.hosting.model_host import NO_MODEL
from llm_lite.core.engine.token_counts import TokenCounter
from llm_lite.core.errors import CancelledError, DeviceError, LlmLiteError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.handles import CANCELLED, SUPERSEDED, Handle
from llm_lite.core.inspect.attention_export import snapshot, write_later
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    CompareTexts,
    CountTokens,
    EncodeText,
    Event,
    ExportMaps,
    InterventionsSet,
    Level,
    MapsExported,
    SetInterventions,
    StepRequest,
    TextsCompared,
)
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.questions.interventions.live import intervene, live_of
from llm_lite.core.questions.question import Parts, advance
from llm_lite.core.questions.runner_replay import EncoderReplay, Readers, replay_of
from llm_lite.core.questions.table import BY_REQUEST, NEWEST_ONLY

SERVE_SECONDS = 0.01  # of the time between two steps, for a request that can be cut


class _Unfinished(Struct, frozen=True):
    """A question that is being answered of what an executor holds."""

    executor: Executor
    parts: Parts[Event]


class StepRequestServer:
    """Keeps the interventions that were set, and the requests that wait. `submit` is for any
    thread."""

    def __init__(self, log: Callable[[Level, str], None]) -> None:
        self._log = log
        self._submitted: queue.SimpleQueue[Handle] = queue.SimpleQueue()
        self._waiting: list[Handle] = []
        self._failed: Handle | None = None  # on a device that was lost
        self._interventions = NO_CHANGES
        self._is_own = False  # the cache belongs to an answer with interventions of its own
        self._answering_with_own = False
        self._readers = Readers()
        self._unfinished: dict[Handle, _Unfinished] = {}  # of questions that are answered in part
        self._counter = TokenCounter()

    def submit(self, handle: Handle) -> None:
        self._submitted.put(handle)

    def reset(self) -> None:
        """Forget all interventions, as another model is loaded."""
        self._interventions = NO_CHANGES
        self._is_own = False
        self._readers.clear()
        self._unfinished.clear()

    def begin_answer(self, runner: Runner, own: Interventions | None) -> None:
        """Have the interventions of the steps that follow act: the work's own ones, or else those
        that were set. RequestError for what cannot act while the model writes."""
        has_own = own is not None
        wanted = self._interventions if own is None else own
        intervene(runner, wanted, throughout=has_own or self._is_own)
        self._is_own = self._answering_with_own = has_own

    def end_answer(self) -> None:
        """End an answer; interventions that are set from now on are in force at once."""
        self._answering_with_own = False

    def serve(self, runner: AnyRunner | None, hurry: Callable[[], bool]) -> None:
        """Serve what waits. DeviceError passes through: the request waits for the executor that
        takes over; one that fails again ends.

        Long requests are cut into slices; once there is `hurry`, the rest waits for the next call.
        One that runs tokens again does not even begin then: an answer would wait for its steps.
        """
        self._take_submitted()
        first = [one for one in self._waiting if not _turn(one)]
        for handle in first:
            self._serve(handle, runner)
        while self._waiting:
            had_slice = self._waiting[0] in first
            if (had_slice or _runs_tokens(self._waiting[0])) and hurry():
                return
            self._serve(self._waiting[0], runner)
            if hurry():
                return

    def _take_submitted(self) -> None:
        while not self._submitted.empty():  # only this thread takes any
            handle = self._submitted.get()
            if isinstance(handle.command, NEWEST_ONLY):
                for older in [h for h in self._waiting if type(h.command) is type(handle.command)]:
                    self._waiting.remove(older)
                    self._unfinished.pop(older, None)
                    older.end(SUPERSEDED, unwanted=True)
            self._waiting.append(handle)
        self._waiting.sort(key=_turn)

    def _serve(self, handle: Handle, runner: AnyRunner | None) -> None:
        self._waiting.remove(handle)
        if handle.is_cancelled:
            self._unfinished.pop(handle, None)
            handle.end(CANCELLED, unwanted=True)
            return
        try:
            if runner is None:
                self._unfinished.clear()
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

    def _answer(self, handle: Handle, request: StepRequest, runner: AnyRunner) -> None:
        """Answer a question, or a part of one: the rest waits for the next call."""
        begun = self._unfinished.pop(handle, None)  # a defect ends it, not every step from here
        if begun is None or begun.executor is not runner.executor:
            question = BY_REQUEST[type(request)]
            replay = replay_of(question, runner, self._readers)
            if not isinstance(replay, EncoderReplay):
                handle.of_tokens = replay.tokens()
            begun = _Unfinished(runner.executor, question.run(request, replay))
        answer = advance(begun.parts, SERVE_SECONDS, lambda: handle.is_cancelled, handle.emit)
        if answer is None:
            self._unfinished[handle] = begun
            self._waiting.insert(0, handle)
        else:
            handle.finish(answer)

    def _intervene(self, handle: Handle, request: SetInterventions, runner: AnyRunner) -> None:
        try:
            if self._answering_with_own:
                _, self._interventions = live_of(runner, request.interventions)
            else:
                self._interventions = intervene(runner, request.interventions)
        finally:
            handle.emit(InterventionsSet(self._interventions))
        handle.end()

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


_SERVERS: dict[type[Any], Callable[[StepRequestServer, Handle, Any, AnyRunner], None]] = {
    **dict.fromkeys(BY_REQUEST, StepRequestServer._answer),
    SetInterventions: StepRequestServer._intervene,
    ExportMaps: StepRequestServer._export,
    CountTokens: StepRequestServer._count,
    EncodeText: StepRequestServer._encode,
    CompareTexts: StepRequestServer._compare_texts,
}


def _turn(handle: Handle) -> int:
    question = BY_REQUEST.get(type(handle.command))
    return question.turn if question else 0


def _runs_tokens(handle: Handle) -> bool:
    question = BY_REQUEST.get(type(handle.command))
    return question is not None and question.runs_tokens


def _encoding(runner: AnyRunner) -> EncoderRunner:
    """Return the runner that makes vectors of texts. RequestError if it writes text."""
    if not isinstance(runner, EncoderRunner):
        name = runner.model_info.name
        raise RequestError(f"{name} is no encoder, as BERT is: it makes no vectors of texts here")
    return runner
