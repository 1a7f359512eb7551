"""A tiny Qwen3.5 with a block behind its layers that drafts further tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFWriter

from tests.families import VOCABULARY, family_of
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.paths import FIXTURES

FAMILY = family_of("qwen3_5")
ATTENDS = "model.layers.3."  # whose tensors are like those of the block
OF_GGUF = {
    "fc": "nextn.eh_proj",
    "pre_fc_norm_embedding": "nextn.enorm",
    "pre_fc_norm_hidden": "nextn.hnorm",
    "norm": "nextn.shared_head_norm",
}


def plain(part: str) -> dict[str, Any]:
    """The "config" or the "shapes" of case "plain"."""
    with np.load(FIXTURES / "families" / "qwen3_5.npz") as arrays:
        return json.loads(str(arrays[f"plain.{part}"]))


def text() -> list[int]:
    with np.load(FIXTURES / "families" / "qwen3_5.npz") as arrays:
        return arrays["plain.tokens"].tolist()


def block_shapes() -> dict[str, tuple[int, ...]]:
    known = {name: tuple(shape) for name, shape in plain("shapes").items()}
    width = known["model.norm.weight"][0]
    like = {n.replace(ATTENDS, "mtp.layers.0."): s for n, s in known.items() if ATTENDS in n}
    norms = {f"mtp.{name}.weight": (width,) for name in OF_GGUF if name != "fc"}
    return {**like, **norms, "mtp.fc.weight": (width, 2 * width)}


def write_drafting(folder: Path, **changes: object) -> Path:
    """The checkpoint of case "plain" with such a block."""
    shapes = {**plain("shapes"), **block_shapes()}
    tensors = {n: entry(FAMILY.values(n, tuple(shape), "plain")) for n, shape in shapes.items()}
    return write_folder(folder, {**plain("config"), **changes}, tensors, tokens=VOCABULARY)


def add_block(source: Path, target: Path, tensors: dict[str, np.ndarray] | None = None) -> None:
    """The same GGUF file with such a block behind its layers, or with these tensors in it."""
    reader = GGUFReader(source)
    layers = int(reader.fields["qwen35.block_count"].contents())
    writer = GGUFWriter(target, "qwen35")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = layers + 1 if name.endswith("block_count") else field.contents()
        writer.add_key_value(name, value, field.types[0], *field.types[1:2])
    writer.add_uint32("qwen35.nextn_predict_layers", 1)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    for name, values in (in_gguf(reader) if tensors is None else tensors).items():
        writer.add_tensor(f"blk.{layers}.{name}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def in_gguf(reader: GGUFReader) -> dict[str, np.ndarray]:
    """The block's tensors by what follows its number, 1 added to norms."""
    like = [t.name.removeprefix("blk.3.") for t in reader.tensors if t.name.startswith("blk.3.")]
    found = {}
    for name, shape in block_shapes().items():
        values = FAMILY.values(name, shape, "plain")
        values = values + np.float32(1) if values.ndim == 1 else values
        own = name.removeprefix("mtp.").removesuffix(".weight")
        found[f"{OF_GGUF.get(own) or _LAYER[own.removeprefix('layers.0.')]}.weight"] = values
    assert set(like) <= set(found), (like, found)
    return found


_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    **{f"self_attn.{one}_proj": f"attn_{one}" for one in "qkv"},
    **{f"self_attn.{one}_norm": f"attn_{one}_norm" for one in "qk"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{one}_proj": f"ffn_{one}" for one in ("gate", "up", "down")},
}
