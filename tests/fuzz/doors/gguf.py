"""GGUF: bytes of small files changed, and whole models with absurd fields, tensors and weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.quant.registry import FORMATS, GGUF_FORMATS
from llm_lite.core.quant.tensor import find_non_finite
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.mutations import INTEGERS, TEXTS, mutate_bytes, odd_text
from tests.make_gguf import (
    SCALAR_CODES,
    Tensor,
    Typed,
    build_gguf,
    llama_metadata,
    llama_tensors,
    quantized,
)

# Native types as often as all others together: most cases are of them.
_DTYPES = tuple(name for name in GGUF_FORMATS for _ in range(4 if FORMATS[name].native else 1))
_RANGES = dict(zip("BbHhIiQq", ((b, s) for b in (8, 16, 32, 64) for s in (0, 1)), strict=True))


@cache
def small_files() -> list[bytes]:
    """Small valid files, which between them hold every value type and block type."""
    scalars: dict[str, object] = {f"s{kind}": Typed(kind, 1) for kind in SCALAR_CODES}
    inner = Typed(9, ["x", "yz"], 8)
    arrays = {"words": ["a", "bc", ""], "ints": [1, 2], "nested": Typed(9, [inner, inner], 9)}
    tensors = {f"t.{name}": quantized(name, _two_rows(name)) for name in GGUF_FORMATS}
    few = {"general.architecture": "llama", "general.alignment": 64}
    return [
        build_gguf(scalars | arrays, tensors),
        build_gguf(few, {"a": tensors["t.f32"], "b": tensors["t.q4_0"]}, alignment=64),
        build_gguf({"v": [b"\xff\xfe", b"word"] * 8}, {}, version=2),
    ]


def _two_rows(name: str) -> NDArray[np.float32]:
    columns = max(64, FORMATS[name].block_size)
    return np.linspace(-1, 1, 2 * columns, dtype=np.float32).reshape(2, columns)


@cache
def model(dtype: str, tied: bool) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Of one layer where blocks are large."""
    least = FORMATS[dtype].block_size
    size = replace(whole.TINY, dtype=dtype, tied=tied)
    if least > size.width:
        size = replace(size, layers=1, width=least, ffn=least)
    return llama_metadata(size), llama_tensors(size)


@cache
def model_bytes(dtype: str, tied: bool) -> bytes:
    return build_gguf(*model(dtype, tied))


def any_model(rng: random.Random) -> tuple[str, bool]:
    return rng.choice(_DTYPES), rng.random() < 0.5


def use(case: Case) -> Result | None:
    rng, path = case.rng, case.folder / "x.gguf"
    kind = rng.random()
    if kind < 0.35:
        path.write_bytes(mutate_bytes(rng.choice(small_files()), rng))
        return read_all(path)
    if kind < 0.55:
        path.write_bytes(mutate_bytes(model_bytes(*any_model(rng)), rng))
    else:
        path.write_bytes(absurd_model(rng))
    return whole.run(path, rng)


def read_all(path: Path) -> None:
    """Open a file and look at everything that is decoded late."""
    with open_gguf(path) as file:
        for value in file.metadata.values():
            if not isinstance(value, int | float | str):
                list(value)
        for tensor in file.tensors.values():
            find_non_finite(tensor)
            tensor.dequantize()


def absurd_model(rng: random.Random) -> bytes:
    """A tiny llama with one to three things changed that a reader may take for granted."""
    metadata, tensors = (dict(part) for part in model(*any_model(rng)))
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            change_metadata(metadata, rng)
        else:
            change_tensors(tensors, rng)
    version = rng.choice((3, 3, 3, 3, 2, 1, 4))
    return build_gguf(metadata, tensors, version=version, alignment=rng.choice((32, 32, 32, 8)))


def change_metadata(
    metadata: dict[str, object], rng: random.Random, more: Sequence[str] = ()
) -> None:
    """`more`: keys of the model's kind that may be added."""
    key = rng.choice(list(metadata))
    choice = rng.random()
    if choice < 0.1:
        del metadata[key]
    elif choice < 0.3 and isinstance(metadata[key], list) and metadata[key]:
        metadata[key] = _changed_list(list(metadata[key]), rng)  # type: ignore[call-overload]
    elif choice < 0.4:
        name = rng.choice((*_MORE_KEYS, *more))
        metadata[name] = odd_typed(rng)
    elif choice < 0.6 and type(metadata[key]) is int:
        metadata[key] = rng.choice([n for n in INTEGERS if 0 <= n < 1 << 32])
    else:
        metadata[key] = odd_typed(rng)


_MORE_KEYS = (
    *("general.alignment", "general.name", "general.architecture", "llama.expert_count"),
    *("llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.rope.pairing"),
    *("llama.attention.key_length", "llama.attention.value_length", "llama.vocab_size"),
    *("tokenizer.ggml.scores", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.bos_token_id"),
    *("tokenizer.ggml.eot_token_id", "tokenizer.chat_template", "gemma3n.block_count"),
)


def _changed_list(values: list[Any], rng: random.Random) -> object:
    choice = rng.random()
    at = rng.randrange(len(values))
    if choice < 0.25:
        return values[:at]
    if choice < 0.45:
        return values + values[: rng.choice((1, 3, 100))]
    if isinstance(values[0], str):
        values[at] = _sayable(odd_text(rng)) if choice < 0.8 else values[rng.randrange(len(values))]
    elif isinstance(values[0], float):
        values[at] = _scalar(6, rng)
        return Typed(9, values, 6)
    else:
        values[at] = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 255, 2**31))
        return Typed(9, values, rng.choice((4, 4, 10)))
    return values


def odd_typed(rng: random.Random) -> Typed:
    """A value of any of GGUF's types, as large or small as the type can be."""
    kind = rng.choice((*SCALAR_CODES, 8, 8, 9))
    if kind == 8:
        return Typed(8, _sayable(rng.choice(TEXTS)))
    if kind == 9:
        element = rng.choice((*SCALAR_CODES, 8))
        return Typed(9, [_scalar(element, rng) for _ in range(rng.choice((0, 1, 2, 7)))], element)
    return Typed(kind, _scalar(kind, rng))


def _scalar(kind: int, rng: random.Random) -> object:
    if kind == 8:
        return _sayable(rng.choice(TEXTS))
    code = SCALAR_CODES[kind]
    if code in "fd":
        return rng.choice((0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan"), 0.5))
    if code == "?":
        return rng.random() < 0.5
    bits, signed = _RANGES[code]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(high, max(low, rng.choice(INTEGERS)))


def _sayable(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def change_tensors(tensors: dict[str, Tensor], rng: random.Random) -> None:
    name = rng.choice(list(tensors))
    tensor = tensors[name]
    choice = rng.random()
    if choice < 0.1:
        del tensors[name]
    elif choice < 0.2:
        odd = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
        longer = name + (b"x" if isinstance(name, bytes) else "x")  # type: ignore[operator]
        tensors[rng.choice((longer, "blk.7.attn_q.weight", odd))] = tensor  # type: ignore[index]
    elif choice < 0.35:
        shape = rng.choice((tensor.shape[::-1], (1, *tensor.shape), tensor.shape[:1], (0,), ()))
        tensors[name] = replace(tensor, shape=shape)
    elif choice < 0.45:
        tensors[name] = replace(tensor, dtype=rng.choice(list(GGUF_FORMATS)))
    elif choice < 0.5:
        tensors[name] = replace(tensor, data=rng.randbytes(len(tensor.data)))
    else:
        tensors[name] = scaled(tensor, rng)


def scaled(tensor: Tensor, rng: random.Random) -> Tensor:
    """Huge, tiny, zero or not finite weights, which are all allowed in a file."""
    dtype = tensor.dtype if rng.random() < 0.7 else "f32"
    shape = tensor.shape
    values = np.random.default_rng(rng.getrandbits(32)).normal(0, 1, shape)
    with np.errstate(all="ignore"):
        values = (values * rng.choice((0, 1e-40, 1e4, 6e4, 1e18, 1e30, 3e38))).astype(np.float32)
        if values.size and rng.random() < 0.2:
            values.flat[rng.randrange(values.size)] = rng.choice((np.nan, np.inf, -np.inf))
        return quantized(dtype, values)


def prepare() -> None:
    whole.prepare()
    small_files()


DOOR = Door("gguf", use, prepare)
