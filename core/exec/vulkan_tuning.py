"""Shapes of workgroups and submits for a kind of device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.gpu.info import DeviceInfo

VECTOR = 8  # lanes of a workgroup of matmul_rows: what a vector unit does at once


@dataclass(frozen=True, slots=True)
class Tuning:
    """Workgroup shapes for a kind of device. Lanes are powers of two."""

    lanes: int = 64  # of elementwise kernels
    reduce_lanes: int = 128  # of rms_norm
    matvec_lanes: int = 32
    matvec_rows: int = 4  # outputs of one workgroup; at least 2, see MOST_PART_ROWS
    matvec_tokens: int = 8  # steps of more tokens are multiplied in tiles
    vector_tokens: int = 0  # products by vector units: tokens of one lane; 0 for real devices
    attention_lanes: int = 64
    share_heads: bool = False  # one attention workgroup serves all heads of a key/value head
    subgroups: bool = False
    shared_bytes: int = 16384  # the least that Vulkan promises a workgroup
    segment_work: int = 1 << 30  # multiply-adds of one command buffer, a few milliseconds

    @classmethod
    def of(cls, info: DeviceInfo) -> Tuning:
        if info.kind == "software":  # bound by dispatches and loads: much work for each lane
            vectors = info.features["subgroup_shuffle"] and info.subgroup_size >= VECTOR
            tuning = cls(
                reduce_lanes=16,
                vector_tokens=4 if vectors else 0,
                matvec_lanes=8,
                matvec_rows=8,
                matvec_tokens=1 << 16,  # always: tiles save nothing where nothing is cached
                attention_lanes=16,
                share_heads=True,
                segment_work=32 << 20 if vectors else 8 << 20,
            )
        else:
            work = 1 << 30 if info.kind == "discrete" else 1 << 28
            tuning = cls(matvec_lanes=max(32, min(64, info.subgroup_size)), segment_work=work)
        subgroups = info.features["subgroup_arithmetic"]
        return replace(tuning, subgroups=subgroups, shared_bytes=info.max_shared_memory)
