"""Where a person is in the lesson: step, token, layer and head, and the trace of that token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from llm_lite.core.messages import Gains
from llm_lite.core.messages.inspecting.lesson import MOST_TOKENS, TEMPERATURES, TokenTrace

StepName = Literal[
    "tokens",
    "position",
    "norm",
    "queries",
    "scores",
    "softmax",
    "values",
    "output",
    "neurons",
    "residual",
    "sampling",
    "cache",
]
STEPS: tuple[StepName, ...] = (
    "tokens", "position", "norm", "queries", "scores", "softmax", "values", "output", "neurons",
    "residual", "sampling", "cache",
)  # fmt: skip
LONGEST_SENTENCE = 400  # characters that a person can type


@dataclass(frozen=True, slots=True)
class TraceKey:
    """What a trace belongs to: of something else it is not asked for again."""

    chat: int
    length: int  # of the cache
    model: str
    position: int
    layer: int
    head: int
    gains: Gains | None = None


@dataclass(frozen=True, slots=True)
class LessonState:
    """`position`, `layer`, `head`: None where the lesson chooses. `words`: the texts of the trace's
    sentence. `temperature` is one of TEMPERATURES. `draws` counts tokens that were drawn."""

    shown: bool = False
    away: bool = False  # a number of it led to another view
    step: int = 0
    position: int | None = None
    layer: int | None = None
    head: int | None = None
    why: bool = False
    scaled: bool = True  # whether softmax is shown with the scale
    temperature: float = 0.8
    top_p: float = 0.95
    draws: int = 0
    typing: bool = False  # a sentence of a person's own
    request: int = 0  # not answered yet; 0: none
    key: TraceKey | None = None  # of what was asked last
    trace: TokenTrace | None = None
    words: tuple[str, ...] = ()
    problem: str = ""  # why there is no trace

    @property
    def name(self) -> StepName:
        return STEPS[self.step]

    def at_step(self, step: int) -> LessonState:
        return replace(self, step=max(0, min(step, len(STEPS) - 1)))

    def forgotten(self) -> LessonState:
        """Of another model: its layers and heads are others, and the trace is gone."""
        return replace(
            self, position=None, layer=None, head=None, request=0, key=None, trace=None, words=(),
            problem="", away=False,
        )  # fmt: skip

    def with_trace(self, trace: TokenTrace, words: tuple[str, ...]) -> LessonState:
        return replace(self, request=0, trace=trace, words=words, problem="")

    def with_problem(self, problem: str) -> LessonState:
        return replace(self, request=0, trace=None, words=(), problem=problem)


def nearest_temperature(wanted: float) -> float:
    """One of TEMPERATURES."""
    return min(TEMPERATURES, key=lambda one: abs(one - wanted))


def sentence_of(position: int, first: int, length: int) -> range:
    """The positions that the line of the sentence shows: from `first`, where its message begins, at
    most so many that scores are told of all; and a few that follow."""
    start = max(first, position + 1 - MOST_TOKENS)
    return range(start, min(length, max(position + 1, start + MOST_TOKENS)))
