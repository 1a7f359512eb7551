"""The way in which a model in Python reads a text, and is asked about it then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.inspect.text_maps import Prefills
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.questions.question import Question
from llm_lite.core.questions.replay import Inspected
from llm_lite.core.questions.runner_replay import replay_of


class Reading(Struct, frozen=True):
    """`session.prefill` reads a text; then `source` has its queries and keys, and `replay` returns
    the sequence for a question. RequestError where the model cannot answer such questions."""

    source: AttentionSource
    session: Prefills
    replay: Callable[[Question], Inspected]

    @classmethod
    def of(cls, runner: AnyRunner) -> Reading:
        return cls(runner.attention, runner.session, partial(_replay, runner))


def _replay(runner: AnyRunner, question: Question) -> Inspected:
    return replay_of(question, runner)
