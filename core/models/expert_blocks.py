"""Feed-forwards of several experts: a router chooses some of them for each token."""

from __future__ import annotations

from typing import TypeVar

from llm_lite.core.models.blocks import Decoder, expert_switches, keep_choices
from llm_lite.core.models.description.experts import Experts
from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.plan import Tensor

_C = TypeVar("_C", bound=Experts)


def expert_block(
    d: Decoder[_C],
    x: Tensor,
    layer: int,
    *,
    pre_norm: str = "ffn_norm",
    late: bool = False,
    sigmoid: bool = False,
    share: float = 1.0,
    clamp: tuple[float, float] | None = None,
    factor: float = 1.0,
) -> Tensor:
    """[T, width] -> [T, width]: x + factor * `mixture` of norm(x), and of what a shared expert
    finds if there is one. The norm by the stem of its weights."""
    at, w, b = f"layers.{layer}.feed_forward", f"blk.{layer}.", d.b
    h = d.norm(x, w + pre_norm, at + ".norm")
    logits = router_logits(b, h, w, at)
    y = mixture(d, h, logits, layer, late=late, sigmoid=sigmoid, share=share, clamp=clamp)
    if b.has(w + "ffn_up_shexp.weight"):
        y = b.add(y, _shared_expert(d, h, layer), at + ".sum.shared")
    return d.residual(x, y, at, factor)


def router_logits(b: PlanBuilder, h: Tensor, w: str, at: str) -> Tensor:
    """[T, width] -> [T, experts], of floats in every case: int8 would change who is chosen. `w`:
    what the names of the layer's weights begin with."""
    stem, label = w + "ffn_gate_inp", at + ".router"
    logits = b.matmul(h, b.weight(f"{stem}.weight"), label, float_inputs=True)
    if not b.has(f"{stem}.bias"):
        return logits
    return b.add_bias(logits, b.weight(f"{stem}.bias"), label + ".biased")


def mixture(
    d: Decoder[_C],
    h: Tensor,
    logits: Tensor,
    layer: int,
    *,
    late: bool = False,
    sigmoid: bool = False,
    share: float = 1.0,
    gains: Tensor | None = None,
    gelu: bool = False,
    clamp: tuple[float, float] | None = None,
) -> Tensor:
    """[T, width], logits [T, experts] -> [T, width]: the sum of share * expert(h) over the chosen
    experts, each down(act(gate) * up) (Shazeer et al. 2017, https://arxiv.org/abs/1701.06538), with
    biases where there are some. `late`: shares are of the chosen experts' logits alone; `sigmoid`:
    each of its own logit; times `share`, and `gains` [experts]. `gelu`: gates by GELU; `clamp`:
    alpha and limit of a `clamped_silu_mul`; else by SiLU."""
    b, c = d.b, d.config
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    bias = w + "exp_probs_b.bias"
    experts, shares = b.route(
        logits,
        at + ".route",
        count=c.chosen,
        bias=b.weight(bias) if b.has(bias) else None,
        gains=gains,
        switches=expert_switches(d, c.experts),
        layer=layer,
        sigmoid=sigmoid,
        late=late,
        normalized=c.normalized,
        factor=share,
    )
    keep_choices(d, experts, shares, layer)
    places, starts = b.expert_places(experts, at + ".places", count=c.experts)

    def product(of: Tensor, name: str) -> Tensor:
        stem, label = f"{w}ffn_{name}_exps", f"{at}.{name}"
        y = b.expert_matmul(of, b.weight(f"{stem}.weight"), starts, label)
        if not b.has(f"{stem}.bias"):
            return y
        return b.expert_bias(y, b.weight(f"{stem}.bias"), starts, label + ".biased")

    def of_rows(name: str) -> Tensor:
        weight = b.weight(f"{w}ffn_{name}_exps.weight")
        return product(b.expert_rows(h, places, weight, at + ".rows"), name)

    if b.has(w + "ffn_gate_up_exps.weight"):
        both, n = of_rows("gate_up"), c.expert_width
        gate = b.columns(both, at + ".gate", first=0, count=n)
        up = b.columns(both, at + ".up", first=n, count=n)
    else:
        gate, up = of_rows("gate"), of_rows("up")
    if clamp is not None:
        alpha, limit = clamp
        y = b.clamped_silu_mul(gate, up, at + ".clamped_silu_mul", alpha=alpha, limit=limit)
    elif gelu:
        y = b.gelu_mul(gate, up, at + ".gelu_mul")
    else:
        y = b.silu_mul(gate, up, at + ".silu_mul")
    return b.expert_sum(product(y, "down"), places, shares, at + ".sum")


def _shared_expert(d: Decoder[_C], h: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: what an expert finds that every token passes."""
    at, w, b = f"layers.{layer}.feed_forward.shared", f"blk.{layer}.ffn_", d.b
    gate, up = (d.linear(h, f"{w}{one}_shexp", f"{at}.{one}") for one in ("gate", "up"))
    y = d.linear(b.silu_mul(gate, up, at + ".silu_mul"), w + "down_shexp", at + ".down")
    if not b.has(w + "gate_inp_shexp.weight"):
        return y
    return b.token_gate(y, h, b.weight(w + "gate_inp_shexp.weight"), at + ".gated")
