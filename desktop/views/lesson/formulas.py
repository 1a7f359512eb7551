"""The formula of each step in TeX, with the loaded model's own shapes in it."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.messages.inspecting.lesson import TokenTrace, TracedShape
from llm_lite.desktop.state.lesson.lesson_state import LessonState, StepName


def formula(lesson: LessonState) -> tuple[str, ...]:
    """Lines of TeX."""
    return () if lesson.trace is None else _FORMULAS[lesson.name](lesson.trace)


def _count(value: int) -> str:
    return f"{value:,}".replace(",", "{,}")


def _plain(value: float) -> str:
    return f"{value:g}"


def _tokens(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    return (
        rf"x = {_scaled(s)}E_{{{trace.token}}}",
        rf"E: {_count(s.vocabulary)} \times {_count(s.width)}",
    )


def _scaled(shape: TracedShape) -> str:
    return "" if shape.embedding_factor == 1.0 else rf"{shape.embedding_factor:.4g} \, "


def _position(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    if s.positions == "learned":
        return (
            rf"x = {_scaled(s)}E_{{{trace.token}}} + P_{{{trace.position}}}",
            rf"P: {_count(s.places)} \times {_count(s.width)}",
        )
    if s.positions == "none":
        return ()
    return (
        rf"\varphi_i = {trace.position} \cdot {_plain(s.theta)}^{{-2i/{s.rotary_dim}}}",
        rf"i = 0, \ldots, {s.rotary_dim // 2 - 1}",
    )


def _norm(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    if s.norm == "none":
        return ("h = x",)
    if s.norm == "layer":
        return (r"h_i = \frac{x_i - \mu}{\sigma} \, w_i + b_i", rf"i = 1, \ldots, {s.width}")
    root = rf"\sqrt{{\frac{{1}}{{{s.width}}} \sum_j x_j^2}}"
    return (rf"h_i = \frac{{x_i}}{{{root}}} \, w_i",)


def _queries(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    return (
        r"q = W_q h, \quad k = W_k h, \quad v = W_v h",
        rf"W_q: {s.head_dim} \times {s.width}",
    )


def _scores(trace: TokenTrace) -> tuple[str, ...]:
    return (rf"s_j = q \cdot k_j = \sum_{{i=1}}^{{{trace.shape.head_dim}}} q_i \, k_{{j,i}}",)


def _softmax(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    usual = abs(s.scale * s.head_dim**0.5 - 1.0) < 1e-4
    scale = rf"\frac{{1}}{{\sqrt{{{s.head_dim}}}}}" if usual else f"{s.scale:.4g}"
    z = rf"z_j = {scale} \, s_j"
    if s.softcap:
        cap = _plain(s.softcap)
        z = rf"z_j = {cap} \tanh \frac{{{scale} \, s_j}}{{{cap}}}"
    return (z, rf"a_j = \frac{{e^{{z_j}}}}{{\sum_{{m=0}}^{{{trace.position}}} e^{{z_m}}}}")


def _values(trace: TokenTrace) -> tuple[str, ...]:
    return (rf"o = \sum_{{j=0}}^{{{trace.position}}} a_j \, v_j",)


def _output(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    return (
        _added(s, rf"W_o \, [o_1, \ldots, o_{{{s.heads}}}]"),
        rf"W_o: {s.width} \times {s.heads * s.head_dim}",
    )


def _added(shape: TracedShape, what: str) -> str:
    """The residual with what a part of the layer adds."""
    factor = "" if shape.residual_factor == 1.0 else rf"{shape.residual_factor:.4g} \, "
    if shape.post_norm:
        what = rf"\mathrm{{norm}}({what})"
    return rf"x \leftarrow x + {factor}{what}"


_ACTIVATIONS = {"silu": r"\mathrm{SiLU}", "gelu": r"\mathrm{GELU}", "none": r"\mathrm{GELU}"}


def _neurons(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    act = _ACTIVATIONS[s.gate]
    inner = rf"{act}(W_u h)"
    if s.gate != "none":
        inner = rf"{act}(W_g h) \odot W_u h"
    return (
        _added(s, rf"W_d \left( {inner} \right)"),
        rf"W_u: {_count(s.feed_forward)} \times {_count(s.width)}",
    )


def _residual(trace: TokenTrace) -> tuple[str, ...]:
    count = trace.shape.layers
    return (rf"x_{{{count}}} = x_0 + \sum_{{l=0}}^{{{count - 1}}} (a_l + f_l)",)


def _sampling(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    cap = rf" \quad |z_i| \leq {_plain(s.logit_cap)}" if s.logit_cap else ""
    whole = rf"\sum_{{m=1}}^{{{_count(s.vocabulary)}}} e^{{z_m / T}}"
    return (rf"p_i = \frac{{e^{{z_i / T}}}}{{{whole}}}{cap}",)


def _cache(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    whole = _count(s.cache_values)
    if s.cache_layers * 2 * s.kv_heads * s.head_dim != s.cache_values:
        return (rf"n = {whole}",)  # layers differ
    return (rf"n = {s.cache_layers} \cdot 2 \cdot {s.kv_heads} \cdot {s.head_dim} = {whole}",)


_FORMULAS: dict[StepName, Callable[[TokenTrace], tuple[str, ...]]] = {
    "tokens": _tokens,
    "position": _position,
    "norm": _norm,
    "queries": _queries,
    "scores": _scores,
    "softmax": _softmax,
    "values": _values,
    "output": _output,
    "neurons": _neurons,
    "residual": _residual,
    "sampling": _sampling,
    "cache": _cache,
}
