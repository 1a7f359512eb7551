"""The Hugging Face checkpoint of SmolLM2's GGUF: `python -m tests.hub.checkpoint GGUF FOLDER`.

Weights as BF16 under their names in transformers; tokenizer.json of the same vocabulary. From the
folder the program must read the model that the GGUF file holds, up to the rounding to BF16.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.formats.gguf_reader import GgufFile, open_gguf
from llm_lite.core.formats.safetensors_writer import TensorToWrite, write_safetensors
from llm_lite.core.quant.blocks.floats import BF16

_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_CONTROL = 3  # a token's type


def make_checkpoint(gguf: Path, folder: Path, shards: int = 1) -> Path:
    """The folder, made."""
    file = open_gguf(gguf)
    folder.mkdir(parents=True, exist_ok=True)
    config = _config(file)
    _write_json(folder / "config.json", config)
    _write_json(folder / "tokenizer.json", _tokenizer(file))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(file))
    names = [_name_of(name) for name in file.tensors]
    shapes = {_name_of(name): tensor.shape for name, tensor in file.tensors.items()}
    if shards == 1:
        _write(file, folder / "model.safetensors", names, shapes)
        return folder
    places: dict[str, str] = {}
    for number in range(shards):
        part = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        mine = names[number::shards]
        _write(file, folder / part, mine, shapes)
        places |= dict.fromkeys(mine, part)
    total = 2 * sum(int(np.prod(shape)) for shape in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    _write_json(folder / "model.safetensors.index.json", index)
    return folder


def _write(
    file: GgufFile, path: Path, names: list[str], shapes: dict[str, tuple[int, ...]]
) -> None:
    of_gguf = {_name_of(name): name for name in file.tensors}

    def rounded(name: str) -> Iterator[NDArray[np.uint8]]:
        yield BF16.quantize(_values(file, of_gguf[name])).view(np.uint8).reshape(-1)

    tensors = [TensorToWrite(name, "BF16", shapes[name], partial(rounded, name)) for name in names]
    with path.open("wb") as out:
        write_safetensors(out, tensors, {"format": "pt"})


def _values(file: GgufFile, name: str) -> NDArray[np.float32]:
    """float32, rows of queries and keys in the order of transformers: halves of a head apart."""
    values = file.tensors[name].dequantize()
    for mark, key in ((".attn_q.", "head_count"), (".attn_k.", "head_count_kv")):
        if mark in name:
            heads = int(file.metadata[f"llama.attention.{key}"])
            rows, columns = values.shape
            apart = values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2)
            return np.ascontiguousarray(apart.reshape(rows, columns))
    return values


def _name_of(gguf: str) -> str:
    stem = gguf.removesuffix(".weight")
    if stem in _OUTSIDE:
        return f"{_OUTSIDE[stem]}.weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{_NAMES[part]}.weight"


def _config(file: GgufFile) -> dict[str, Any]:
    def of(key: str) -> Any:
        return file.metadata[f"llama.{key}"]

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "max_position_embeddings": of("context_length"),
        "rms_norm_eps": 1e-05,
        "rope_theta": of("rope.freq_base"),
        "vocab_size": of("vocab_size"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": file.metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": file.metadata["tokenizer.ggml.eos_token_id"],
    }


def _tokenizer(file: GgufFile) -> dict[str, Any]:
    tokens = list(file.metadata["tokenizer.ggml.tokens"])
    types = list(file.metadata["tokenizer.ggml.token_type"])
    merges = list(file.metadata["tokenizer.ggml.merges"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": tokens[number], **flags, "special": True}
        for number, kind in enumerate(types)
        if kind == _CONTROL
    ]
    level = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", **level},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", **level},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in merges],
        },
    }


def _tokenizer_config(file: GgufFile) -> dict[str, Any]:
    tokens = list(file.metadata["tokenizer.ggml.tokens"])

    def token(key: str) -> str:
        return str(tokens[file.metadata[f"tokenizer.ggml.{key}_token_id"]])

    return {
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "unk_token": token("unknown"),
        "chat_template": file.metadata["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": file.metadata["llama.context_length"],
        "tokenizer_class": "GPT2Tokenizer",
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    print(make_checkpoint(Path(sys.argv[1]), Path(sys.argv[2])))
