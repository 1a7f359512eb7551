"""A plugin of pytest: every tensor of the C++ executor has memory of its own, of its exact size.

As it runs for people, scratch tensors share one arena and tiles one mapping, where a read behind a
tensor's end finds the next one: AddressSanitizer has nothing to say there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from llm_lite_kernels import _cpp
from numpy.typing import NDArray

from llm_lite.core.exec.cpu import weights
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.plan.plan import Kind, Plan, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.modes import Room

_address, _rows = CpuExecutor._address, CpuExecutor._rows


def _memory(executor: Any, tensor: Tensor) -> NDArray[np.uint8]:
    """Of a scratch tensor, as long as its executor lives."""
    own: dict[int, _cpp.Memory] = executor.__dict__.setdefault("_own", {})
    if id(tensor) not in own:
        own[id(tensor)] = _cpp.Memory(tensor.shape[0] * tensor_row_bytes(tensor))
    return np.asarray(own[id(tensor)])


def _own_address(self: CpuExecutor, tensor: Tensor) -> int:
    if tensor.kind is not Kind.SCRATCH:
        return _address(self, tensor)
    return int(_memory(self, tensor).ctypes.data)


def _own_rows(self: CpuExecutor, tensor: Tensor, step: Step) -> NDArray[np.uint8]:
    if tensor.kind is not Kind.SCRATCH:
        return _rows(self, tensor, step)
    return _memory(self, tensor).reshape(tensor.shape[0], -1)[: tensor.rows_in(step)]


def _own_logits(self: CpuExecutor, plan: Plan) -> NDArray[np.float32]:
    tensor = plan.tensors[plan.logits]
    return _memory(self, tensor).view(np.float32).reshape(tensor.shape)


def _own_room(sizes: Iterable[int]) -> Room:
    return lambda nbytes: np.empty(nbytes, np.uint8)


def pytest_configure(config: pytest.Config) -> None:
    changes = {"_address": _own_address, "_rows": _own_rows, "_logits_of": _own_logits}
    for name, function in changes.items():
        setattr(CpuExecutor, name, function)
    weights.room_for = _own_room
