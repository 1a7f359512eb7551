"""LFM2 and LFM2.5 (dense): most layers are short convolutions with a gate on either side, the rest
attend (https://huggingface.co/LiquidAI/LFM2-1.2B).

The recurrent state of a convolution is what its last taps but one read, however long the text is.
GGUF files call the norm behind all layers `token_embd_norm`, and say by heads of keys, none, which
layers convolve. Sources: transformers' `modeling_lfm2.py`, gguf-py's constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_COUNT
from llm_lite.core.models.blocks import (
    Decoder,
    attention_block,
    decoder_plan,
    gated_block,
    recurrent_state,
)
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    integer,
    integers,
    row,
)
from llm_lite.core.models.description.tensors import of_layer, of_model
from llm_lite.core.models.model import ModelShape
from llm_lite.core.models.qwen3_5 import MOST_TAPS, of_attention, of_states
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_ENCODER = "Lfm2BidirectionalModel"
_MULTIPLIER = (1e-3, 1e3)  # of a width


def _convolves(config: CheckpointConfig, known: Known) -> list[bool]:
    """Return for each layer whether it is a convolution. Older files count those that attend."""
    if config.get("architectures") == [_ENCODER]:
        raise UnsupportedError(
            f"{config.path}: an {_ENCODER}, which sees later tokens, is not known here"
        )
    layers = known["layers"]
    convolves = shared.layers_of_kind(config, known, "conv", "full_attention")
    if convolves is None:
        attending = config.get("full_attn_idxs")
        attending = list(range(layers)) if attending is None else attending
        if not isinstance(attending, list) or not all(
            type(one) is int and 0 <= one < layers for one in attending
        ):
            raise config.error("full_attn_idxs", f"a list of 0 to {layers - 1}", attending)
        convolves = [layer not in attending for layer in range(layers)]
    if all(convolves):
        key = "layer_types" if config.get("layer_types") is not None else "full_attn_idxs"
        raise config.error(key, "one layer or more that attends", config.get(key))
    return convolves


def _heads_of_layers(config: CheckpointConfig, known: Known) -> list[int]:
    key, heads = "num_key_value_heads", known["heads"]
    count = config.integer(key, 8, at_most=LARGEST_COUNT)
    if heads % count:
        raise config.error(key, f"a divisor of the {heads} heads", count)
    return [0 if one else count for one in _convolves(config, known)]


def _by_layer(value: Any, known: Known) -> tuple[int, ...]:
    """Return the heads of keys of each layer, as many in all that attend."""
    counts: tuple[int, ...] = integers(0, known["heads"])(value, known)
    if len({count for count in counts if count}) != 1:
        raise UnfitError("one number in all layers that attend, and 0 in others", value)
    shared.KV_HEADS.check(max(counts), known)
    return counts


def _true(value: Any, known: Known) -> bool:
    if value is not True:
        raise UnfitError("true", value)
    return True


def _feed_forward(config: CheckpointConfig, known: Known) -> int:
    """Return the width of feed-forwards: two thirds of what the config says, times a factor, in
    whole blocks; or what it says, where that is not to be adjusted."""
    key = "intermediate_size" if config.get("block_ff_dim") is None else "block_ff_dim"
    width = config.integer(key)
    if not config.flag("block_auto_adjust_ff_dim", True):
        return width
    factor = config.number("block_ffn_dim_multiplier", 1.0, within=_MULTIPLIER)
    block = config.integer("block_multiple_of", 256)
    return -(-int(factor * int(2 * width / 3)) // block) * block


class Lfm2Config(shared.DecoderConfig, frozen=True, kw_only=True):
    """taps: of the convolutions. kv_heads_of: by layer, 0 where it is a convolution."""

    context: int = row(replace(shared.CONTEXT, assumed=128_000))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint=_feed_forward))
    eps: float = row(replace(shared.EPS, checkpoint="norm_eps", assumed=1e-5))
    rotary_dim: int = row(replace(shared.ROTARY_DIM, checkpoint=None))
    window: int = row(replace(shared.WINDOW, checkpoint=None))
    sliding: tuple[bool, ...] = row(replace(shared.SLIDING, checkpoint=None))
    kv_heads: int  # of a layer that attends
    kv_heads_of: tuple[int, ...] = row(FieldRow(shared.KV_HEADS.gguf, _heads_of_layers, _by_layer))
    taps: int = row(FieldRow("shortconv.l_cache", "conv_L_cache", integer(2, MOST_TAPS), assumed=3))
    causal: bool = row(FieldRow("attention.causal", None, _true, default=True))  # no encoder

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        return super().of_tensors(known, weights, path) | {"kv_heads": max(known["kv_heads_of"])}

    @property
    def recurrent(self) -> tuple[bool, ...]:
        """Return for each layer whether it is a convolution, which has a state."""
        return tuple(not count for count in self.kv_heads_of)

    @property
    def gated_width(self) -> int:
        """Return the width of what is convolved and the gates before and behind."""
        return 3 * self.width

    @property
    def all_taps(self) -> int:
        return self.width * self.taps

    @property
    def shape(self) -> ModelShape:
        layers = tuple(i for i, has_state in enumerate(self.recurrent) if has_state)
        each = (self.taps - 1) * self.width
        return replace(super().shape, recurrent_layers=layers, state_bytes=4 * each * len(layers))


def mixer(d: Decoder[Any], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: the part of a layer that sees other tokens."""
    if d.config.recurrent[layer]:
        return _convolution_block(d, x, layer)
    return attention_block(d, x, layer, qk_norm=True)


def _layer(d: Decoder[Lfm2Config], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, mixer(d, x, layer), layer)


def _convolution_block(d: Decoder[Any], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: each column convolved over the last tokens, between two gates."""
    at, w, c, b = f"layers.{layer}.convolution", f"blk.{layer}.", d.config, d.b
    h = d.norm(x, w + "attn_norm", at + ".norm")
    h = d.linear(h, w + "shortconv.in_proj", at + ".gates_and_values")
    before, behind, values = (
        b.columns(h, f"{at}.{name}", first=number * c.width, count=c.width)
        for number, name in enumerate(("gate_before", "gate_behind", "values"))
    )
    y = b.mul(before, values, at + ".gated_before")
    state = recurrent_state(b, d.options, f"conv.{layer}", c.taps - 1, c.width)
    y = b.causal_conv(y, b.weight(w + "shortconv.conv.weight"), state, at + ".conv")
    if b.has(w + "shortconv.conv.bias"):
        y = b.add_bias(y, b.weight(w + "shortconv.conv.bias"), at + ".conv.biased")
    y = b.mul(behind, y, at + ".gated_behind")
    return d.residual(x, d.linear(y, w + "shortconv.out_proj", at + ".output"), at, 1.0)


_CONVOLUTION = (
    of_layer("shortconv.in_proj.weight", "conv.in_proj.weight", "gated_width", "width"),
    replace(of_layer("shortconv.conv.weight", "conv.conv.weight", "all_taps"), flat=True),
    of_layer("shortconv.out_proj.weight", "conv.out_proj.weight", "width", "width"),
)
_BIASES = tuple(  # of models whose config has `conv_bias`
    of_layer(f"shortconv.{name}.bias", f"conv.{name}.bias", width, optional=True)
    for name, width in (("in_proj", "gated_width"), ("conv", "width"), ("out_proj", "width"))
)
_ATTENTION = (
    *(shared.QUERY, shared.KEY, shared.VALUE),
    of_layer("attn_output.weight", "self_attn.out_proj.weight", "width", "q_width"),
    of_layer("attn_q_norm.weight", "self_attn.q_layernorm.weight", "head_dim"),
    of_layer("attn_k_norm.weight", "self_attn.k_layernorm.weight", "head_dim"),
)

# Of layers without their feed-forwards.
TENSORS = (
    of_model(shared.EMBEDDING, "embed_tokens.weight", "vocabulary", "width"),
    of_model(f"{shared.EMBEDDING_NORM}.weight", "embedding_norm.weight", "width"),
    of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
    *shared.ROPE_TENSORS,
    of_layer("attn_norm.weight", "operator_norm.weight", "width"),
    *of_states(_CONVOLUTION),
    *_BIASES,
    *of_attention(_ATTENTION),
    of_layer("ffn_norm.weight", "ffn_norm.weight", "width"),
)
FEED_FORWARD = (
    of_layer("ffn_gate.weight", "feed_forward.w1.weight", "feed_forward", "width"),
    of_layer("ffn_up.weight", "feed_forward.w3.weight", "feed_forward", "width"),
    of_layer("ffn_down.weight", "feed_forward.w2.weight", "width", "feed_forward"),
)
DEFAULTS = {"rope_theta": 1_000_000.0}

LFM2 = Architecture(
    title="LFM2",
    gguf="lfm2",
    model_types=("lfm2",),
    config=Lfm2Config,
    tensors=(*TENSORS, *FEED_FORWARD),
    graph=partial(decoder_plan, _layer, final_norm=shared.EMBEDDING_NORM),
    defaults=DEFAULTS,
    tied=True,
    modules={"layers.{i}.conv.conv": ()},  # it is not cut to the text
)
