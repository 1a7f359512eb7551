"""Where a person is in the lesson: step, token, layer and head, and the trace of that token."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import Gains, ModelInfo
from llm_lite.core.messages.inspecting.lesson import (
    MOST_TOKENS,
    TEMPERATURES,
    ModelPath,
    Positions,
    TokenTrace,
    TracedShape,
)
from llm_lite.core.records import replace

StepName = Literal[
    "source",
    "tokens",
    "position",
    "norm",
    "queries",
    "scores",
    "softmax",
    "values",
    "output",
    "cross",
    "neurons",
    "residual",
    "sampling",
    "choosing",
    "filling",
    "pooling",
    "cache",
    "summary",
]
NormPlace = Literal["", "before", "behind"]  # of attention, and of its sum; "": there is none
USUAL = (0.8, 0.95)  # temperature and top-p


def steps_of(shape: TracedShape) -> tuple[StepName, ...]:
    """The steps of a model: what it lacks is left out, and each stands where the model does it."""
    norm: NormPlace = "behind" if shape.norm_behind else "before"
    norm = norm if shape.norm != "none" else ""
    return _steps(shape.path, shape.positions, norm, shape.has_head)


def usual_steps(model: ModelInfo) -> tuple[StepName, ...]:
    """Of most models of its kind, while it is not known how the opened layer is built."""
    if model.translator is not None:
        return _steps("encoder_decoder", "bias", "before", True)
    if model.encoder is not None:
        return _steps("encoder", "learned", "behind", bool(model.encoder.mask_token))
    return STEPS


def _steps(
    path: ModelPath, place: Positions, norm: NormPlace, has_head: bool
) -> tuple[StepName, ...]:
    steps: tuple[tuple[StepName, bool], ...] = (
        ("source", path == "encoder_decoder"),
        ("tokens", True),
        ("position", place in ("learned", "sines")),
        ("norm", norm == "before"),
        ("queries", True),
        ("position", place == "rotary"),
        ("scores", True),
        ("position", place == "bias"),
        ("softmax", True),
        ("values", True),
        ("output", True),
        ("norm", norm == "behind"),
        ("cross", path == "encoder_decoder"),
        ("neurons", True),
        ("residual", True),
        ("sampling", path == "decoder"),
        ("choosing", path == "encoder_decoder"),
        ("filling", path == "encoder" and has_head),
        ("pooling", path == "encoder" and not has_head),
        ("cache", path != "encoder"),
        ("summary", path == "decoder"),
    )
    return tuple(name for name, applies in steps if applies)


STEPS = _steps("decoder", "rotary", "before", True)
LONGEST_SENTENCE = 400  # characters that a person can type


class TraceKey(Struct, frozen=True):
    """What a trace belongs to: of something else it is not asked for again."""

    chat: int
    length: int  # of the cache; of an encoder the request that read its text
    model: str
    position: int
    layer: int
    head: int
    gains: Gains | None = None
    beside: str = ""  # as of `LessonState`


class LessonState(Struct, frozen=True):
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
    temperature: float = USUAL[0]
    top_p: float = USUAL[1]
    draws: int = 0
    made: int | None = None  # the chat that the lesson made of a sentence
    typing: bool = False  # a sentence of a person's own
    beside: str = ""  # a text whose vector is compared with an encoder's
    request: int = 0  # not answered yet; 0: none
    key: TraceKey | None = None  # of what was asked last
    trace: TokenTrace | None = None
    words: tuple[str, ...] = ()
    problem: str = ""  # why there is no trace
    usual: tuple[StepName, ...] = STEPS  # until there is a trace

    @property
    def steps(self) -> tuple[StepName, ...]:
        return steps_of(self.trace.shape) if self.trace else self.usual

    @property
    def name(self) -> StepName:
        return self.steps[min(self.step, len(self.steps) - 1)]

    def at_step(self, step: int) -> LessonState:
        return replace(self, step=max(0, min(step, len(self.steps) - 1)))

    def number_of(self, name: StepName) -> int:
        """As it stands on the screen, from 1; 0 where the model lacks the step."""
        return self.steps.index(name) + 1 if name in self.steps else 0

    def of_next_conversation(self) -> LessonState:
        """The token that was followed is not of it."""
        return replace(
            self, position=None, request=0, key=None, trace=None, words=(), problem="",
            usual=self.steps,
        )  # fmt: skip

    def of_next_model(self) -> LessonState:
        return self.forgotten()

    def forgotten(self) -> LessonState:
        """Of another model: its layers and heads are others, and the trace is gone."""
        return replace(
            self, position=None, layer=None, head=None, request=0, key=None, trace=None, words=(),
            problem="", away=False, usual=self.steps,
        )  # fmt: skip

    def of_model(self, model: ModelInfo) -> LessonState:
        """Of another model, whose steps are those of most of its kind until there is a trace."""
        return replace(self.forgotten(), usual=usual_steps(model))

    def with_trace(self, trace: TokenTrace, words: tuple[str, ...]) -> LessonState:
        """The step stays, wherever it stands among those of the model."""
        found = replace(self, request=0, trace=trace, words=words, problem="")
        number = found.number_of(self.name)
        return found.at_step(number - 1 if self.step and number else self.step)

    def with_problem(self, problem: str) -> LessonState:
        return replace(self, request=0, trace=None, words=(), problem=problem, usual=self.steps)


def nearest_temperature(wanted: float) -> float:
    """One of TEMPERATURES."""
    return min(TEMPERATURES, key=lambda one: abs(one - wanted))


def sentence_of(position: int, first: int, length: int) -> range:
    """The positions that the line of the sentence shows: from `first`, where its message begins, at
    most so many that scores are told of all; and a few that follow."""
    start = max(first, position + 1 - MOST_TOKENS)
    return range(start, min(length, max(position + 1, start + MOST_TOKENS)))
