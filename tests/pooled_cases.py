"""Tiny decoders that make vectors of texts: configs, files of sentence-transformers, and random
weights by the names of tensors. `python -m tests.fixtures.make_pooled` stores what transformers
makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.make_huggingface import random_values
from tests.make_safetensors import build_safetensors, entry
from tests.paths import FIXTURES

ROWS = 460  # of the embeddings; the tokenizers have fewer tokens
TEXTS = (
    "The cat sat on the mat, and it's 12 degrees in the hall.",
    "안녕하세요",
    "a",
    "def f(x):\n\treturn [x + 1]\n",
    " the cat's hat ",
)
_SHAPE = {
    "vocab_size": ROWS,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
}


@dataclass(frozen=True)
class Case:
    """config: as on the hub. pooling: modes of 1_Pooling, () where there is no modules.json. ends:
    tokens that the tokenizer puts behind every text."""

    name: str
    config: Mapping[str, Any]
    pooling: tuple[str, ...] = ("mean",)
    marked: bool = True
    unit_length: bool = True
    dense: tuple[int, ...] = ()
    prompt: str = ""
    reads_prompt: bool = True
    ends: int = 0


def _config(model_type: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": model_type, **_SHAPE, **changes}


CASES = {
    case.name: case
    for case in (
        # As Qwen3-Embedding: the state of the end token that is put behind every text.
        Case("qwen3 last", _config("qwen3"), ("lasttoken",), ends=1),
        # As e5-mistral, of the mean.
        Case("mistral mean", _config("mistral", sliding_window=None), unit_length=False, ends=1),
        # As gte-Qwen2: tokens see those behind them too.
        Case("qwen2 both ways", _config("qwen2", is_causal=False), ("lasttoken",), ends=1),
        # As stella: two vectors side by side through dense layers.
        Case(
            "llama first and last",
            _config("llama", is_causal=False),
            ("cls", "lasttoken"),
            dense=(31, 24),
        ),
        # Nothing but config.json says what it is: the mean.
        Case("llama unmarked", _config("llama", is_causal=False), marked=False),
        # Windows of layers, which are shorter than the text.
        Case(
            "gemma3 windows",
            _config(
                "gemma3_text",
                sliding_window=7,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                query_pre_attn_scalar=12,
            ),
            ("weightedmean",),
        ),
        # As NV-Embed: what stands before texts of a task is read and not pooled.
        Case(
            "mistral prompt",
            _config("mistral", sliding_window=None, is_causal=False),
            prompt="the cat: ",
            reads_prompt=False,
            ends=1,
        ),
        Case("phi3 greatest", _config("phi3", pad_token_id=0), ("max",)),
    )
}
TOKENIZERS = {  # of tests/fixtures/added_ids
    "qwen3 last": "qwen3-embedding",
    "mistral mean": "e5-mistral",
    "qwen2 both ways": "qwen3-embedding",
    "llama first and last": "llama2-first",
    "llama unmarked": "llama2",
    "gemma3 windows": "gemma",
    "mistral prompt": "e5-mistral",
    "phi3 greatest": "phi3",
}


def values_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 1:
        is_norm = "norm" in name and not name.endswith("bias")
        return random_values(name, shape, float(is_norm), 0.1 if is_norm else 0.3)
    return random_values(name, shape, 0.0, 1.2 * shape[-1] ** -0.5)


@cache
def pooled(name: str) -> dict[str, Any]:
    """What make_pooled stored of a case."""
    with np.load(FIXTURES / "pooled.npz") as arrays:
        own = [key for key in arrays if key.startswith(f"{name}.")]
        return {key.removeprefix(f"{name}."): arrays[key] for key in own}


def written(name: str, folder: Path) -> Path:
    return write_case(CASES[name], pooled(name), FIXTURES / "added_ids" / TOKENIZERS[name], folder)


def write_case(case: Case, stored: Mapping[str, Any], tokenizer: Path, folder: Path) -> Path:
    """Write the directory as it is on the hub; `stored` are the arrays of make_pooled."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(str(stored["config"]))
    shapes = json.loads(str(stored["shapes"]))
    tensors = {name: entry(values_of(name, tuple(shape))) for name, shape in shapes.items()}
    (folder / "model.safetensors").write_bytes(build_safetensors(tensors))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tokenizer / name).read_bytes())
    if not case.marked:
        return folder
    kinds = ["Transformer", "Pooling", *["Dense"] * len(case.dense)]
    kinds += ["Normalize"] if case.unit_length else []
    modules = [
        {"path": "" if i == 0 else f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    modes = {
        "cls": "pooling_mode_cls_token",
        "lasttoken": "pooling_mode_lasttoken",
        "mean": "pooling_mode_mean_tokens",
        "weightedmean": "pooling_mode_weightedmean_tokens",
        "max": "pooling_mode_max_tokens",
    }
    named = {key: name in case.pooling for name, key in modes.items()}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    how = {"word_embedding_dimension": 48, **named, "include_prompt": case.reads_prompt}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(how))
    if case.prompt:
        prompts = {"prompts": {"query": case.prompt}}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    columns = 48 * len(case.pooling)
    for number, width in enumerate(case.dense):
        own = folder / f"{number + 2}_Dense"
        own.mkdir(exist_ok=True)
        linear = {
            "in_features": columns,
            "out_features": width,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        (own / "config.json").write_text(json.dumps(linear))
        stem = f"dense{number}.linear."
        arrays = {
            "linear.weight": values_of(f"{stem}weight", (width, columns)),
            "linear.bias": values_of(f"{stem}bias", (width,)),
        }
        tensors = {name: entry(values) for name, values in arrays.items()}
        (own / "model.safetensors").write_bytes(build_safetensors(tensors))
        columns = width
    return folder
