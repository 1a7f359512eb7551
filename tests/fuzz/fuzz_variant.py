"""Mutate small variants: their reader may only say FileError or UnsupportedError, and quickly.

    python -m tests.fuzz.fuzz_variant --count 20000 --seed 1

One of the three files is changed: its bytes as `fuzz_gguf` does, its JSON as JSON; most times the
manifest's sizes are made right again, so that readers are reached that come after that check.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from core.formats.tensor import find_non_finite
from core.formats.variant import MANIFEST_FILE, METADATA_FILE, to_json
from core.formats.variant_writer import Slot, VariantWriter
from core.models.registry import read_model
from core.quant.registry import FORMATS
from core.sources import open_source
from tests.fuzz import fuzz_gguf, fuzz_safetensors
from tests.make_gguf import TinyLlama, llama_metadata, llama_tensors

WEIGHTS = "model.safetensors"
FILES = (MANIFEST_FILE, METADATA_FILE, WEIGHTS)
_TINY = TinyLlama(layers=1, dtype="f32")


def seed_files() -> list[bytes]:
    """A whole variant of a tiny llama, whose matrices are of all modes; packed as `pack` does."""
    tensors, data = llama_tensors(_TINY), {}
    formats = ("int4", "int8", "f16", "f32")
    slots = []
    for i, (name, tensor) in enumerate(tensors.items()):
        dtype = formats[i % 4] if len(tensor.shape) > 1 else "f32"
        values = np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)
        data[name] = FORMATS[dtype].quantize(values)
        slots.append(Slot(name, dtype, tensor.shape, len(data[name])))
    metadata = to_json(llama_metadata(_TINY))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "v"
        with VariantWriter(place, slots, {METADATA_FILE: metadata}, "int4") as writer:
            for slot in slots:
                writer.add(data[slot.name])
            writer.finish({"tokenizer": _identity(place.parent), "source": {}, "report": {}})
        return [pack({name: (place / name).read_bytes() for name in FILES})]


def _identity(folder: Path) -> str:
    from core.tokenizer import Tokenizer

    return Tokenizer.from_gguf(llama_metadata(_TINY), folder).identity


def pack(files: dict[str, bytes]) -> bytes:
    """Several files as one, since the fuzzer's cases are single files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, raw in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
    return target.getvalue()


def unpack(raw: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return {entry.name: _bytes(archive, entry) for entry in archive}


def _bytes(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(entry)
    assert stream is not None
    return stream.read()


def mutate(raw: bytes, rng: random.Random) -> bytes:
    files = unpack(raw)
    name = rng.choice((MANIFEST_FILE, METADATA_FILE, METADATA_FILE, WEIGHTS, WEIGHTS))
    if name == WEIGHTS:
        files[name] = _mutate_weights(files[name], rng)
    else:
        files[name] = _mutate_json(files[name], rng)
    if name != MANIFEST_FILE and rng.random() < 0.9:
        manifest = json.loads(files[MANIFEST_FILE])
        manifest["files"][name] = len(files[name])
        files[MANIFEST_FILE] = json.dumps(manifest).encode()
    return pack(files)


def _mutate_weights(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        return fuzz_safetensors.mutate(raw, rng)
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    described = json.loads(header["__metadata__"]["tensors"])
    fuzz_safetensors.change(described, rng)
    header["__metadata__"]["tensors"] = json.dumps(described)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text + raw[8 + length :]


def _mutate_json(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return fuzz_gguf.mutate(raw, rng)
    value = json.loads(raw)
    for _ in range(rng.randint(1, 3)):
        fuzz_safetensors.change(value, rng)
    return json.dumps(value).encode()


def use(path: Path) -> None:
    """All that is done with a variant until it runs."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for name, raw in unpack(path.read_bytes()).items():
        (folder / name).write_bytes(raw)
    source = open_source(folder)
    model = read_model(source.metadata, source.tensors, source.path)
    source.template(source.tokenizer(model.shape.vocabulary))
    for tensor in source.tensors.values():
        find_non_finite(tensor)
        tensor.dequantize()
    source.close()


TARGET = fuzz_gguf.Target("tar", seed_files, mutate, use, time_limit_s=0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-variant-"))
    outcomes = fuzz_gguf.fuzz(options.count, options.seed, folder, TARGET)
    print(f"{options.count} variants: " + ", ".join(f"{n} {w}" for w, n in outcomes.items()))


if __name__ == "__main__":
    main()
