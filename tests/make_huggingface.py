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
