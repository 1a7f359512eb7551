"""Gemma 3n checkpoints of transformers, the text model alone or in its multimodal one, in GGUF's
terms.

Names: `MODEL_TENSORS` of GEMMA3N in https://github.com/ggml-org/llama.cpp gguf-py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import Any

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.formats.huggingface.config import CheckpointConfig
from llm_lite.core.formats.huggingface.llama import Translated
from llm_lite.core.formats.ranges import (
    EPSILON,
    LARGEST_CONTEXT,
    LARGEST_COUNT,
    LARGEST_WIDTH,
    ROPE_BASE,
    SOFTCAP,
)
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData

_PREFIXES = ("model.language_model.", "language_model.model.", "model.")
_TOWERS = {"vision": ("vision_tower", "embed_vision"), "audio": ("audio_tower", "embed_audio")}
_LAYER = re.compile(r"layers\.(\d{1,5})\.(.+)")
_STACKED = re.compile(r"(altup_projections|altup_unembed_projections)\.(\d{1,2})\.weight")
_STACKED_STEMS = {
    "altup_projections": "altup_proj",
    "altup_unembed_projections": "altup_unembd_proj",
}
_NAMES = {
    "embed_tokens.weight": "token_embd.weight",
    "embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
    "norm.weight": "output_norm.weight",
}
_LAYER_STEMS = {
    "input_layernorm.weight": "attn_norm",
    "self_attn.q_proj.weight": "attn_q",
    "self_attn.k_proj.weight": "attn_k",
    "self_attn.v_proj.weight": "attn_v",
    "self_attn.o_proj.weight": "attn_output",
    "self_attn.q_norm.weight": "attn_q_norm",
    "self_attn.k_norm.weight": "attn_k_norm",
    "post_attention_layernorm.weight": "post_attention_norm",
    "pre_feedforward_layernorm.weight": "ffn_norm",
    "post_feedforward_layernorm.weight": "post_ffw_norm",
    "mlp.gate_proj.weight": "ffn_gate",
    "mlp.up_proj.weight": "ffn_up",
    "mlp.down_proj.weight": "ffn_down",
    "altup.correction_coefs.weight": "altup_correct_coef",
    "altup.correct_output_scale": "altup_correct_scale",
    "altup.prediction_coefs.weight": "altup_predict_coef",
    "altup.modality_router.weight": "altup_router",
    "altup.router_norm.weight": "altup_router_norm",
    "laurel.linear_left.weight": "laurel_l",
    "laurel.linear_right.weight": "laurel_r",
    "laurel.post_laurel_norm.weight": "laurel_post_norm",
    "per_layer_input_gate.weight": "inp_gate",
    "per_layer_projection.weight": "proj",
    "post_per_layer_input_norm.weight": "post_norm",
}


def translate(config: CheckpointConfig, tensors: Mapping[str, TensorData]) -> Translated:
    """Raises FileError and UnsupportedError, naming the field or tensor."""
    text = config.part("text_config")
    metadata = metadata_of(text)
    named: dict[str, TensorData] = {}
    originals: dict[str, TensorData] = {}
    skipped = dict.fromkeys(_TOWERS, 0)
    for old, tensor in tensors.items():
        if tower := _tower(old):
            skipped[tower] += 1
        elif old != "lm_head.weight":  # tied
            own, name = _names(config, old)
            originals[f"model.{own}"] = tensor
            named[name] = replace(tensor, name=name)
    for key, name in (
        ("vocab_size", "token_embd.weight"),
        ("vocab_size_per_layer_input", "per_layer_token_embd.weight"),
    ):
        if name in named and named[name].shape:
            text.rows(key, name, named[name].shape[0])
    notes = [
        f"the {tower} tower ({count} tensors) is not used: this is the text model"
        for tower, count in skipped.items()
        if count
    ]
    return Translated(metadata, named, notes, originals)


def _tower(name: str) -> str | None:
    parts = name.split(".")[:2]
    return next((t for t, stems in _TOWERS.items() if not set(stems).isdisjoint(parts)), None)


def _names(config: CheckpointConfig, name: str) -> tuple[str, str]:
    """(without the prefix, GGUF's)"""
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    own = name.removeprefix(prefix)
    if prefix and own in _NAMES:
        return own, _NAMES[own]
    if prefix and (match := _STACKED.fullmatch(own)):
        return own, f"{_STACKED_STEMS[match[1]]}.{int(match[2])}.weight"
    match = _LAYER.fullmatch(own) if prefix else None
    if match is None or match[2] not in _LAYER_STEMS:
        where = config.path.parent
        raise UnsupportedError(f"{where}: tensor {quote(name)} has no place in a Gemma 3n model")
    return own, f"blk.{int(match[1])}.{_LAYER_STEMS[match[2]]}.weight"


def metadata_of(config: CheckpointConfig) -> dict[str, Any]:
    """GGUF's fields; those that the config leaves out are E4B's."""
    config.must_be("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is")
    config.must_be("attention_bias", False, "biases are")
    config.must_be("tie_word_embeddings", True, "a head of its own is")
    layers = config.integer("num_hidden_layers", 35, at_most=LARGEST_COUNT)
    theta, sliding_theta = _thetas(config)
    uncapped = config.has("final_logit_softcapping") and not config.get("final_logit_softcapping")
    cap = 0.0 if uncapped else config.number("final_logit_softcapping", 30.0, within=SOFTCAP)
    fields = {
        "block_count": layers,
        "context_length": config.integer("max_position_embeddings", 32768, at_most=LARGEST_CONTEXT),
        "embedding_length": config.integer("hidden_size", 2048),
        "embedding_length_per_layer_input": config.integer("hidden_size_per_layer_input", 256),
        "feed_forward_length": _widths(config, layers),
        "attention.head_count": config.integer("num_attention_heads", 8, at_most=LARGEST_COUNT),
        "attention.head_count_kv": config.integer("num_key_value_heads", 2, at_most=LARGEST_COUNT),
        "attention.key_length": (d := config.integer("head_dim", 256, at_most=LARGEST_COUNT)),
        "attention.value_length": d,
        "attention.layer_norm_rms_epsilon": config.number("rms_norm_eps", 1e-6, within=EPSILON),
        "attention.sliding_window": config.integer("sliding_window", 512),
        "attention.sliding_window_pattern": _pattern(config, layers),
        "attention.shared_kv_layers": config.integer("num_kv_shared_layers", 15, at_least=0),
        "activation_sparsity_scale": _sparsity(config, layers),
        "altup.num_inputs": config.integer("altup_num_inputs", 4),
        "altup.active_idx": config.integer("altup_active_idx", 0, at_least=0),
        "altup.correct_scale": config.flag("altup_correct_scale", True),
        "rope.freq_base": theta,
        "rope.freq_base_swa": sliding_theta,
        "final_logit_softcapping": cap,
    }
    prefixed = {f"gemma3n.{key}": value for key, value in fields.items()}
    return {"general.architecture": "gemma3n", **prefixed}


def _widths(config: CheckpointConfig, layers: int) -> list[int]:
    if type(config.get("intermediate_size")) is int or config.get("intermediate_size") is None:
        return [config.integer("intermediate_size", 16384)] * layers
    widths: list[int] = config.list_of("intermediate_size", (int,), layers)
    for width in widths:
        if not 1 <= width <= LARGEST_WIDTH:
            problem = f"intermediate_size has {found(width)}, expected 1 to {LARGEST_WIDTH}"
            raise FileError(config.path, problem)
    return widths


def _pattern(config: CheckpointConfig, layers: int) -> list[bool]:
    """Whether a layer's attention slides; every fifth sees all unless the config says otherwise."""
    if config.get("layer_types") is None:
        return [(i + 1) % 5 != 0 for i in range(layers)]
    kinds = config.list_of("layer_types", (str,), layers)
    for kind in kinds:
        if kind not in ("sliding_attention", "full_attention"):
            raise UnsupportedError(
                f"{config.path}: layer_types has {quote(kind)}; "
                "known are sliding_attention and full_attention"
            )
    return [kind == "sliding_attention" for kind in kinds]


def _sparsity(config: CheckpointConfig, layers: int) -> list[float]:
    """Shares of zeros as standard deviations above the mean; -inf where nothing is cut off."""
    value = config.get("activation_sparsity_pattern")
    if value is None:
        sparse = 10 if layers > 10 else 0
        shares = [0.95] * sparse + [0.0] * (layers - sparse)
    elif isinstance(value, list):
        shares = config.list_of("activation_sparsity_pattern", (int, float), layers)
    else:
        shares = [config.number("activation_sparsity_pattern", within=(0.0, 1.0))] * layers
    for share in shares:
        if not 0 <= share < 1:
            problem = f"activation_sparsity_pattern has {found(share)}, expected 0 to less than 1"
            raise FileError(config.path, problem)
    return [NormalDist().inv_cdf(share) if share else -math.inf for share in shares]


def _thetas(config: CheckpointConfig) -> tuple[float, float]:
    """Rotary bases of full and of sliding attention, from newer configs or older ones."""
    kinds = ("full_attention", "sliding_attention")
    bases = [
        config.number("rope_theta", 1e6, within=ROPE_BASE),
        config.number("rope_local_base_freq", 1e4, within=ROPE_BASE),
    ]
    value = config.get("rope_parameters")
    nested = isinstance(value, dict) and not set(kinds).isdisjoint(value)
    for i, kind in enumerate(kinds):
        part = config.part("rope_parameters").part(kind) if nested else config.rope()[0]
        if nested:
            bases[i] = part.number("rope_theta", bases[i], within=ROPE_BASE)
        rope_type = part.text("rope_type", part.text("type", "default"))
        if rope_type != "default":
            raise UnsupportedError(
                f"{config.path}: rotary scaling {quote(rope_type)} of {kind} is not known here; "
                "known is default"
            )
    return bases[0], bases[1]
