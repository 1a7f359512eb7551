"""Requests that are served between two steps of an answer: gains, logit lens, their effect."""

from __future__ import annotations

import math
import queue
from collections.abc import Callable

from core import inspection
from core.errors import DeviceError, LlmLiteError
from core.generation import Emit, Generation, alternatives
from core.loading import Runner
from core.messages import (
    Aside,
    CompareGains,
    Gains,
    GainsEffect,
    Inspect,
    LensResult,
    LensRow,
    Level,
    SetGains,
)
from core.sampling import likeliest


class Steering:
    """Keeps the gains that were set, and the requests that wait. `ask` is for any thread."""

    def __init__(self, emit: Emit, log: Callable[[Level, str], None]) -> None:
        self._emit = emit
        self._log = log
        self._waiting: queue.SimpleQueue[Aside] = queue.SimpleQueue()
        self._gains: Gains | None = None  # None: all 1
        self._own_gains = False  # the cache belongs to an answer with gains of its own
        self._answering_with_own = False

    def ask(self, request: Aside) -> None:
        self._waiting.put(request)

    def reset(self) -> None:
        """Another model: its gains are all 1."""
        self._gains = None
        self._own_gains = False

    def answer(self, generation: Generation, runner: Runner) -> None:
        """Run the generation with its gains, and serve requests between its steps."""
        session, own = runner.session, generation.command.gains
        gains = self._in_force(runner) if own is None else own
        session.set_gains(gains, throughout=own is not None or self._own_gains)
        self._own_gains = self._answering_with_own = own is not None
        session.before_step = lambda: self.serve(runner)
        try:
            generation.run(runner)
        finally:
            self._answering_with_own = False
            session.before_step = lambda: None
        self.serve(runner)

    def serve(self, runner: Runner | None) -> None:
        """Serve what waits. DeviceError passes through, after the request was answered."""
        while True:
            try:
                request = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._serve(request, runner)
            except LlmLiteError as error:
                self._refuse(request, str(error))
                if isinstance(error, DeviceError):
                    raise

    def _serve(self, request: Aside, runner: Runner | None) -> None:
        if runner is None:
            self._refuse(request, "no model is loaded: open one first")
        elif isinstance(request, SetGains):
            self._set(request.gains, runner)
        elif isinstance(request, Inspect):
            self._emit(self._lens(request, runner))
        elif not runner.session.context_used:
            self._refuse(request, "there is nothing to compare: the cache is empty")
        else:
            kl = inspection.divergence(runner.session)
            self._emit(GainsEffect(request.request, kl))

    def _set(self, gains: Gains, runner: Runner) -> None:
        runner.session.check_gains(gains)
        self._gains = gains
        if not self._answering_with_own:
            runner.session.set_gains(gains)

    def _lens(self, request: Inspect, runner: Runner) -> LensResult:
        tokenizer = runner.model_file.tokenizer
        rows = tuple(
            LensRow(layer, alternatives(tokenizer, likeliest(logits)))
            for layer, logits in inspection.lens(runner.session, request.position)
        )
        return LensResult(request.request, request.position, rows)

    def _in_force(self, runner: Runner) -> Gains:
        return self._gains or tuple((1.0,) * len(row) for row in runner.session.gains)

    def _refuse(self, request: Aside, message: str) -> None:
        if isinstance(request, Inspect):
            self._emit(LensResult(request.request, request.position, (), message))
        elif isinstance(request, CompareGains):
            self._emit(GainsEffect(request.request, math.nan, message))
        else:
            self._log("error", message)
