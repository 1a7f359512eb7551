"""Mutate small GGUF files: a reader may only say FileError or UnsupportedError, and quickly.

    python -m tests.fuzz.fuzz_gguf --count 100000 --seed 1

A file that breaks this rule is kept in the temporary folder and named.
"""

from __future__ import annotations

import argparse
import gc
import random
import struct
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import FileError, UnsupportedError
from core.formats.gguf import open_gguf
from core.formats.tensor import find_non_finite
from core.quant.registry import GGUF_FORMATS
from tests.make_gguf import Typed, build_gguf, quantized

TIME_LIMIT_S = 0.05
TRIES = 3
MEMORY_LIMIT_BYTES = 4 << 20
_EDGES = (0, 1, 2, 7, 8, 9, 31, 32, 33, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1)


class FuzzError(AssertionError):
    """The reader broke its promise on a mutated file."""


def seed_files() -> list[bytes]:
    """Small valid files, which between them hold every value type and block type."""
    scalars: dict[str, object] = {
        f"s{kind}": Typed(kind, 1) for kind in (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12)
    }
    inner = Typed(9, ["x", "yz"], 8)
    arrays = {"words": ["a", "bc", ""], "ints": [1, 2], "nested": Typed(9, [inner, inner], 9)}
    values = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    tensors = {f"t.{name}": quantized(name, values) for name in GGUF_FORMATS}
    few = {"general.architecture": "llama", "general.alignment": 64}
    return [
        build_gguf(scalars | arrays, tensors),
        build_gguf(few, {"a": tensors["t.f32"], "b": tensors["t.q4_0"]}, alignment=64),
        build_gguf({"v": [b"\xff\xfe", b"word"] * 8}, {}, version=2),
    ]


def mutate(raw: bytes, rng: random.Random) -> bytes:
    """One to four random changes."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        rng.choice(_MUTATIONS)(data, rng)
    return bytes(data)


def _flip_bit(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 8, 9, 0x7F, 0x80, 0xFF))


def _plant_number(data: bytearray, rng: random.Random) -> None:
    """Write an edge value over 4 or 8 bytes, as a count, length, type or offset."""
    width, code = rng.choice(((4, "<I"), (8, "<Q")))
    if len(data) >= width:
        at = rng.randrange(len(data) - width + 1)
        data[at : at + width] = struct.pack(code, rng.choice(_EDGES) % (1 << 8 * width))


def _nudge_number(data: bytearray, rng: random.Random) -> None:
    if len(data) >= 8:
        at = rng.randrange(len(data) - 7)
        number = int.from_bytes(data[at : at + 8], "little") + rng.choice((-32, -1, 1, 32))
        data[at : at + 8] = (number % 2**64).to_bytes(8, "little")


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randint(0, len(data)) :]


def _delete(data: bytearray, rng: random.Random) -> None:
    at = rng.randint(0, len(data))
    del data[at : at + rng.randint(1, 16)]


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randint(0, len(data))
    data[at:at] = rng.randbytes(rng.randint(1, 16))


def _copy_piece(data: bytearray, rng: random.Random) -> None:
    source, at = rng.randint(0, len(data)), rng.randint(0, len(data))
    piece = data[source : source + rng.randint(1, 64)]
    data[at : at + len(piece)] = piece


_MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip_bit, _set_byte, _plant_number, _plant_number, _nudge_number),
    *(_truncate, _delete, _insert, _copy_piece),
)


def use(path: Path) -> None:
    """Open a file and look at everything that is decoded late."""
    with open_gguf(path) as file:
        for value in file.metadata.values():
            if not isinstance(value, int | float | str):
                list(value)
        for tensor in file.tensors.values():
            find_non_finite(tensor)
            tensor.dequantize()


def check(
    raw: bytes,
    path: Path,
    use: Callable[[Path], None] = use,
    time_limit_s: float = TIME_LIMIT_S,
) -> str:
    """How the reader took the file: 'read' or the name of the allowed error.

    A file that took too long is read again: a reader is as slow each time, a busy machine is not.
    """
    path.write_bytes(raw)
    for _ in range(TRIES):
        outcome, seconds = _timed(path, use)
        if seconds <= time_limit_s:
            return outcome
    raise FuzzError(f"{path}: took {seconds * 1000:.0f} ms, {TRIES} times over the limit")


def _timed(path: Path, use: Callable[[Path], None]) -> tuple[str, float]:
    """What came of reading a file, and the seconds of this thread that it took."""
    gc.collect(0)
    gc.disable()  # a collection of all that other tests left would count as the reader's time
    start = time.thread_time()
    try:
        with np.errstate(all="ignore"):  # the values may be anything
            use(path)
        outcome = "read"
    except (FileError, UnsupportedError) as error:
        outcome = type(error).__name__
        if "\n" in str(error) or len(str(error)) > 1000:
            raise FuzzError(f"{path}: message is not one sentence: {error}") from error
    except Exception as error:
        raise FuzzError(f"{path}: {type(error).__name__} escaped: {error}") from error
    finally:
        gc.enable()
    return outcome, time.thread_time() - start


@dataclass(frozen=True)
class Target:
    """A reader: valid files for it, what changes them, and what looks at all of a file."""

    suffix: str
    seeds: Callable[[], list[bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    use: Callable[[Path], None]
    time_limit_s: float = TIME_LIMIT_S


GGUF = Target("gguf", seed_files, mutate, use)


def fuzz(count: int, seed: int, folder: Path, target: Target = GGUF) -> Counter[str]:
    """Check `count` mutated files, memory included; the file of a failure stays in `folder`."""
    rng, seeds, outcomes = random.Random(seed), target.seeds(), Counter[str]()
    path = folder / f"fuzz-{seed}.{target.suffix}"
    for raw in seeds:
        assert check(raw, path, target.use, target.time_limit_s) == "read", (
            "a seed file must be valid"
        )
    tracemalloc.start()
    try:
        for _ in range(count):
            tracemalloc.reset_peak()
            raw = target.mutate(rng.choice(seeds), rng)
            outcomes[check(raw, path, target.use, target.time_limit_s)] += 1
            if (peak := tracemalloc.get_traced_memory()[1]) > MEMORY_LIMIT_BYTES:
                raise FuzzError(f"{path}: needed {peak} bytes of memory")
    finally:
        tracemalloc.stop()
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes = fuzz(options.count, options.seed, Path(tempfile.mkdtemp(prefix="fuzz-gguf-")))
    print(f"{options.count} files: " + ", ".join(f"{n} {what}" for what, n in outcomes.items()))


if __name__ == "__main__":
    main()
