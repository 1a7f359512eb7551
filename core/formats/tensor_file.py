"""The common interface of open files of named tensors, whatever their format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from msgspec import Struct

from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import repr_without


class TensorFile(Struct, eq=False):
    """An open file, closed at the end of a `with` block.

    Tensors handed out stay valid after `close`: the mapping goes when the last of them does.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorData]
    __repr__ = repr_without("metadata", "tensors")

    def close(self) -> None:
        self.metadata = MappingProxyType({})
        self.tensors = MappingProxyType({})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
