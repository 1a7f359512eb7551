"""What is wrong with a header that the `safetensors` package refuses.

The package names few tensors in its errors, and neither what it expected nor what it found. This
reads such a header again and finds the sentence; nothing that it reads is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, parse_object
from llm_lite.core.plain_text import quote

VALUE_BITS = {
    "F4": 4,
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
MAX_DIMENSIONS = 8
DATA_END = "the tensors end at byte {} of the data"


def refused_header(file: Path, raw: bytes, size: int, reason: str) -> FileError:
    """`size`: bytes of data behind the header; `reason`: what the package said."""
    try:
        header = parse_object(raw, file, "the header")
    except FileError as error:
        return error
    problem = next(_problems(header, size), f"is not a safetensors file: {reason[:200]}")
    return FileError(file, problem)


def _problems(header: dict[str, Any], size: int) -> Iterator[str]:
    yield from _metadata_problems(header.pop("__metadata__", {}))
    for name, entry in header.items():
        yield from _entry_problems(f"tensor {quote(name)}", entry, size)
    yield from _cover_problems(header, size)


def _metadata_problems(value: object) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"__metadata__ is {found(value)}, expected an object of strings"
        return
    for key, text in value.items():
        if not isinstance(text, str):
            yield f"__metadata__ {quote(key)} is {found(text)}, expected a string"


def _entry_problems(what: str, entry: object, size: int) -> Iterator[str]:
    """The first one counts: what follows it takes the fields to be as they should."""
    if not isinstance(entry, Mapping):
        yield f"{what} is {found(entry)}, expected an object"
        return
    for key in ("dtype", "shape", "data_offsets"):
        if key not in entry:
            yield f"{what} has no {key}"
            return
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in VALUE_BITS:
        yield f"{what} has dtype {found(dtype)}, expected one of {', '.join(VALUE_BITS)}"
    elif not _are_integers(shape):
        yield f"{what} has shape {found(shape)}, expected a list of integers"
    elif len(shape) > MAX_DIMENSIONS:
        yield f"{what} has {len(shape)} dimensions, expected at most {MAX_DIMENSIONS}"
    elif not _are_integers(offsets) or len(offsets) != 2:
        yield f"{what} has data_offsets {found(offsets)}, expected two integers"
    elif not all(0 <= n <= 8 * size for n in shape):
        yield f"{what} has shape {str(shape)[:80]}, but the file has {size} bytes of data"
    elif not 0 <= offsets[0] <= offsets[1] <= size:
        yield (
            f"{what} has data_offsets {str(offsets)[:80]}, expected an ascending pair up to "
            f"{size}, the bytes of data in the file (truncated?)"
        )
    elif (bits := math.prod(shape) * VALUE_BITS[dtype]) != 8 * (offsets[1] - offsets[0]):
        yield (
            f"{what} of {dtype} {str(tuple(shape))[:80]} has {offsets[1] - offsets[0]} bytes, "
            f"expected {bits / 8:g}"
        )


def _are_integers(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int for n in value)


def _cover_problems(header: Mapping[str, Any], size: int) -> Iterator[str]:
    """The format allows neither gaps nor overlaps: each byte of data is one tensor's."""
    ordered = sorted((*entry["data_offsets"], name) for name, entry in header.items())
    if ordered and ordered[0][0]:
        yield f"tensor {quote(ordered[0][2])} begins at byte {ordered[0][0]}, expected 0"
    for (_, end, before), (begin, _, name) in pairwise(ordered):
        if begin != end:
            yield (
                f"tensor {quote(name)} begins at byte {begin} of the data, expected {end}, "
                f"where tensor {quote(before)} ends"
            )
    end = ordered[-1][1] if ordered else 0
    if end != size:
        yield f"{DATA_END.format(end)}, but the file has {size}"
