"""Qwen3.5 (dense), and 3.6 and 3.8 of its kind: of four layers three have a recurrent state by the
gated delta rule (https://arxiv.org/abs/2412.06464), and one attends, with a gate on what it finds.

GGUF files have the value heads of a state in another order than checkpoints: those that share a key
head are not neighbours. Of a multimodal checkpoint this is the text model; its positions are then
the same in all three directions, as in any text.

Behind the layers there may be a block that drafts the token after the next (multi-token prediction,
https://arxiv.org/abs/2412.19437, section 2.2). It attends to rows of its own, each made of a token
and of what the layers made of the token before it. Steps of the model leave its keys and values;
sliced steps run it, at first behind the model's last hidden state and then behind its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.blocks import (
    Decoder,
    cached_attention,
    decoder_plan,
    gated_block,
    recurrent_state,
    rotate,
    store_for_drafts,
    through_head,
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
from llm_lite.core.models.description.tensors import NameRow, negated_exp, of_layer, of_model
from llm_lite.core.models.gemma3 import centred
from llm_lite.core.models.model import BuildOptions, ModelShape
from llm_lite.core.plan.attention_layers import DRAFT
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import replace

MOST_TAPS = 16
_BLOCK = f"blk.{DRAFT}."  # begins the names of the weights of the block that drafts
_JOINED, _PREVIOUS = _BLOCK + "eh_proj.weight", MADE + "previous"


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
        states = flags(value, known)
    else:
        interval = integer()(value, known)
        states = tuple((i + 1) % interval != 0 for i in range(known["layers"]))
    if all(states):
        raise UnfitError(f"one of the {known['layers']} layers or more that attends", value)
    return states


def _three_in_four(known: Known) -> tuple[bool, ...]:
    return _have_states(4, known)


def _recurrent(config: CheckpointConfig, known: Known) -> list[bool] | int | None:
    """Return for each layer whether it has a state, or how often one attends."""
    recurrent = shared.layers_of_kind(config, known, "linear_attention", "full_attention")
    if recurrent is not None and all(recurrent):
        expected = f"one of the {known['layers']} layers or more that attends"
        raise config.error("layer_types", expected, config.get("layer_types"))
    return config.integer("full_attention_interval", 4) if recurrent is None else recurrent


class Qwen35Config(shared.DecoderConfig, frozen=True, kw_only=True):
    """key_heads, key_dim: of queries and keys of a state; state_heads: heads of values, each with a
    state of its own; inner: the width of all of these. taps: of the convolution before. drafts:
    whether there is a block that drafts."""

    drafts: bool

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

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        return {**super().of_tensors(known, weights, path), "drafts": _JOINED in weights}

    @property
    def both_widths(self) -> int:
        """Return the width of a token's embedding and of the hidden state before it."""
        return 2 * self.width

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
        hidden = self.width if self.drafts else 0
        return replace(
            super().shape,
            recurrent_layers=layers,
            state_bytes=4 * (each * len(layers) + hidden),
            draft_block=self.drafts,
        )


def mixer(d: Decoder[Any], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: the part of a layer that sees other tokens."""
    return (_state_block if d.config.recurrent[layer] else _attention_block)(d, x, layer)


def _layer(d: Decoder[Qwen35Config], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, mixer(d, x, layer), layer, pre_norm="post_attention_norm")


def _attention_block(d: Decoder[Qwen35Config], x: Tensor, layer: int | str) -> Tensor:
    """[T, width] -> [T, width]: heads of queries have their gates beside them. The block that
    drafts, DRAFT, has no row of gains, and reads one that weighs nothing."""
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
    number, first = (layer, 0) if isinstance(layer, int) else (_without_gains(c), 1)
    y = cached_attention(
        b, c.shape, d.options, q, (k, v), at, layer=number, owner=layer, first=first
    )
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


def _without_gains(config: Qwen35Config) -> int:
    """Return a layer that does not attend, if there is one."""
    return next(iter(config.shape.recurrent_layers), 0)


def _previous(d: Decoder[Qwen35Config], x: Tensor, label: str) -> Tensor:
    """Return the rows before each of x [T, width], the first from the state; x's last is left
    there."""
    state = recurrent_state(d.b, d.options, f"hidden.{DRAFT}", 1, d.config.width)
    return d.b.causal_conv(x, d.b.weight(_PREVIOUS), state, label)


def _joined_rows(d: Decoder[Qwen35Config], embedded: Tensor, before: Tensor) -> Tensor:
    """Return what the block that drafts reads [T, width]: tokens, and the hidden states `before`
    them."""
    token = d.norm(embedded, _BLOCK + "enorm", "draft.token")
    both = d.b.concat(token, d.norm(before, _BLOCK + "hnorm", "draft.before"), "draft.both")
    return d.linear(both, _BLOCK + "eh_proj", "draft.joined")


def _leave_for_drafts(d: Decoder[Qwen35Config], x: Tensor) -> None:
    """Store the keys and values of the block that drafts, from the residual stream x [T, width]
    behind the last layer, and its last hidden state."""
    if not d.config.drafts:
        return
    before = _previous(d, d.norm(x, "output_norm", "draft.hidden"), "draft.previous")
    embedded = d.b.embed(
        d.b.weight(shared.EMBEDDING), "draft.embedding"
    )  # not kept since the layers
    h = d.norm(_joined_rows(d, embedded, before), _BLOCK + "attn_norm", "draft.norm")
    k, v = (d.linear(h, f"{_BLOCK}attn_{one}", f"draft.{one}") for one in "kv")
    k = rotate(d, d.norm(k, _BLOCK + "attn_k_norm", "draft.k_norm"), "draft.k_rope", None)
    store_for_drafts(d, k, v, "draft.store")


def _draft_plan(
    config: Qwen35Config, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    """Build the plan of the block that drafts: a token, and the hidden state before it, to logits
    of what follows and the hidden state that the next draft goes on from."""
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    d = Decoder(b, config, options)
    embedded = b.embed(b.weight(shared.EMBEDDING), "embedding")
    before = _previous(d, embedded, "draft.previous")  # what it leaves is written over below
    x = _attention_block(d, _joined_rows(d, embedded, before), DRAFT)
    x = gated_block(d, x, DRAFT, pre_norm="post_attention_norm")
    x = d.norm(x, _BLOCK + "shared_head_norm", "output.norm")
    _previous(d, x, "draft.left")
    return b.finish(through_head(b, b.output_rows(x, "output.rows")))


def _graph(
    config: Qwen35Config, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    if bucket.sliced:
        return _draft_plan(config, weights, options, bucket)
    return decoder_plan(_layer, config, weights, options, bucket, behind=_leave_for_drafts)


def _taps(config: Qwen35Config, tensors: Mapping[str, TensorData]) -> list[TensorData]:
    """Return the taps of a convolution that takes each row's predecessor."""
    one = float_tensor(_PREVIOUS, np.tile([1.0, 0.0], config.width))
    return [one] if config.drafts else []


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


def _drafting(row: NameRow) -> NameRow:
    """Return the row of the block that drafts that is like one of a layer."""
    gguf = row.gguf.replace("blk.{i}.", _BLOCK)
    checkpoint = row.checkpoint and f"mtp.{row.checkpoint}"
    return replace(
        row, gguf=gguf, checkpoint=checkpoint, count="", optional=lambda c, _: not c.drafts
    )


_LAYER_NORMS = centred(
    (
        shared.ATTENTION_NORM,
        of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
    )
)
_DRAFTING = (
    *map(_drafting, (*_LAYER_NORMS, *_ATTENTION, *shared.GATED)),
    *map(
        _drafting,
        centred(
            (
                of_model(_BLOCK + "enorm.weight", "pre_fc_norm_embedding.weight", "width"),
                of_model(_BLOCK + "hnorm.weight", "pre_fc_norm_hidden.weight", "width"),
                of_model(_BLOCK + "shared_head_norm.weight", "norm.weight", "width"),
            )
        ),
    ),
    _drafting(of_model(_JOINED, "fc.weight", "width", "both_widths")),
    _drafting(of_model(_PREVIOUS, None, "both_widths")),
)

# Of layers without their feed-forwards, which have no block that drafts behind them.
TENSORS = (
    *centred(shared.MODEL_TENSORS),
    *shared.ROPE_TENSORS,
    *_LAYER_NORMS,
    *of_states(_STATE),
    *of_attention(_ATTENTION),
)
DEFAULTS = {
    "head_dim": 256,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "partial_rotary_factor": 0.25,
}

QWEN3_5 = Architecture(
    title="Qwen3.5",
    gguf="qwen35",
    model_types=("qwen3_5_text", "qwen3_5"),
    config=Qwen35Config,
    tensors=(*TENSORS, *shared.GATED, *_DRAFTING),
    graph=_graph,
    derived=_taps,
    drafting="nextn_predict_layers",
    defaults=DEFAULTS,
    modules={"layers.{i}.linear_attn.norm": ()},  # it multiplies by the gate, too
)
