"""Llama and Mistral checkpoints of transformers in GGUF's terms.

Rows of Q and K are as trained, so that rotary pairs are (i, i + d/2); GGUF's files permute them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface.config import CheckpointConfig
from llm_lite.core.formats.ranges import EPSILON, LARGEST_CONTEXT, LARGEST_COUNT, ROPE_FACTOR
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData

_LAYER = re.compile(r"model\.layers\.(\d{1,5})\.(.+)\.weight")
_LAYER_STEMS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


@dataclass
class Translated:
    """`originals`: the text model's tensors under names that transformers would give it alone."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorData]
    notes: list[str] = field(default_factory=list)
    originals: dict[str, TensorData] = field(default_factory=dict)


def translate(config: CheckpointConfig, tensors: Mapping[str, TensorData]) -> Translated:
    """Raises FileError and UnsupportedError, naming the field."""
    metadata = _metadata(config)
    named = {}
    tied = config.flag("tie_word_embeddings", False)
    for old, tensor in tensors.items():
        if old.endswith(".rotary_emb.inv_freq") or (tied and old == "lm_head.weight"):
            continue
        name = _gguf_name(config, old)
        named[name] = replace(tensor, name=name)
    if (embedding := named.get("token_embd.weight")) is not None and embedding.shape:
        config.rows("vocab_size", "model.embed_tokens.weight", embedding.shape[0])
    if not tied and "output.weight" not in named:
        raise UnsupportedError(
            f"{config.path}: tie_word_embeddings is false, but there is no tensor 'lm_head.weight'"
        )
    factors = _rope(config, metadata)
    if factors is not None:
        named["rope_freqs.weight"] = factors
    return Translated(metadata, named)


def _gguf_name(config: CheckpointConfig, name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    match = _LAYER.fullmatch(name)
    if match is None or match[2] not in _LAYER_STEMS:
        raise UnsupportedError(
            f"{config.path.parent}: tensor {quote(name)} has no place in a llama"
        )
    return f"blk.{int(match[1])}.{_LAYER_STEMS[match[2]]}.weight"


def _metadata(config: CheckpointConfig) -> dict[str, Any]:
    config.must_be("hidden_act", "silu", "such a feed-forward is")
    config.must_be("attention_bias", False, "biases are")
    config.must_be("mlp_bias", False, "biases are")
    context = config.integer("max_position_embeddings", 2048, at_most=LARGEST_CONTEXT)
    if config.get("sliding_window") is not None:
        window = config.integer("sliding_window", at_most=LARGEST_CONTEXT)
        if window < context:
            config.must_be("sliding_window", None, "windows of attention are")
    heads = config.integer("num_attention_heads", at_most=LARGEST_COUNT)
    width = config.integer("hidden_size")
    if config.get("head_dim") is None and width % heads:
        raise config.error("num_attention_heads", f"a divisor of hidden_size, {width}", heads)
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": config.integer("num_hidden_layers", at_most=LARGEST_COUNT),
        "llama.context_length": context,
        "llama.embedding_length": width,
        "llama.feed_forward_length": config.integer("intermediate_size"),
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": config.integer(
            "num_key_value_heads", heads, at_most=heads
        ),
        "llama.attention.layer_norm_rms_epsilon": config.number(
            "rms_norm_eps", 1e-6, within=EPSILON
        ),
        "llama.rope.pairing": "half_split",
    }
    if config.get("head_dim") is not None:
        key_length = config.integer("head_dim", at_most=LARGEST_COUNT)
        metadata["llama.attention.key_length"] = key_length
    return metadata


def _rope(config: CheckpointConfig, metadata: dict[str, Any]) -> TensorData | None:
    """Adds theta and scaling; Llama 3's scaling becomes the factors that GGUF keeps as a tensor."""
    part, theta = config.rope()
    metadata["llama.rope.freq_base"] = 10000.0 if theta is None else theta
    kind = part.text("rope_type", part.text("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        metadata["llama.rope.scaling.type"] = "linear"
        metadata["llama.rope.scaling.factor"] = part.number("factor", within=ROPE_FACTOR)
        return None
    if kind == "llama3":
        heads = config.integer("num_attention_heads")
        width = config.integer("head_dim", config.integer("hidden_size") // heads)
        return _llama3_factors(part, metadata["llama.rope.freq_base"], width)
    raise UnsupportedError(
        f"{config.path}: rotary scaling {quote(kind)} is not known here; "
        "known are default, linear, llama3"
    )


def _llama3_factors(part: CheckpointConfig, theta: float, head_dim: int) -> TensorData:
    """What each frequency is divided by: 1 for short waves, `factor` for long ones, a blend between
    (transformers, `_compute_llama3_parameters`)."""
    original = part.integer("original_max_position_embeddings", at_most=LARGEST_CONTEXT)
    factor, low, high = (
        part.number(key, within=ROPE_FACTOR)
        for key in ("factor", "low_freq_factor", "high_freq_factor")
    )
    if not high > low:
        raise part.error("high_freq_factor", f"more than low_freq_factor, {low:g}", high)
    pairs = min(max(1, head_dim // 2), 1 << 16)
    wavelength = 2 * math.pi * np.float64(theta) ** (np.arange(pairs) / pairs)
    smooth = (original / wavelength - low) / (high - low)
    blend = 1 / ((1 - smooth) / factor + smooth)
    factors = np.where(smooth > 1, 1.0, np.where(smooth < 0, factor, blend))
    data = factors.astype("<f4").view(np.uint8)
    data.flags.writeable = False
    return TensorData("rope_freqs.weight", "f32", (pairs,), data)
