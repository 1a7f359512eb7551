"""`Serving` is the engine's side of a server: one step at a time for all who are answered.

Nothing of this folder is imported before somebody serves.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from llm_lite.core import system_errors
from llm_lite.core.errors import (
    CancelledError,
    DeviceError,
    LlmLiteError,
    OutOfDeviceMemoryError,
    UnavailableError,
)
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.grammars.matchers import matchers
from llm_lite.core.generation.token_chooser import PATIENCE
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import Level, ServingChanged, StartServing
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Segment, Step
from llm_lite.core.serving.answers import AnswerService
from llm_lite.core.serving.batch import Batch
from llm_lite.core.serving.drafts import ServedDrafts, drafted_batch, written_alone
from llm_lite.core.serving.inspect import Responses
from llm_lite.core.serving.request_queue import CHANGED, RequestQueue
from llm_lite.core.serving.scheduler import Scheduler, StepPart
from llm_lite.core.serving.service import ENDED, ModeController
from llm_lite.core.serving.tally import Tally

# Gives the engine's runner room for clients, and returns it, another one.
MakeRoom = Callable[[StartServing], Runner]


class Serving:
    """The serving of an engine, on the engine's thread; `service` may be called on any. `wake` is
    called when there is work, and may be called on any thread; `is_closing` says that the program
    ends."""

    def __init__(
        self,
        options: StartServing,
        emit: Callable[[ServingChanged], None],
        log: Callable[[Level, str], None],
        wake: Callable[[], None],
        is_closing: Callable[[], bool],
        modes: ModeController,
    ) -> None:
        self._options, self._emit, self._log = options, emit, log
        self._is_closing = is_closing
        self._scheduler = Scheduler(options.parallel, options.most_waiting)
        self._queue = RequestQueue(self._scheduler, wake)
        self._responses, self._tally = Responses(), Tally()
        self.service = AnswerService(
            self._queue, self._responses, self._tally, options.parallel, modes
        )
        self._runner: Runner | None = None
        self._batch: Batch | None = None
        self._drafts = ServedDrafts()  # of the batch
        self._is_on = False
        self.problem = ""  # why nothing is served
        self._is_spoiled = False  # by a defect: the next step begins with empty pages
        self._has_run = False  # a step beside the chat's, since the last call of `step`

    @property
    def is_on(self) -> bool:
        """Return whether requests are taken; also while another executor of the same model is
        made ready, for which they wait."""
        return self._is_on

    @property
    def has_work(self) -> bool:
        return self._queue.has_work()

    def use_runner(
        self, runner: Runner | None, make_room: MakeRoom | None, why_none: str = ""
    ) -> None:
        """Use this model and executor from now on, once it has room; without `make_room` a new one
        is left alone. Answers go on where only the executor is another one, else they end; without
        a runner with the sentence `why_none`.
        DeviceError where there is none for them: another executor takes over."""
        previous, is_new = self._runner, runner is not self._runner
        if not (is_new or self._is_spoiled) or (is_new and runner and not make_room):
            return
        self._runner, self._is_spoiled = runner, False
        self._scheduler.return_all()
        self._drop_batch()
        if previous is None or runner is None or runner.model_file is not previous.model_file:
            self._is_on = False
            self._queue.close(CHANGED)  # until it is opened again
        if runner is None:
            self._close(why_none)
            return
        try:
            if is_new and make_room is not None:
                self._runner = runner = make_room(self._options)
            self._batch, self._drafts = drafted_batch(runner, self._options, self._tally)
        except OutOfDeviceMemoryError as error:
            self._end(error)
            return
        except DeviceError:
            self._runner = previous  # until another executor has taken over
            raise
        except LlmLiteError as error:
            self._end(error)
            return
        runner.session.run_shared = self.run_beside
        self._queue.open(self._batch)
        matchers().warm(runner.model_file.tokenizer)  # the first schema does not wait for it
        self._is_on = True
        self._emit(ServingChanged(True, self.service.status()))

    def step(
        self,
        runner: Runner | None,
        make_room: MakeRoom | None,
        *,
        waits: bool,
        why_none: str = "",
    ) -> bool:
        """Do what comes next; return whether there is more. With `waits`, where nothing can be
        done before grammars have said what may come next, wait a little for one. DeviceError
        passes through: nothing is lost, and all goes on with another executor."""
        self.use_runner(runner, make_room, why_none)
        if make_room is None and runner is not self._runner:
            return self._queue.has_work()
        batch, has_run = self._batch, self._has_run
        self._has_run = False
        if batch is not None:
            try:
                with self._failures():
                    self._work(batch, waits, runs=not has_run)
            except CancelledError:  # the program ends: the step does not count
                return True
        self._end_those_over()
        return self._queue.has_work()

    def run_beside(self, chat: Step, should_stop: StopCheck | None) -> NDArray[np.float32]:
        """Run a step of the chat, with the next tokens of clients as far as it has room, and return
        the chat's logits. Errors of clients end their answers, and not the chat's."""
        batch = self._batch
        assert batch is not None
        wanted, parts = list[StepPart](), list[StepPart]()
        if not chat.sliced:
            with self._failures():
                wanted = self._scheduler.parts(batch.pool, batch.segments, self._queue.embedding)
                parts = _fitting(batch.program, chat, wanted)
                self._place(batch, parts)
        batch.runner.session.had_company = bool(parts)
        if not parts:
            return batch.executor.run(chat, should_stop)
        tokens, segments = _step_of(parts)
        logits = batch.run(tokens, segments, should_stop, chat)
        self._has_run = len(parts) == len(wanted)
        with self._failures():
            self._take(batch, parts, logits[chat.outputs :], is_alone=False)
            self._end_those_over()
        return logits[: chat.outputs]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """End all answers with a sentence where the work within fails; DeviceError and
        CancelledError pass through."""
        try:
            yield
        except (DeviceError, CancelledError):
            raise
        except LlmLiteError as error:
            self.fail(str(error))
        except BaseException as error:  # those of native libraries are no Exception
            if sentence := system_errors.sentence(error):
                self.fail(sentence)
            else:
                text = traceback.format_exc()
                self._log("error", f"internal error, please report it: {text}")
                self.fail(system_errors.defect(error))
            self._is_spoiled = True

    def fail(self, problem: str) -> None:
        """End all that runs or waits with this sentence; the next requests are answered again."""
        self._log("error", problem)
        self._scheduler.end_all(problem)
        self._queue.fail_all(UnavailableError(problem), self._batch)

    def close(self, problem: str = ENDED) -> None:
        """End everything, and release the cache."""
        self._scheduler.return_all()
        self._drop_batch()
        self._runner = None
        self._close(problem, "")

    def _end(self, error: LlmLiteError) -> None:
        self._log("error", f"serving has ended: {error}")
        self._close(str(error))

    def _close(self, problem: str, shown: str | None = None) -> None:
        self._is_on, self.problem = False, problem
        self._queue.close(problem)
        self._end_those_over()
        self._emit(ServingChanged(False, problem=problem if shown is None else shown))

    def _drop_batch(self) -> None:
        """Close the batch; its pages are gone, whatever was in them."""
        batch, self._batch = self._batch, None
        self._drafts.close()
        self._drafts = ServedDrafts()
        self._responses.clear()
        if (embedding := self._queue.embedding) is not None:
            embedding.restart()
        for answer, _ in self._scheduler.answers():
            answer.paged.drop_pages()
        if batch is not None:
            session = batch.runner.session
            session.run_shared, session.had_company = None, False

    def _work(self, batch: Batch, waits: bool, *, runs: bool) -> None:
        call = self._queue.next_call()
        if call is not None:
            call.do(batch)
        waiting = [answer for answer in self._scheduler.running if answer.is_waiting_for_mask]
        for answer in waiting:
            if answer.is_ready():
                answer.resume()
        self._end_those_over()  # cancelled meanwhile
        embedding = self._queue.embedding
        if embedding is not None:
            try:
                if embedding.advance(batch):
                    self._queue.end_embedding()
            except DeviceError:
                embedding.restart()
                raise
            except LlmLiteError as error:
                self._queue.end_embedding().fail(error, batch)
        if not runs:  # their tokens were in the chat's step
            return
        parts = self._scheduler.parts(batch.pool, batch.segments, self._queue.embedding)
        self._place(batch, parts)
        if parts:
            if self._queue.embedding is None:
                places, pool = batch.segments, batch.pool
                parts = self._drafts.extended(parts, places, pool, self._is_closing)
            self._run(batch, parts)
        elif waits and call is None and self._queue.embedding is None:
            for answer in (waiting or self._scheduler.busy())[:1]:
                answer.is_ready(PATIENCE)

    def _place(self, batch: Batch, parts: list[StepPart]) -> None:
        """Find slots for the interventions of the answers in a step, and note their turns."""
        self._scheduler.note_run(parts)
        for part in parts:
            part.answer.paged.slot = batch.slots.slot_of(part.answer.paged.changes)

    def _run(self, batch: Batch, parts: list[StepPart]) -> None:
        tokens, segments = _step_of(parts)
        logits = batch.run(tokens, segments, self._is_closing)
        self._take(batch, parts, logits, is_alone=written_alone(parts) is not None)

    def _take(
        self, batch: Batch, parts: list[StepPart], logits: NDArray[np.float32], *, is_alone: bool
    ) -> None:
        """Choose what follows in each answer of a step; `logits` float32 [outputs, V]. `is_alone`:
        the step was the next token of one answer, and drafts behind it."""
        row, seconds, until = 0, batch.last_seconds, time.monotonic() + PATIENCE
        found = list[tuple[StepPart, NDArray[np.float32]]]()
        for part in parts:
            part.answer.paged.advance(batch.pool, part.count)
            if part.outputs:
                found.append((part, logits[row : row + 1 + len(part.drafted)]))
                row += 1 + len(part.drafted)
        # Nobody waits for the masks of others.
        for part, rows in sorted(found, key=lambda one: not one[0].answer.is_ready()):
            if part.answer.new_tokens:  # else it follows the prompt
                part.answer.drafts.note_step(len(part.drafted), seconds, is_alone=is_alone)
            part.answer.take_all(rows, part.drafted, batch.pool, seconds, until)

    def _end_those_over(self) -> None:
        for answer in self._scheduler.over():
            used, batch = answer.paged.computed, self._batch
            if batch is None:
                answer.finish()
            else:
                answer.finish(batch.read_bytes(used) if used else 0)
                self._responses.add(answer, batch.pool)
                answer.paged.free_pages(batch.pool, keep=True)
            self._tally.count(answer)


def _step_of(parts: list[StepPart]) -> tuple[list[int], tuple[Segment, ...]]:
    """Return the tokens and segments of a step of these parts."""
    tokens, segments = list[int](), list[Segment]()
    for part in parts:
        paged = part.answer.paged
        tokens += [*paged.next_tokens(part.count), *part.drafted]
        segments += paged.segments(part.count, part.outputs)
        segments += paged.drafted_segments(part.count, len(part.drafted))
    return tokens, tuple(segments)


def _fitting(program: Program, chat: Step, wanted: Sequence[StepPart]) -> list[StepPart]:
    """Return the parts that fit into a step beside the chat's, those of one token first."""
    assert program.pages is not None
    parts, count, outputs, segments = [], chat.count, chat.outputs, len(chat.segments)
    for part in wanted:
        more = 1 if part.answer.paged.is_reading else part.count
        tokens, logits = count + part.count, outputs + part.outputs
        if segments + more <= program.pages.segments and program.takes(tokens, logits):
            parts.append(part)
            count, outputs, segments = tokens, logits, segments + more
    return parts
