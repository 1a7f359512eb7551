"""Tiny random Hugging Face directories for tests, without transformers.

Weights come from NumPy's frozen generator, so that stored logits of the reference implementation
(tests/fixtures/make_huggingface_logits.py) stay those of the weights made here.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.make_gguf import SPECIAL_TOKENS, tiny_vocabulary
from tests.make_safetensors import Entry, build_safetensors, entry, write_shards

LLAMA_CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 48,
    "intermediate_size": 75,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "vocab_size": 300,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Variants whose logits the reference implementation gave.
LLAMA_CASES: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_word_embeddings": True, "num_key_value_heads": 6},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "llama3": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
}


GEMMA3N_CONFIG: Mapping[str, Any] = {
    "architectures": ["Gemma3nForCausalLM"],
    "model_type": "gemma3n_text",
    "hidden_size": 48,
    "intermediate_size": [77, 77, 64, 77, 77, 77],
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "vocab_size": 300,
    "vocab_size_per_layer_input": 290,
    "hidden_size_per_layer_input": 8,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "activation_sparsity_pattern": [0.95, 0.8, 0.0, 0.0, 0.0, 0.0],
    "altup_num_inputs": 4,
    "altup_active_idx": 0,
    "altup_coef_clip": 120.0,
    "altup_correct_scale": True,
    "laurel_rank": 5,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GEMMA3N_CASES: Mapping[str, dict[str, Any]] = {
    "gemma": {},
    "gemma.within the window": {"sliding_window": 64},
    "gemma.own caches": {"num_kv_shared_layers": 0},
    "gemma.dense": {"activation_sparsity_pattern": [0.0] * 6},
    "gemma.4 groups": {"num_key_value_heads": 4},
    "gemma.one width": {"intermediate_size": 33, "altup_correct_scale": False},
    "gemma.one vocabulary": {"vocab_size_per_layer_input": 300, "final_logit_softcapping": 9.0},
}


# A Gemma 3n to cut, and the cut: layers 4 and 5 own what layers 6 to 9 read.
SLICE_SOURCE: dict[str, Any] = {
    "num_hidden_layers": 10,
    "intermediate_size": 77,
    "layer_types": [
        *("sliding_attention", "sliding_attention", "sliding_attention", "full_attention"),
        *("sliding_attention", "full_attention") * 3,
    ],
    "num_kv_shared_layers": 4,
    "activation_sparsity_pattern": [0.9, 0.8, 0.7, *[0.0] * 7],
}
# Changes to `write_tall_gemma3n` that leave it a slice, as E4B has
TALL_SLICED = {"hidden_size": 64, "intermediate_size": 512, "hidden_size_per_layer_input": 32}
SLICE_SKIP = (1, 6, 7)
SLICE_WIDTHS = (64, 33, 77, 64, 40, 1, 64)


def random_values(name: str, shape: tuple[int, ...], mean: float, scale: float) -> np.ndarray:
    """float32, a stream of its own for each name."""
    stream = np.random.RandomState(zlib.crc32(name.encode()))
    return (mean + scale * stream.standard_normal(shape)).astype(np.float32)


def llama_tensors(config: Mapping[str, Any], dtype: str | None = None) -> dict[str, Entry]:
    width, ffn = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (config["vocab_size"], width)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "input_layernorm": (width,),
            at + "self_attn.q_proj": (q, width),
            at + "self_attn.k_proj": (kv, width),
            at + "self_attn.v_proj": (kv, width),
            at + "self_attn.o_proj": (width, q),
            at + "post_attention_layernorm": (width,),
            at + "mlp.gate_proj": (ffn, width),
            at + "mlp.up_proj": (ffn, width),
            at + "mlp.down_proj": (width, ffn),
        }
    shapes["model.norm"] = (width,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head"] = (config["vocab_size"], width)
    return {f"{stem}.weight": _weight(stem, shape, dtype) for stem, shape in shapes.items()}


def gemma3n_tensors(
    config: Mapping[str, Any], dtype: str | None = None, prefix: str = "model."
) -> dict[str, Entry]:
    width, n, streams = (
        config[key] for key in ("hidden_size", "hidden_size_per_layer_input", "altup_num_inputs")
    )
    layers = config["num_hidden_layers"]
    tensors: dict[str, Entry] = {}

    def put(name: str, *shape: int, mean: float = 0.0, scale: float | None = None) -> None:
        values = random_values(name, shape, mean, shape[-1] ** -0.5 if scale is None else scale)
        tensors[prefix + name] = entry(values, dtype)

    put("embed_tokens.weight", config["vocab_size"], width, scale=0.4)
    put("embed_tokens_per_layer.weight", config["vocab_size_per_layer_input"], layers * n)
    put("per_layer_model_projection.weight", layers * n, width)
    put("per_layer_projection_norm.weight", n, mean=1, scale=0.1)
    for i in range(streams - 1):
        put(f"altup_projections.{i}.weight", width, width)
        put(f"altup_unembed_projections.{i}.weight", width, width)
    for layer in range(layers):
        for name, shape in _gemma3n_layer(config, layer).items():
            at = f"layers.{layer}.{name}"
            if len(shape) == 1:
                put(at, *shape, mean=1, scale=0.1)
            else:
                put(at, *shape, scale=5.0 if "router.weight" in name else None)
    put("norm.weight", width, mean=1, scale=0.1)
    return tensors


def _gemma3n_layer(config: Mapping[str, Any], layer: int) -> dict[str, tuple[int, ...]]:
    width, n, streams, d = (
        config[key]
        for key in ("hidden_size", "hidden_size_per_layer_input", "altup_num_inputs", "head_dim")
    )
    ffn, rank = config["intermediate_size"], config["laurel_rank"]
    ffn = ffn if isinstance(ffn, int) else ffn[layer]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    shapes: dict[str, tuple[int, ...]] = {
        "altup.correct_output_scale": (width,),
        "altup.correction_coefs.weight": (streams, streams),
        "altup.prediction_coefs.weight": (streams**2, streams),
        "altup.modality_router.weight": (streams, width),
        "altup.router_norm.weight": (width,),
        "input_layernorm.weight": (width,),
        "laurel.linear_left.weight": (rank, width),
        "laurel.linear_right.weight": (width, rank),
        "laurel.post_laurel_norm.weight": (width,),
        "self_attn.q_proj.weight": (q, width),
        "self_attn.o_proj.weight": (width, q),
        "self_attn.q_norm.weight": (d,),
        "post_attention_layernorm.weight": (width,),
        "pre_feedforward_layernorm.weight": (width,),
        "mlp.gate_proj.weight": (ffn, width),
        "mlp.up_proj.weight": (ffn, width),
        "mlp.down_proj.weight": (width, ffn),
        "post_feedforward_layernorm.weight": (width,),
        "per_layer_input_gate.weight": (n, width),
        "per_layer_projection.weight": (width, n),
        "post_per_layer_input_norm.weight": (width,),
    }
    if layer < config["num_hidden_layers"] - config["num_kv_shared_layers"]:
        shapes |= {
            "self_attn.k_proj.weight": (kv, width),
            "self_attn.v_proj.weight": (kv, width),
            "self_attn.k_norm.weight": (d,),
        }
    return shapes


def _weight(name: str, shape: tuple[int, ...], dtype: str | None) -> Entry:
    if len(shape) == 1:
        return entry(random_values(name, shape, 1.0, 0.1), dtype)
    return entry(random_values(name, shape, 0.0, 1.5 * shape[-1] ** -0.5), dtype)


def tokenizer_json(size: int) -> dict[str, Any]:
    """A byte-level BPE of `size` tokens, as SmolLM2's is built."""
    tokens, merges = tiny_vocabulary(size)
    special = {"special": True, "single_word": False, "lstrip": False, "rstrip": False}
    digits = {"type": "Digits", "individual_digits": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": token, "normalized": False, **special}
            for i, token in enumerate(SPECIAL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [digits, {**level, "use_regex": True}],
        },
        "post_processor": None,
        "decoder": {**level, "use_regex": True},
        "model": {
            "type": "BPE",
            "unk_token": None,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }


CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Entry],
    *,
    shards: int = 1,
    tokens: int | None = None,
) -> Path:
    """config.json, weights, tokenizer.json and tokenizer_config.json; `tokens` of the vocabulary:
    as many as the embedding has rows if left out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    names = list(tensors)
    if shards == 1:
        (folder / "model.safetensors").write_bytes(build_safetensors(tensors, {"format": "pt"}))
    else:
        parts = {
            f"model-{i + 1:05}-of-{shards:05}.safetensors": {
                n: tensors[n] for n in names[i::shards]
            }
            for i in range(shards)
        }
        write_shards(folder, parts)
    size = tokens or config.get("text_config", config)["vocab_size"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(size)))
    special = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**special, "chat_template": CHAT_TEMPLATE})
    )
    return folder


def write_tiny_llama(
    folder: Path, *, shards: int = 1, dtype: str | None = None, **changes: Any
) -> Path:
    """A random llama; `changes` to LLAMA_CONFIG, `dtype` "BF16" of the weights (else float32)."""
    config = {**LLAMA_CONFIG, **changes}
    return write_folder(folder, config, llama_tensors(config, dtype), shards=shards)


def write_tiny_gemma3n(
    folder: Path, *, shards: int = 1, dtype: str | None = None, **changes: Any
) -> Path:
    """A random Gemma 3n; `changes` to GEMMA3N_CONFIG."""
    config = {**GEMMA3N_CONFIG, **changes}
    return write_folder(folder, config, gemma3n_tensors(config, dtype), shards=shards)


def write_tall_gemma3n(folder: Path, **changes: Any) -> Path:
    """All layers, heads, sharing and windows of E4B, each layer tiny: 20 caches for 280 heads."""
    layers = 35
    kinds = ("sliding_attention", "full_attention")
    shape = {
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "num_kv_shared_layers": 15,
        "sliding_window": 512,
        "layer_types": [kinds[(i + 1) % 5 == 0] for i in range(layers)],
        "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 25,
        "intermediate_size": 64,
        "max_position_embeddings": 2048,
    }
    return write_tiny_gemma3n(folder, **{**shape, **changes})
