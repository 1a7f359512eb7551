"""These functions say how large a shared cache can be on the device of a model that runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llm_lite.core.exec.executor import Executor
from llm_lite.core.memory import available_bytes
from llm_lite.core.plan.plan import Kind, tensor_row_bytes
from llm_lite.core.plan.step import PAGE

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo


def free_bytes(info: DeviceInfo | None, executor: Executor) -> int | None:
    """Return the bytes free beside `executor`: of a device with its own memory, or else of this
    machine; None where the system does not say."""
    if info is None or info.kind != "discrete":
        return available_bytes()
    states = {t.name: t for t in executor.program.plans[0].tensors if t.kind is Kind.STATE}
    used = sum(t.shape[0] * tensor_row_bytes(t) for t in states.values())
    return max(0, info.memory_bytes - executor.weight_bytes - used)


def most_pages(info: DeviceInfo | None, row_bytes: Iterable[int]) -> int | None:
    """Return the most pages of caches with rows of these sizes, each of which a device binds
    whole; None where any number will do."""
    if info is None:
        return None
    return info.max_storage_buffer_range // (PAGE * max(row_bytes))
