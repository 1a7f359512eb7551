"""Shapes of workgroups and submits for a kind of device."""

from __future__ import annotations

import math

from msgspec import Struct

from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.quant.formats import TILE_ROWS
from llm_lite.core.records import replace

MATRIX_PART = 32  # outputs of a subgroup with cooperative matrices, each way
MATRIX_TILE_BYTES = 10_496  # of the factors in its shared memory; beside them results, float32
MATRIX_SUBGROUPS = 4  # of a workgroup, which makes twice as many each way
VECTOR = 8  # lanes of a workgroup of matmul_rows: what a vector unit does at once


def unfit_heads(head_dim: int) -> str:
    """Return why the kernels, which read values in pairs, cannot attend with heads of this size; ""
    if they can."""
    if head_dim % 2 == 0:
        return ""
    return f"attention heads of {head_dim} values: on Vulkan their number must be even"


def shuffles_vectors(info: DeviceInfo) -> bool:
    """Return True if the 8 lanes of matmul_rows can read each other's values: without that it would
    be wrong."""
    return info.features["subgroup_shuffle"] and info.subgroup_size >= VECTOR


class Tuning(Struct, frozen=True):
    """Workgroup shapes for a kind of device. Lanes are powers of two."""

    lanes: int = 64  # of elementwise kernels
    reduce_lanes: int = 128  # of rms_norm
    block_lanes: int = 8  # that share a block of 32 values which they quantize
    matvec_lanes: int = 32
    matvec_rows: int = 4  # outputs of one workgroup; at least 2, see MOST_PART_ROWS
    matvec_tokens: int = 8  # steps of more tokens are multiplied in tiles
    tile_lanes: int = 0  # lanes of matvec that have a row each of a tile of weights: 16; 0: none
    most_lanes: int = 128  # of a workgroup, a power of two; Vulkan promises so many
    tile: int = 4  # outputs of one lane of matmul along each side, at most
    integer_dot: bool = False  # one instruction for four products of a8
    matrix: tuple[int, int, int] = (0, 0, 0)  # M, N, K of cooperative matrices; zeros: none
    subgroup_size: int = 32
    vector_tokens: int = 0  # products by vector units: tokens of one lane; 0 for real devices
    attention_lanes: int = 64
    attention_splits: int = 1  # workgroups that share a head's positions in a step of one token
    attention_share: int = 256  # positions that are worth one of them
    share_heads: bool = False  # one attention workgroup serves all heads of a key/value head
    subgroups: bool = False
    shared_bytes: int = 16384  # the least that Vulkan promises a workgroup
    segment_work: int = 1 << 30  # multiply-adds of one command buffer, a few milliseconds
    piece_groups: int = 1  # workgroups that a dispatch is not cut below: fewer leave a device idle

    @classmethod
    def of(cls, info: DeviceInfo) -> Tuning:
        if info.kind == "software":  # bound by dispatches and loads: much work for each lane
            vectors = shuffles_vectors(info) and info.reads_texels
            tuning = cls(
                reduce_lanes=16,
                block_lanes=1,
                vector_tokens=4 if vectors else 0,
                matvec_lanes=8,
                matvec_rows=8,
                matvec_tokens=1 << 16,  # always: tiles save nothing where nothing is cached
                attention_lanes=16,
                share_heads=True,
                segment_work=32 << 20 if vectors else 8 << 20,
            )
        else:
            large = info.kind == "discrete"
            tuning = cls(
                matvec_lanes=max(32, min(64, info.subgroup_size)),
                tile_lanes=TILE_ROWS,
                most_lanes=256 if info.max_workgroup_invocations >= 256 else 128,
                tile=8 if large else 4,
                attention_splits=16 if large else 4,
                integer_dot=info.features["integer_dot_accelerated"],
                matrix=largest_matrix(info),
                segment_work=1 << 30 if large else 1 << 28,
                piece_groups=256 if large else 64,
            )
        subgroups = info.features["subgroup_arithmetic"]
        return replace(
            tuning,
            subgroups=subgroups,
            subgroup_size=info.subgroup_size,
            shared_bytes=info.max_shared_memory,
        )


def largest_matrix(info: DeviceInfo) -> tuple[int, int, int]:
    """Return M, N, K of the largest cooperative matrices that matmul_matrix can be made of; or
    zeros."""
    if MATRIX_SUBGROUPS * info.subgroup_size > info.max_workgroup_invocations:
        return (0, 0, 0)
    fit = (m for m in info.matrices if all(MATRIX_PART % side == 0 for side in m))
    room = info.max_shared_memory - MATRIX_TILE_BYTES
    fit = (m for m in fit if 4 * MATRIX_SUBGROUPS * m[0] * m[1] <= room)
    return max(fit, key=math.prod, default=(0, 0, 0))
