"""Qwen3.5 (dense), and 3.6 and 3.8 of its kind: of four layers three have a recurrent state by the
gated delta rule (https://arxiv.org/abs/2412.06464), and one attends, with a gate on what it finds.

GGUF files have the value heads of a state in another order than checkpoints: those that share a key
head are not neighbours. Of a multimodal checkpoint this is the text model; its positions are then
the same in all three directions, as in any text.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.blocks import (
    Decoder,
    cached_attention,
    decoder_plan,
    gated_block,
    recurrent_state,
    rotate,
)
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    flag,
    flags,
    integer,
    row,
)
from llm_lite.core.models.description.tensors import NameRow, negated_exp, of_layer
from llm_lite.core.models.gemma3 import centred
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

MOST_TAPS = 16


def _whole_groups(value: Any, known: Known) -> int:
    count = integer()(value, known)
    if count % known["key_heads"]:
        raise UnfitError(f"a multiple of the {known['key_heads']} key heads", value)
    return count


def _whole_heads(value: Any, known: Known) -> int:
    width = integer()(value, known)
    if width % known["state_heads"]:
        raise UnfitError(f"a multiple of the {known['state_heads']} value heads", value)
    return width


def _inner(config: CheckpointConfig, known: Known) -> int:
    return config.integer("linear_value_head_dim", 128) * known["state_heads"]


def _have_states(value: Any, known: Known) -> tuple[bool, ...]:
    """Return for each layer whether it has a state. GGUF files say that every so many layers one
    attends, what was made of a checkpoint says it of each layer."""
    if not isinstance(value, int) or isinstance(value, bool):
        return flags(value, known)
    interval = integer()(value, known)
    return tuple((i + 1) % interval != 0 for i in range(known["layers"]))


def _three_in_four(known: Known) -> tuple[bool, ...]:
    return _have_states(4, known)


def _recurrent(config: CheckpointConfig, known: Known) -> list[bool] | int | None:
    """Return for each layer whether it has a state, or how often one attends."""
    recurrent = shared.layers_of_kind(config, known, "linear_attention", "full_attention")
    return config.integer("full_attention_interval", 4) if recurrent is None else recurrent


class Qwen35Config(shared.DecoderConfig, frozen=True, kw_only=True):
    """key_heads, key_dim: of queries and keys of a state; state_heads: heads of values, each with a
    state of its own; inner: the width of all of these. taps: of the convolution before."""

    window: int = row(replace(shared.WINDOW, checkpoint=None))
    sliding: tuple[bool, ...] = row(replace(shared.SLIDING, checkpoint=None))
    taps: int = row(
        FieldRow("ssm.conv_kernel", "linear_conv_kernel_dim", integer(2, MOST_TAPS), assumed=4)
    )
    key_dim: int = row(FieldRow("ssm.state_size", "linear_key_head_dim", integer(), assumed=128))
    key_heads: int = row(FieldRow("ssm.group_count", "linear_num_key_heads", integer(), assumed=16))
    state_heads: int = row(
        FieldRow("ssm.time_step_rank", "linear_num_value_heads", _whole_groups, assumed=32)
    )
    inner: int = row(FieldRow("ssm.inner_size", _inner, _whole_heads))
    tiled: bool = row(FieldRow("ssm.tiled", None, flag, default=True, assumed=False))
    recurrent: tuple[bool, ...] = row(
        FieldRow("full_attention_interval", _recurrent, _have_states, default=_three_in_four)
    )

    @property
    def gated_width(self) -> int:
        """Return the width of queries and their gates."""
        return 2 * self.q_width

    @property
    def state_dim(self) -> int:
        """Return the columns of a head's state, as wide as a value."""
        return self.inner // self.state_heads

    @property
    def mixed(self) -> int:
        """Return the width of queries, keys and values of states."""
        return 2 * self.key_heads * self.key_dim + self.inner

    @property
    def all_taps(self) -> int:
        return self.mixed * self.taps

    @property
    def shape(self) -> ModelShape:
        layers = tuple(i for i, has_state in enumerate(self.recurrent) if has_state)
        each = (self.taps - 1) * self.mixed + self.inner * self.key_dim
        return replace(super().shape, recurrent_layers=layers, state_bytes=4 * each * len(layers))


def _layer(d: Decoder[Qwen35Config], x: Tensor, layer: int) -> Tensor:
    block = _state_block if d.config.recurrent[layer] else _attention_block
    return gated_block(d, block(d, x, layer), layer, pre_norm="post_attention_norm")


def _attention_block(d: Decoder[Qwen35Config], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: heads of queries have their gates beside them."""
    at, w, c, b = f"layers.{layer}.attention", f"blk.{layer}.", d.config, d.b
    h = d.norm(x, w + "attn_norm", at + ".norm")
    both = d.linear(h, w + "attn_q", at + ".q_and_gate")
    runs = {"count": c.q_width, "run": c.head_dim, "stride": 2 * c.head_dim}
    q = b.columns(both, at + ".q", first=0, **runs)
    gate = b.columns(both, at + ".gate", first=c.head_dim, **runs)
    k, v = (d.linear(h, f"{w}attn_{one}", f"{at}.{one}") for one in "kv")
    q = d.norm(q, w + "attn_q_norm", at + ".q_norm")
    k = d.norm(k, w + "attn_k_norm", at + ".k_norm")
    q, k = rotate(d, q, at + ".q_rope", None), rotate(d, k, at + ".k_rope", None)
    y = cached_attention(b, c.shape, d.options, q, (k, v), at, layer=layer)
    y = b.sigmoid_mul(gate, y, at + ".gated")
    return d.residual(x, d.linear(y, w + "attn_output", at + ".output"), at, 1.0)


def _state_block(d: Decoder[Qwen35Config], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: a convolution over the last tokens, and the gated delta rule."""
    at, w, c, b = f"layers.{layer}.state", f"blk.{layer}.", d.config, d.b
    h = d.norm(x, w + "attn_norm", at + ".norm")
    qkv = d.linear(h, w + "attn_qkv", at + ".qkv")
    z = d.linear(h, w + "attn_gate", at + ".gate")
    decay, beta = (d.linear(h, f"{w}ssm_{one}", f"{at}.{one}") for one in ("alpha", "beta"))
    before = recurrent_state(b, d.options, f"conv.{layer}", c.taps - 1, c.mixed)
    qkv = b.causal_conv(qkv, b.weight(w + "ssm_conv1d.weight"), before, at + ".conv")
    y = b.delta_rule(
        b.silu(qkv, at + ".silu"),
        decay,
        beta,
        b.weight(w + "ssm_a"),
        b.weight(w + "ssm_dt.bias"),
        recurrent_state(b, d.options, f"delta.{layer}", c.state_heads * c.key_dim, c.state_dim),
        at + ".delta",
        key_heads=c.key_heads,
        key_dim=c.key_dim,
        tiled=c.tiled,
    )
    y = b.silu_mul(z, d.norm(y, w + "ssm_norm", at + ".value_norm"), at + ".gated")
    return d.residual(x, d.linear(y, w + "ssm_out", at + ".output"), at, 1.0)


def of_states(rows: tuple[NameRow, ...]) -> tuple[NameRow, ...]:
    """Return rows that layers with a recurrent state need."""
    return tuple(replace(one, optional=lambda c, i: not c.recurrent[i]) for one in rows)


def of_attention(rows: tuple[NameRow, ...]) -> tuple[NameRow, ...]:
    """Return rows that layers that attend need."""
    return tuple(replace(one, optional=lambda c, i: c.recurrent[i]) for one in rows)


_LINEAR = "linear_attn."
_STATE = (
    of_layer("attn_qkv.weight", _LINEAR + "in_proj_qkv.weight", "mixed", "width"),
    of_layer("attn_gate.weight", _LINEAR + "in_proj_z.weight", "inner", "width"),
    of_layer("ssm_alpha.weight", _LINEAR + "in_proj_a.weight", "state_heads", "width"),
    of_layer("ssm_beta.weight", _LINEAR + "in_proj_b.weight", "state_heads", "width"),
    replace(of_layer("ssm_conv1d.weight", _LINEAR + "conv1d.weight", "all_taps"), flat=True),
    replace(of_layer("ssm_a", _LINEAR + "A_log", "state_heads"), changed=negated_exp),
    of_layer("ssm_dt.bias", _LINEAR + "dt_bias", "state_heads"),
    of_layer("ssm_norm.weight", _LINEAR + "norm.weight", "state_dim"),
    of_layer("ssm_out.weight", _LINEAR + "out_proj.weight", "width", "inner"),
)
_ATTENTION = (
    of_layer("attn_q.weight", "self_attn.q_proj.weight", "gated_width", "width"),
    *(shared.KEY, shared.VALUE, shared.ATTENTION_OUTPUT),
    *centred((shared.QUERY_NORM, shared.KEY_NORM)),
)

QWEN3_5 = Architecture(
    title="Qwen3.5",
    gguf="qwen35",
    model_types=("qwen3_5_text", "qwen3_5"),
    config=Qwen35Config,
    tensors=(
        *centred(shared.MODEL_TENSORS),
        *shared.ROPE_TENSORS,
        *centred((shared.ATTENTION_NORM,)),
        *of_states(_STATE),
        *of_attention(_ATTENTION),
        *centred(
            (of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),)
        ),
        *shared.GATED,
    ),
    graph=partial(decoder_plan, _layer),
    drafting="nextn_predict_layers",
    defaults={"head_dim": 256, "partial_rotary_factor": 0.25},
)
