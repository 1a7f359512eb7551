"""Models in several GGUF files: NAME-00001-of-00003.gguf and so on.

The first has all metadata, each its own tensors. `split.no` counts from 0, `split.count` says how
many there are, `split.tensors.count` how many tensors in all, as gguf-split of llama.cpp says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found

_NAME = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE)
_MOST = 10_000
NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"


def parts_behind(path: Path, metadata: Mapping[str, Any]) -> list[Path]:
    """The files that belong to the first one; none of a model in one file. FileError where this is
    not the first, or its name does not say what its metadata says."""
    count = metadata.get(COUNT, 0)
    if type(count) is not int or not 0 <= count <= _MOST:
        raise FileError(path, f"{COUNT} is {found(count)}, expected a number up to {_MOST}")
    if count <= 1:
        return []
    match = _NAME.fullmatch(path.name)
    if match is None or int(match[3]) != count:
        raise FileError(
            path,
            f"is one of {count} parts, which find each other by name: expected a name that ends "
            f"with -00001-of-{count:05}.gguf",
        )
    number = metadata.get(NUMBER)
    if number != 0 or int(match[2]) != 1:
        first = path.with_name(f"{match[1]}-00001-of-{count:05}{path.suffix}")
        raise FileError(path, f"is not the first of {count} parts: open {first}")
    return [
        path.with_name(f"{match[1]}-{part:05}-of-{count:05}{path.suffix}")
        for part in range(2, count + 1)
    ]


def check_part(path: Path, metadata: Mapping[str, Any], number: int, count: int) -> None:
    """FileError where it is not this part of as many."""
    told = metadata.get(NUMBER), metadata.get(COUNT)
    if told != (number, count):
        shown = f"{NUMBER} {found(told[0])} and {COUNT} {found(told[1])}"
        raise FileError(path, f"expected {NUMBER} {number} and {COUNT} {count}, found {shown}")


def check_tensors(path: Path, metadata: Mapping[str, Any], count: int) -> None:
    """FileError where the parts have not all tensors together."""
    expected = metadata.get(TENSORS, count)
    if expected != count:
        raise FileError(path, f"{TENSORS}: expected {found(expected)} in all parts, found {count}")
