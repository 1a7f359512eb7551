"""One prompt for the model here and for one elsewhere, side by side: their events become those of a
comparison of two runs."""

from __future__ import annotations

from llm_lite.core.messages import (
    CompareElsewhere,
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    ModelLoaded,
    RunFinished,
    RunReady,
    RunToken,
    SamplingOptions,
    TaskFinished,
    TokenDecoded,
)
from llm_lite.core.text.thinking import MARKS

HERE, THERE = 0, 1  # runs


class SideBySide:
    """`commands` are the two answers to be asked for, by run."""

    def __init__(self, command: CompareElsewhere, here: ModelLoaded, there: ModelLoaded) -> None:
        self._command, self._models = command, (here, there)
        self._running = {HERE, THERE}
        self._problem = ""
        self._opening: dict[int, str] = {}  # the mark of thoughts that a prompt has begun
        sampling: SamplingOptions = command.sampling
        # Numbers that no answer of the chat has.
        self._numbers = (-2 * command.request - 1, -2 * command.request - 2)
        self.commands = tuple(
            Generate(number, command.messages, sampling) for number in self._numbers
        )

    @property
    def over(self) -> bool:
        return not self._running

    def begin(self) -> list[Event]:
        told: list[Event] = []
        for run, one in enumerate(self._models):
            size = one.model.weight_bytes
            told.append(RunReady(self._command.request, run, one.executor, size, 0, run == HERE))
        return told

    def takes(self, event: Event) -> bool:
        """Whether it is of one of the two answers."""
        return getattr(event, "request", None) in self._numbers

    def heard(self, event: Event) -> list[Event]:
        """What is told of it."""
        request = self._command.request
        run = self._numbers.index(event.request) if self.takes(event) else HERE  # type: ignore[union-attr]
        if isinstance(event, GenerationStarted) and event.thinking and event.thinking.inside:
            self._opening[run] = MARKS[event.thinking.style].written[0]
        if isinstance(event, TokenDecoded):
            text = self._opening.pop(run, "") + event.text
            return [
                RunToken(request, run, event.token, text, event.probability, event.alternatives)
            ]
        if not isinstance(event, GenerationFinished):
            return []
        self._running.discard(run)
        self._problem = self._problem or event.message
        told: list[Event] = [RunFinished(request, run, event.stop_reason, event.stats)]
        if self.over:
            told.append(TaskFinished(request, self._problem))
        return told
