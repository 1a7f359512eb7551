"""The state of the lesson: its step, token, layer and head; and its page, with the trace."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from llm_lite.core.messages import ModelInfo
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
DEFAULT_SAMPLING = (0.8, 0.95)  # temperature and top-p


def steps_of(shape: TracedShape) -> tuple[StepName, ...]:
    """Return the steps of a model: those that it has, in the order in which it takes them."""
    norm: NormPlace = "behind" if shape.norm_behind else "before"
    norm = norm if shape.norm != "none" else ""
    return _steps(shape.path, shape.positions, norm, shape.has_head)


def typical_steps(model: ModelInfo) -> tuple[StepName, ...]:
    """Return the steps of most models of this kind, while no layer has been traced."""
    if model.translates:
        return _steps("encoder_decoder", "bias", "before", True)
    if model.embeds:
        return _steps("encoder", "learned", "behind", model.fills)
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


class LessonState(Struct, frozen=True):
    """The choices of a person. `position`, `layer` and `head` are None where the lesson chooses.
    `temperature` is one of TEMPERATURES. `draws` counts tokens that were drawn."""

    shown: bool = False
    can_return: bool = False  # the lesson was left for another view
    step: int = 0
    position: int | None = None
    layer: int | None = None
    head: int | None = None
    shows_why: bool = False
    scaled: bool = True  # whether softmax is shown with the scale
    temperature: float = DEFAULT_SAMPLING[0]
    top_p: float = DEFAULT_SAMPLING[1]
    draws: int = 0
    sentence_chat: int | None = None  # the chat that the lesson began with a sentence
    typing: bool = False  # the field for a sentence is shown
    compared_text: str = ""  # a text whose vector is compared with an encoder's
    position_of: tuple[str, ...] = ()  # the tokens up to it, as they were when it was chosen
    assumed_steps: tuple[StepName, ...] = STEPS  # until there is a trace

    def of_next_conversation(self) -> LessonState:
        """Return the state without the token of this conversation."""
        return replace(self, position=None)

    def of_next_model(self) -> LessonState:
        """Return the state without the token, layer and head of this model."""
        return replace(self, position=None, layer=None, head=None, can_return=False)

    def page(self) -> LessonPage:
        """Return its page without a trace."""
        return LessonPage(**asdict(self))

    def fit(self, model: ModelInfo) -> LessonState:
        """Return the state for another model, with its typical steps until there is a trace."""
        return replace(self, assumed_steps=typical_steps(model))


class LessonPage(LessonState, frozen=True):
    """The lesson as it is drawn, with the trace of the token that is in front."""

    trace: TokenTrace | None = None
    token_texts: tuple[str, ...] = ()  # of the trace's tokens
    problem: str = ""  # why there is no trace

    @property
    def steps(self) -> tuple[StepName, ...]:
        return steps_of(self.trace.shape) if self.trace else self.assumed_steps

    @property
    def step_name(self) -> StepName:
        return self.steps[min(self.step, len(self.steps) - 1)]

    def at_step(self, step: int) -> LessonPage:
        return replace(self, step=max(0, min(step, len(self.steps) - 1)))

    def step_number(self, name: StepName) -> int:
        """Return the number of the step on the screen, from 1; 0 where the model lacks it."""
        return self.steps.index(name) + 1 if name in self.steps else 0

    def with_trace(self, trace: TokenTrace, token_texts: tuple[str, ...]) -> LessonPage:
        """Return the page with a trace; the step stays, wherever it stands among those of the
        model."""
        found = replace(self, trace=trace, token_texts=token_texts)
        number = found.step_number(self.step_name)
        return found.at_step(number - 1 if self.step and number else self.step)


def nearest_temperature(wanted: float) -> float:
    """Return the nearest one of TEMPERATURES."""
    return min(TEMPERATURES, key=lambda one: abs(one - wanted))


def shown_positions(position: int, first: int, length: int) -> range:
    """Return the positions that the line of tokens shows: from `first`, where the message begins,
    at most as many as a trace has scores for; and a few that follow."""
    start = max(first, position + 1 - MOST_TOKENS)
    return range(start, min(length, max(position + 1, start + MOST_TOKENS)))
