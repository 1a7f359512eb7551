"""The formula of each step in TeX, with the loaded model's own shapes in it."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.messages.inspecting.lesson import DenseShape, TokenTrace, TracedShape
from llm_lite.desktop.features.lesson.state import LessonPage, StepName


def formula(lesson: LessonPage) -> tuple[str, ...]:
    """Return the formula of the step as lines of TeX."""
    return () if lesson.trace is None else _FORMULAS[lesson.step_name](lesson.trace)


def _integer(value: int) -> str:
    return f"{value:,}".replace(",", "{,}")


def _number(value: float) -> str:
    return f"{value:g}"


def _tokens(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    return (
        rf"x = {_scaled(s)}E_{{{trace.token}}}",
        rf"E: {_integer(s.vocabulary)} \times {_integer(s.width)}",
    )


def _scaled(shape: TracedShape) -> str:
    return "" if shape.embedding_factor == 1.0 else rf"{shape.embedding_factor:.4g} \, "


def _position(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    match s.positions:
        case "learned" | "sines":
            return _embedding_sum(trace)
        case "bias" if s.path == "decoder":
            return (rf"b_j = -m \cdot ({trace.position} - j)", rf"j = 0, \ldots, {trace.position}")
        case "bias":
            return (rf"b_j = B_{{{trace.head}}}[\,j - {trace.position}\,]",)
    return (
        rf"\varphi_i = {trace.position} \cdot {_number(s.theta)}^{{-2i/{s.rotary_dim}}}",
        rf"i = 0, \ldots, {s.rotary_dim // 2 - 1}",
    )


def _embedding_sum(trace: TokenTrace) -> tuple[str, ...]:
    """Return the sum of the rows that the first layer is given."""
    s, segment, table = trace.shape, "", ""
    if s.segments:
        segment, table = "S_{s} + ", rf", \quad S: {s.segments} \times {_integer(s.width)}"
    whole = rf"{_scaled(s)}E_{{{trace.token}}} + {segment}P_{{{trace.position}}}"
    if s.embedding_norm:
        whole = rf"\mathrm{{norm}}({whole})"
    return (f"x = {whole}", rf"P: {_integer(s.places)} \times {_integer(s.width)}{table}")


def _norm(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    if s.norm_behind:
        return (r"y = x + a", r"x_i \leftarrow \frac{y_i - \mu}{\sigma} \, w_i + b_i")
    if s.norm == "layer":
        return (r"h_i = \frac{x_i - \mu}{\sigma} \, w_i + b_i", rf"i = 1, \ldots, {s.width}")
    root = rf"\sqrt{{\frac{{1}}{{{s.width}}} \sum_j x_j^2}}"
    return (rf"h_i = \frac{{x_i}}{{{root}}} \, w_i",)


def _queries(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    return (r"q = W_q h, \quad k = W_k h, \quad v = W_v h", rf"W_q: {s.head_dim} \times {s.width}")


def _scores(trace: TokenTrace) -> tuple[str, ...]:
    return (rf"s_j = q \cdot k_j = \sum_{{i=1}}^{{{trace.shape.head_dim}}} q_i \, k_{{j,i}}",)


def _softmax(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    usual = abs(s.scale * s.head_dim**0.5 - 1.0) < 1e-4
    scale = rf"\frac{{1}}{{\sqrt{{{s.head_dim}}}}}" if usual else f"{s.scale:.4g}"
    scale = "" if s.scale == 1.0 else rf"{scale} \, "
    z = rf"z_j = {scale}s_j" + (" + b_j" if s.positions == "bias" else "")
    if s.softcap:
        cap = _number(s.softcap)
        z = rf"z_j = {cap} \tanh \frac{{{scale}s_j}}{{{cap}}}"
    return (z, rf"a_j = \frac{{e^{{z_j}}}}{{\sum_{{m=0}}^{{{_last_visible(trace)}}} e^{{z_m}}}}")


def _values(trace: TokenTrace) -> tuple[str, ...]:
    return (rf"o = \sum_{{j=0}}^{{{_last_visible(trace)}}} a_j \, v_j",)


def _last_visible(trace: TokenTrace) -> int:
    """Return the last position that the token sees."""
    head = trace.opened.head
    return trace.position if trace.shape.causal else len(head.scores) + head.others - 1


def _output(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    found = rf"[o_0, \ldots, o_{{{s.heads - 1}}}]"
    gated = rf"\left( g \odot {found} \right)" if s.output_gate else found
    return (
        _residual_sum(s, rf"W_o \, {gated}"),
        rf"W_o: {s.width} \times {s.heads * s.head_dim}",
    )


def _residual_sum(shape: TracedShape, what: str) -> str:
    """Return the sum of the residual and what a part of the layer adds."""
    factor = "" if shape.residual_factor == 1.0 else rf"{shape.residual_factor:.4g} \, "
    if shape.post_norm:
        what = rf"\mathrm{{norm}}({what})"
    return rf"x \leftarrow x + {factor}{what}"


_ACTIVATIONS = {
    "silu": r"\mathrm{SiLU}", "gelu": r"\mathrm{GELU}", "relu": r"\mathrm{ReLU}",
}  # fmt: skip


def _neurons(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    act = _ACTIVATIONS[s.curve]
    inner = rf"{act}(W_u h)"
    if s.gate != "none":
        inner = rf"{act}(W_g h) \odot W_u h"
    return (
        _residual_sum(s, rf"W_d \left( {inner} \right)"),
        rf"W_u: {_integer(s.feed_forward)} \times {_integer(s.width)}",
    )


def _residual(trace: TokenTrace) -> tuple[str, ...]:
    count, attention, network = trace.shape.layers, r"\mathrm{att}_l", r"\mathrm{ff}_l"
    if trace.shape.norm_behind:
        arrow = r"x \leftarrow \mathrm{norm}"
        return (f"{arrow}(x + {attention})", f"{arrow}(x + {network})")
    parts: tuple[str, ...] = (attention, r"\mathrm{cross}_l", network)
    if trace.shape.path != "encoder_decoder":
        parts = (attention, network)
    whole = " + ".join(parts)
    return (rf"x_{{{count}}} = x_0 + \sum_{{l=0}}^{{{count - 1}}} ({whole})",)


def _sampling(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    cap = rf" \quad |z_i| \leq {_number(s.logit_cap)}" if s.logit_cap else ""
    whole = r"\sum_m e^{z_m / T}"
    return (rf"p_i = \frac{{e^{{z_i / T}}}}{{{whole}}}{cap}",)


def _cache(trace: TokenTrace) -> tuple[str, ...]:
    s = trace.shape
    whole = _integer(s.cache_values)
    if s.cache_layers * 2 * s.kv_heads * s.head_dim != s.cache_values:
        return (rf"n = {whole}",)  # layers differ
    return (rf"n = {s.cache_layers} \cdot 2 \cdot {s.kv_heads} \cdot {s.head_dim} = {whole}",)


def _likely(trace: TokenTrace) -> tuple[str, ...]:
    whole = rf"\sum_{{m=1}}^{{{_integer(trace.shape.vocabulary)}}} e^{{z_m}}"
    return (rf"p_i = \frac{{e^{{z_i}}}}{{{whole}}}",)


def _choosing(trace: TokenTrace) -> tuple[str, ...]:
    return (*_likely(trace), r"S \leftarrow S + \log p_i")


def _source(trace: TokenTrace) -> tuple[str, ...]:
    return (rf"h_j, \quad j = 0, \ldots, {len(trace.source) - 1}",)


def _cross(trace: TokenTrace) -> tuple[str, ...]:
    cross, s = trace.opened.cross, trace.shape
    last = len(trace.source) - 1 + (cross.head.others if cross is not None else 0)
    scale = "" if s.scale == 1.0 else rf"\, / \sqrt{{{s.head_dim}}}"
    weights = rf"a_j = \mathrm{{softmax}}(q \cdot k_j {scale})"
    return (weights, rf"o = \sum_{{j=0}}^{{{last}}} a_j \, v_j")


def _pooling(trace: TokenTrace) -> tuple[str, ...]:
    found = trace.pooled
    if found is None:
        return ()
    ways = {
        "mean": rf"\frac{{1}}{{{found.count}}} \sum_{{j=1}}^{{{found.count}}} x_j",
        "cls": "x_1",
        "last": f"x_{{{found.count}}}",
        "max": r"\max_j x_j",
        "mean_sqrt_len": rf"\frac{{1}}{{\sqrt{{{found.count}}}}} \sum_j x_j",
        "weighted_mean": r"\frac{\sum_j j \, x_j}{\sum_j j}",
    }
    parts = ", ".join(ways[name] for name in found.names)
    whole = f"[{parts}]" if len(found.names) > 1 else parts
    lines = [f"e = {whole}", *(line for layer in found.dense for line in _dense(layer))]
    if found.normalized:  # both vectors are of length 1 then
        return (*lines, r"e \leftarrow \frac{e}{|e|}", r"\cos = e \cdot e'")
    return (*lines, r"\cos = \frac{e \cdot e'}{|e| \, |e'|}")


def _dense(layer: DenseShape) -> tuple[str, str]:
    inner = "W e + b" if layer.has_bias else "W e"
    inner = rf"\tanh({inner})" if layer.is_tanh else inner
    return rf"e \leftarrow {inner}", rf"W: {_integer(layer.rows)} \times {_integer(layer.columns)}"


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
    "source": _source,
    "cross": _cross,
    "choosing": _choosing,
    "filling": _likely,
    "pooling": _pooling,
    "summary": lambda trace: (),
}
