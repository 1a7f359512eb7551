"""Records of questions to the engine: the question, what it is about, and its answer."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from llm_lite.core.messages import Command, ExecutorInfo, Interventions
from llm_lite.desktop.features.program.cached_text import ComputedRuns, Spans


class Stamp(Struct, frozen=True):
    """What was in front when something was asked: an answer is true of nothing else."""

    chat: int  # as `AppState.chat`
    model: str  # path
    executor: ExecutorInfo | None  # its weight mode, precisions and backend
    interventions: Interventions
    subject: object = None  # of what is not about the cached text
    length: int = 0  # the first tokens in the cache
    runs: ComputedRuns = ()  # of these: when each was computed
    forgotten: Spans = ()


class Asked(Struct, frozen=True):
    """A question, what it was asked about, and its answer once it has come."""

    question: Command
    stamp: Stamp
    answer: Any = None
    problem: str = ""  # a sentence where there is no answer


class Exchange(Struct, frozen=True):
    """The question that waits for its answer, and the last one that has it."""

    waiting: Asked | None = None
    answered: Asked | None = None
