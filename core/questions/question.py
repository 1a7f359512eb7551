"""A row of the table of questions, and how the parts of an answer are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Literal, TypeVar

from msgspec import Struct

from llm_lite.core.errors import CancelledError
from llm_lite.core.messages import CommandProgress, Event, StepRequest

Answered = TypeVar("Answered")
# Where the next part may run: on the thread of the executor between two steps, or on any thread,
# as it only computes with what was copied.
Where = Literal["executor", "anywhere"]
# In the notes of a field of token ids: in Python it may be a text, or the text of a target.
TEXT = {"may_be": "text"}
TARGET = {"may_be": "target"}
# What is yielded behind a part: where the next one may run, or how far the answer is, where that is
# worth telling: then the next one runs on the thread of the executor.
Parts = Generator[Where | CommandProgress, None, Answered]


class RemoteText(Struct, frozen=True):
    """The sizes of a text that another program holds: how many tokens it has, and its source if
    there is one; and the layers and heads of the model."""

    lengths: tuple[int, ...]
    layers: int
    heads: int


class Question(Struct, frozen=True):
    """A kind of question about a sequence.

    `run(request, replay)` is a generator that returns the answer. It yields wherever it may be
    interrupted, with where its next part may run, and before each part of a long answer with how
    far it is. It raises RequestError where the model or the
    sequence cannot answer, NotFiniteError where numbers of the answer are not finite.
    """

    name: str  # of its address, /inspect/NAME, and for `llm-lite ask`
    request: type[StepRequest]
    answer: type[Event]
    run: Callable[[Any, Any], Parts[Any]]  # of a request and a `Replay`, or an `Inspected`
    subject: str  # in sentences: "the server does not tell SUBJECT"
    example: StepRequest  # about any text of a model that can answer
    present: Callable[[Any], Any] = lambda answer: answer  # the answer as Python returns it
    # How many numbers the answer has, before it is computed, of a request and a `Replay`; 0: few.
    # Raises as `run` does.
    size: Callable[[Any, Any], int] = lambda request, replay: 0
    # Raises ValueError where an answer of another program is not one to a request about a text.
    check: Callable[[Any, Any, RemoteText], None] = lambda request, answer, text: None
    of_encoders: bool = False  # an encoder's text can be asked, too
    of_pairs: bool = False  # of an encoder-decoder, the source and the target are asked together
    reads_rows: bool = False  # the queries, or the choices of experts, of every token
    newest_only: bool = False  # at most one waits: a newer request replaces it
    turn: int = 0  # of requests that wait, those of lower turns are served first
    runs_tokens: bool = False  # many tokens run again: not begun while an answer waits for its step


def where_next(part: Where | CommandProgress) -> Where:
    """Return where the next part may run, of what was yielded behind a part."""
    return "executor" if isinstance(part, CommandProgress) else part


def advance(
    parts: Parts[Answered],
    seconds: float,
    is_unwanted: Callable[[], bool] = lambda: False,
    report: Callable[[CommandProgress], None] = lambda progress: None,
) -> Answered | None:
    """Run parts for about `seconds`; return the answer, None where it is not complete yet.
    CancelledError once `is_unwanted` is true. `report` is called with how far it is."""
    until = time.perf_counter() + seconds
    while True:
        if is_unwanted():
            raise CancelledError("nobody waits for it any more")
        try:
            part = next(parts)
        except StopIteration as finished:
            answer: Answered = finished.value
            return answer
        if isinstance(part, CommandProgress):
            report(part)
        if time.perf_counter() >= until:
            return None


def answer_of(parts: Parts[Answered]) -> Answered:
    """Run all parts and return the answer."""
    while True:
        try:
            next(parts)
        except StopIteration as finished:
            answer: Answered = finished.value
            return answer
