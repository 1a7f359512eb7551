"""The table of questions. Another one is a file beside this, and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import Command, CompareTexts, EncodeText
from llm_lite.core.questions.activations import ACTIVATIONS
from llm_lite.core.questions.attention import ATTENTION
from llm_lite.core.questions.effect import EFFECT
from llm_lite.core.questions.lens import LENS
from llm_lite.core.questions.likelihood import LIKELIHOOD
from llm_lite.core.questions.patch import PATCH
from llm_lite.core.questions.question import Question
from llm_lite.core.questions.routing import ROUTING
from llm_lite.core.questions.rows import ROWS
from llm_lite.core.questions.scores import SCORES
from llm_lite.core.questions.states import STATES
from llm_lite.core.questions.statistics import STATISTICS
from llm_lite.core.questions.trace import TRACE

QUESTIONS = (
    ACTIVATIONS,
    LENS,
    ATTENTION,
    ROWS,
    STATISTICS,
    ROUTING,
    STATES,
    SCORES,
    LIKELIHOOD,
    EFFECT,
    PATCH,
    TRACE,
)
BY_REQUEST: Mapping[type[Command], Question] = MappingProxyType(
    {one.request: one for one in QUESTIONS}
)
# At most one of each kind waits: a newer request replaces it.
NEWEST_ONLY: tuple[type[Command], ...] = (
    *(one.request for one in QUESTIONS if one.newest_only),
    EncodeText,
    CompareTexts,
)
BY_NAME: Mapping[str, Question] = MappingProxyType({one.name: one for one in QUESTIONS})


def named(name: str) -> Question:
    """Return the question of this name. RequestError where there is none."""
    if name not in BY_NAME:
        raise RequestError(f"question: expected {', '.join(BY_NAME)}, found {name!r}")
    return BY_NAME[name]
