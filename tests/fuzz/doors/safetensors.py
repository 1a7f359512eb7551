"""safetensors: bytes and headers of single files, shards and their index, a model's weights."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.formats.safetensors_reader import INDEX_FILE, open_folder, open_safetensors
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import find_non_finite
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.mutations import change_json, mutate_bytes, odd_value, special_file, to_json
from tests.make_huggingface import LLAMA_CONFIG, llama_tensors, write_folder
from tests.make_safetensors import Entry, build_raw, build_safetensors, entry, write_shards

_ODD: tuple[Any, ...] = ("F32", "U8", "BF16", "F8_E4M3", [0, 8], [8, 0], [2**62, 4], "\ud800")
LLAMA = {**LLAMA_CONFIG, "num_hidden_layers": 1, "hidden_size": 24, "intermediate_size": 33}
LLAMA |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 264}


@cache
def small_files() -> list[bytes]:
    values = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 12)
    floats = {"a": entry(values), "b": entry(values.astype(np.float16)), "c": entry(values, "BF16")}
    raw = {"q": entry(np.arange(36, dtype=np.uint8)), "none": entry(np.zeros((0, 3), np.int8))}
    return [build_safetensors(floats, {"format": "pt"}), build_safetensors(raw | floats)]


@cache
def llama(tied: bool) -> tuple[dict[str, Any], dict[str, Entry]]:
    config = {**LLAMA, "tie_word_embeddings": tied}
    return config, llama_tensors(config)


def use(case: Case) -> Result | None:
    rng, folder = case.rng, case.folder
    kind = rng.random()
    if kind < 0.4:
        path = folder / "x.safetensors"
        path.write_bytes(mutate_file(rng.choice(small_files()), rng))
        with open_safetensors(path) as file:
            return read_all(file)
    if kind < 0.7:
        write_mutated_shards(folder, rng)
        with open_folder(folder) as file:
            return read_all(file)
    return use_model(folder, rng)


def read_all(file: Any) -> None:
    for tensor in file.tensors.values():
        if tensor.dtype in FORMATS:
            find_non_finite(tensor)
            tensor.dequantize()
        tensor.data.tobytes()


def mutate_file(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return mutate_bytes(raw, rng)
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    for _ in range(rng.randint(1, 3)):
        change_json(header, rng, _odd)
    return build_raw(to_json(header), raw[8 + length :])


def _odd(rng: random.Random) -> Any:
    return rng.choice(_ODD) if rng.random() < 0.4 else odd_value(rng)


def write_mutated_shards(folder: Path, rng: random.Random) -> None:
    """A few tensors over two or three files, of which one is changed, or the index."""
    values = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 12)
    names = [f"model-{i}.safetensors" for i in range(rng.choice((2, 3)))]
    index = write_shards(folder, {n: {f"{n}.t": entry(values + i)} for i, n in enumerate(names)})
    choice, path = rng.random(), folder / rng.choice(names)
    if choice < 0.25:
        path.write_bytes(mutate_file(path.read_bytes(), rng))
    elif choice < 0.35:
        special_file(path, rng)
    elif choice < 0.45:
        index.write_bytes(mutate_bytes(index.read_bytes(), rng))
    elif choice < 0.5:
        special_file(index, rng)
    else:
        value = json.loads(index.read_text())
        for _ in range(rng.randint(1, 3)):
            change_json(value, rng)
        index.write_bytes(to_json(value))
    assert index.name == INDEX_FILE


def use_model(folder: Path, rng: random.Random) -> Result:
    """A whole llama, of which some tensors have other bytes, huge values, another type or shape."""
    config, tensors = llama(rng.random() < 0.5)
    tensors = dict(tensors)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(list(tensors))
        tensors[name] = changed_tensor(tensors[name], rng)
        if rng.random() < 0.1:
            tensors[name + rng.choice(("x", ".weight", ""))] = tensors.pop(name)
    write_folder(folder / "m", config, tensors, shards=rng.choice((1, 1, 2)))
    return whole.run(folder / "m", rng)


def changed_tensor(tensor: Entry, rng: random.Random) -> Entry:
    dtype, shape, raw = tensor
    choice = rng.random()
    if choice < 0.1:
        return dtype, shape[::-1], raw
    if choice < 0.2:
        return dtype, shape, mutate_bytes(raw, rng)[: len(raw)].ljust(len(raw), b"\x00")
    if choice < 0.3:
        return "I32", shape, raw
    if dtype != "F32":
        return dtype, shape, raw
    values = np.frombuffer(raw, "<f4").reshape(shape)
    with np.errstate(all="ignore"):
        values = (values * rng.choice((0, 1e-40, 1e4, 1e18, 1e30, 3e38))).astype(np.float32)
        return entry(values, rng.choice((None, None, "BF16")))


def prepare() -> None:
    whole.prepare()
    small_files()
    llama(True)
    llama(False)


DOOR = Door("safetensors", use, prepare)
