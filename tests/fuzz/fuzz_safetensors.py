"""Mutate small safetensors files: a reader may only say FileError or UnsupportedError, and quickly.

    python -m tests.fuzz.fuzz_safetensors --count 100000 --seed 1

Changes the bytes as `fuzz_gguf` does, or the JSON of the header as JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from core.formats.safetensors import open_safetensors
from core.formats.tensor import find_non_finite
from core.quant.registry import FORMATS
from tests.fuzz import fuzz_gguf
from tests.make_safetensors import build_raw, build_safetensors, entry

_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 8, 2**31, 2**63, 2**64, -(2**63), 10**40, 0.5, True, None, "", "F32", "U8"),
    *([], {}, [0, 8], [8, 0], [2**62, 4], "\ud800"),
)


def seed_files() -> list[bytes]:
    values = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 12)
    floats = {"a": entry(values), "b": entry(values.astype(np.float16)), "c": entry(values, "BF16")}
    raw = {"q": entry(np.arange(36, dtype=np.uint8)), "none": entry(np.zeros((0, 3), np.int8))}
    return [build_safetensors(floats, {"format": "pt"}), build_safetensors(raw | floats)]


def mutate(raw: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return fuzz_gguf.mutate(raw, rng)
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    for _ in range(rng.randint(1, 3)):
        change(header, rng)
    return build_raw(header, raw[8 + length :])


def change(header: dict[str, Any], rng: random.Random) -> None:
    """Replace, add or remove a value somewhere in an object of JSON."""
    node: Any = header
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if not isinstance(node[key], dict | list) or rng.random() < 0.3:
            break
        node = node[key]
    choice = rng.random()
    if choice < 0.2:
        del node[key]
    elif choice < 0.4 and isinstance(node[key], int):
        node[key] += rng.choice((-1, 1, 4))
    else:
        node[key] = copy.deepcopy(rng.choice(_VALUES))


def use(path: Path) -> None:
    """Open a file and look at every tensor."""
    with open_safetensors(path) as file:
        for tensor in file.tensors.values():
            if tensor.dtype in FORMATS:
                find_non_finite(tensor)
                tensor.dequantize()
            tensor.data.tobytes()


TARGET = fuzz_gguf.Target("safetensors", seed_files, mutate, use)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-safetensors-"))
    outcomes = fuzz_gguf.fuzz(options.count, options.seed, folder, TARGET)
    print(f"{options.count} files: " + ", ".join(f"{n} {what}" for what, n in outcomes.items()))


if __name__ == "__main__":
    main()
