"""Numbers of the steps that only encoders and encoder-decoders have."""

from __future__ import annotations

import math

from llm_lite.core.messages.inspecting.lesson import TokenTrace
from llm_lite.desktop.state.lesson.lesson_state import LessonState
from llm_lite.desktop.state.lesson.number import LISTED, Found, Number, share_number, vector_numbers
from llm_lite.desktop.state.lesson.sampled import token_shares

_AS_TRAINED = 1.0  # the temperature


def source(trace: TokenTrace, lesson: LessonState) -> Found:
    for token in trace.source:
        yield Number(("source_id", token.position), token.id, "{:.0f}")
        yield Number(("hidden", token.position), token.hidden.rms, "{:.3f}")


def cross(trace: TokenTrace, lesson: LessonState) -> Found:
    found = trace.opened.cross
    if found is None:
        return
    yield from vector_numbers("cross_query", found.head.query)
    for score in found.head.scores:
        yield Number(("cross_score", score.position), score.score, "{:+.2f}")
        yield share_number(("cross_probability", score.position), score.probability)
    yield share_number(("cross_others",), found.head.others_probability)
    yield from vector_numbers("cross_output", found.head.output)
    yield from vector_numbers("cross_attended", found.attended)


def _listed(trace: TokenTrace) -> Found:
    shares = token_shares(trace.distribution, _AS_TRAINED)
    for token, share in zip(trace.distribution.top[:LISTED], shares, strict=False):
        yield Number(("logit", token.id), token.logit, "{:.2f}")
        yield share_number(("likely", token.id), share)


def likeliest(trace: TokenTrace) -> Number:
    share = token_shares(trace.distribution, _AS_TRAINED)[0]
    return share_number(("likely", trace.distribution.top[0].id), share)


def choosing(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from _listed(trace)
    shares = token_shares(trace.distribution, _AS_TRAINED)
    for token, share in zip(trace.distribution.top[:LISTED], shares, strict=False):
        yield Number(("log_likely", token.id), math.log(max(share, 1e-300)), "{:.2f}")


def filling(trace: TokenTrace, lesson: LessonState) -> Found:
    yield from _listed(trace)
    if trace.distribution.went_on is not None:
        yield Number(("rank",), trace.distribution.rank, "{:,.0f}")


def pooling(trace: TokenTrace, lesson: LessonState) -> Found:
    found = trace.pooled
    if found is None:
        return
    yield Number(("pooled_tokens",), found.count, "{:,.0f}")
    yield Number(("pooled_length",), found.length, "{:.3f}")
    yield from vector_numbers("vector", found.vector)
    if found.beside is not None:
        yield Number(("similarity",), found.similarity, "{:.3f}")
