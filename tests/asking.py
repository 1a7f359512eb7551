"""Questions of core/questions/table.py about what a session or a loaded model holds."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.inspect.text_maps import LayerScores
from llm_lite.core.messages import ReadEffect, StepRequest
from llm_lite.core.questions.attention import ReadAttention
from llm_lite.core.questions.effect import logits_after
from llm_lite.core.questions.lens import layer_logits
from llm_lite.core.questions.question import answer_of
from llm_lite.core.questions.runner_replay import replay_of
from llm_lite.core.questions.session_replay import SessionReplay
from llm_lite.core.questions.table import BY_REQUEST


def parts_of(request: StepRequest, runner: Any) -> Any:
    """The parts of an answer, of what a loaded model holds; for `advance`."""
    question = BY_REQUEST[type(request)]
    return question.run(request, replay_of(question, runner))


def asked(request: StepRequest, runner: Any) -> Any:
    """The answer, of what a loaded model holds."""
    return answer_of(parts_of(request, runner))


def replay(session: Any) -> SessionReplay:
    source = AttentionSource(session.executor, session)
    return SessionReplay(session, source, MappingProxyType({}))


def layer_scores(source: Any, layer: int) -> Any:
    """By name the scores of a layer's heads, [heads]."""
    scores = LayerScores(source, layer)
    for part in scores.parts:
        scores.add(part)
    return scores.means()


def lens(session: Any, position: int) -> list[tuple[int, Any]]:
    """(layer, logits) behind every layer."""
    return list(enumerate(answer_of(layer_logits(position, replay(session)))))


def logits_at(session: Any, position: int, *, plain: bool = False) -> Any:
    return answer_of(logits_after(position, replay(session), plain=plain))


def effect(session: Any) -> float:
    return float(answer_of(BY_REQUEST[ReadEffect].run(ReadEffect(), replay(session))).kl)


def served_maps(service: Any, response: str, layer: int, heads: Any, first: int, last: int) -> Any:
    """Rows of the maps of heads of a response, as a service tells them."""
    return service.ask(response, ReadAttention(layer, tuple(heads), first, last)).attention
