"""Conversations for tests, and what histories say of themselves."""

import time

from llm_lite.core.history import AnswerEnd, AnswerRun, History, HistoryEvent, ModelIdentity
from llm_lite.core.messages import GenerationStats, SamplingOptions
from llm_lite.core.messages.interventions import Interventions, Scale, Shift
from llm_lite.core.messages.runs import InterventionSwitch
from tests.children import PATIENCE

RUN = AnswerRun(
    ModelIdentity("tiny", "/models/tiny.gguf", 1234, 5.5, "abc"),
    "int4",
    "a8",
    "fp16",
    "int8",
    "cpu",
    "some processor",
    4,
    SamplingOptions(seed=7),
    interventions=Interventions((Shift("logits", (1.0, -2.5)), Scale("embedding", 0.5, 3)), "tiny"),
    intervention_switches=(
        InterventionSwitch(2, Interventions((Scale("embedding", 0.0, 3),))),
        InterventionSwitch(3),
    ),
)
END = AnswerEnd("length", GenerationStats(10, 4, 3, 100.0, 20.5, 1.5, 17, 1 << 20, 5), "", 2.5)


def add_talk(history: History, *turns: str, title: str = "") -> int:
    """Questions and answers in turns."""
    talk = history.begin(title=title).id
    parent = None
    for place, text in enumerate(turns):
        if place % 2 == 0:
            parent = history.add_message(talk, parent, text).id
        else:
            answer = history.begin_answer(talk, parent, RUN)
            history.finish_answer(answer, text, "", (1, 2, 3), END)
            parent = answer.id
    return talk


def told(history: History, kind: type, timeout: float = PATIENCE) -> HistoryEvent:
    """The next event of a kind, which must come."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        for event in history.poll():
            if isinstance(event, kind):
                return event
        time.sleep(0.01)
    raise AssertionError(f"no {kind.__name__} came")
