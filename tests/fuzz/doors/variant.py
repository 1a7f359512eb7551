"""Variants: manifest, metadata and weights of a small one, bytes and JSON changed.

Most times the manifest's sizes are made right again, so that readers are reached that come after
that check.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import numpy as np

from llm_lite.core.formats import variant_reader as reader
from llm_lite.core.formats.variant_reader import MANIFEST_FILE, METADATA_FILE
from llm_lite.core.formats.variant_writer import Slot, VariantWriter
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import find_non_finite
from llm_lite.core.text.tokenizer import Tokenizer
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.doors.safetensors import mutate_file
from tests.fuzz.mutations import change_json, mutate_bytes, special_file, to_json
from tests.make_gguf import TinyLlama, llama_metadata, llama_tensors

WEIGHTS = "model.safetensors"
FILES = (MANIFEST_FILE, METADATA_FILE, WEIGHTS)
_TINY = TinyLlama(layers=1, width=32, heads=2, kv_heads=1, ffn=64, vocab=264, dtype="f32")


@cache
def variant() -> dict[str, bytes]:
    """The files of a whole variant of a tiny llama, whose matrices are of all modes."""
    tensors, data, slots = llama_tensors(_TINY), {}, []
    formats = ("int4", "int8", "f16", "f32")
    for i, (name, tensor) in enumerate(tensors.items()):
        dtype = formats[i % 4] if len(tensor.shape) > 1 else "f32"
        values = np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)
        data[name] = FORMATS[dtype].quantize(values)
        slots.append(Slot(name, dtype, tensor.shape, len(data[name])))
    metadata = reader.to_json(llama_metadata(_TINY))
    place = Path.cwd() / "tmp" / "v"
    identity = Tokenizer.from_gguf(llama_metadata(_TINY), place).identity
    with VariantWriter(place, slots, {METADATA_FILE: metadata}, "int4") as writer:
        for slot in slots:
            writer.add(data[slot.name])
        writer.finish({"tokenizer": identity, "source": {}, "report": {}})
    return {path.name: path.read_bytes() for path in place.iterdir()}


def use(case: Case) -> Result | None:
    folder = case.folder / "v"
    folder.mkdir()
    for name, raw in mutated(dict(variant()), case.rng).items():
        (folder / name).write_bytes(raw)
    if case.rng.random() < 0.01:
        special_file(folder / case.rng.choice(FILES), case.rng)
    return whole.run(folder, case.rng) if case.rng.random() < 0.5 else read_all(folder)


def read_all(folder: Path) -> None:
    """All that is done with a variant until it runs."""
    source = open_source(folder)
    model = read_model(source.metadata, source.tensors, source.path)
    source.template(source.tokenizer(model.shape.vocabulary))
    for tensor in source.tensors.values():
        find_non_finite(tensor)
        tensor.dequantize()
    source.close()


def mutated(files: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    name = rng.choice((MANIFEST_FILE, METADATA_FILE, METADATA_FILE, WEIGHTS, WEIGHTS))
    if name == WEIGHTS:
        files[name] = _mutate_weights(files[name], rng)
    else:
        files[name] = _mutate_json(files[name], rng)
    if name != MANIFEST_FILE and rng.random() < 0.9:
        manifest = json.loads(files[MANIFEST_FILE])
        manifest["files"][name] = len(files[name])
        files[MANIFEST_FILE] = json.dumps(manifest).encode()
    return files


def _mutate_weights(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        return mutate_file(raw, rng)
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    described = json.loads(header["__metadata__"]["tensors"])
    change_json(described, rng)
    header["__metadata__"]["tensors"] = to_json(described).decode()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text + raw[8 + length :]


def _mutate_json(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return mutate_bytes(raw, rng)
    value = json.loads(raw)
    for _ in range(rng.randint(1, 3)):
        change_json(value, rng)
    return to_json(value)


def prepare() -> None:
    whole.prepare()
    variant()


DOOR = Door("variant", use, prepare)
