"""The allocations of a Vulkan executor, computed without a device: its own sizes, added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from llm_lite.core.exec.vulkan.alike import fusions_of
from llm_lite.core.exec.vulkan.attention import attention_part_bytes
from llm_lite.core.exec.vulkan.executor import READBACK_BYTES, TABLE_BYTES
from llm_lite.core.exec.vulkan.fusion import groups_of, placed
from llm_lite.core.exec.vulkan.memory import WeightPart, buffer_sizes, part_bytes, total
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.gpu.memory import STAGING_BYTES
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.plan.plan import Kind, Program, Tensor, tensor_row_bytes


class Allocations(Struct, frozen=True):
    """The bytes of the buffers."""

    weights: int
    states: int
    scratch: int
    host: int  # that the host sees: staging, logits, rows of tables


class _NowhereTogether:
    """Matrices whose places are not known. Only a step of one token puts them together,
    and its scratch is the smallest."""

    def stack(self, names: Sequence[str]) -> WeightPart | None:
        return None


def device_allocations(
    program: Program, weights: Iterable[WeightSpec], info: DeviceInfo
) -> Allocations:
    """Return what the executor would allocate; `weights` in the order of the plans. DeviceError
    where one cannot be bound."""
    plans = program.plans
    tensors = {t.name: t for plan in plans for t in plan.tensors}
    states = [_bytes(t) for t in tensors.values() if t.kind is Kind.STATE]
    rows = [t for t in tensors.values() if t.kind is Kind.TABLE]
    largest = plans[-1]
    groups = groups_of(largest, _NowhereTogether(), fusions_of(program, Tuning.of(info)))
    scratch = placed(largest, groups).scratch_bytes
    logits = max(_bytes(plan.tensors[plan.logits]) for plan in plans)
    return Allocations(
        weights=sum(buffer_sizes(size for spec in weights for size in part_bytes(spec, info))),
        states=sum(buffer_sizes(states)),
        scratch=max(scratch, *(plan.scratch_bytes for plan in plans))
        + total(attention_part_bytes(program, Tuning.of(info)))
        + TABLE_BYTES,
        host=STAGING_BYTES
        + min(READBACK_BYTES, logits)
        + 4 * program.step_words
        + sum(4 * program.max_tokens * t.shape[1] for t in rows),
    )


def _bytes(tensor: Tensor) -> int:
    return tensor.shape[0] * tensor_row_bytes(tensor)
