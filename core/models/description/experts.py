"""The fields and tensors of mixtures of experts, which architectures add to those of decoders.

Sources: as of `core.models.description.decoder`. GGUF files have the matrices of all experts of a
layer in one tensor, one behind the other; checkpoints have a tensor each, which are joined.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from llm_lite.core.errors import FileError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_COUNT
from llm_lite.core.models.description.decoder import WIDTH, DecoderConfig
from llm_lite.core.models.description.rows import FieldRow, Known, UnfitError, flag, integer, row
from llm_lite.core.models.description.tensors import FusedRow, of_layer
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.quant.blocks.code_tables import MXFP4
from llm_lite.core.quant.formats import TILE_ROWS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

_BLOCKS, _SCALES = "_blocks", "_scales"  # end the names of packed tensors
_OF_EXPERT = re.compile(r"(.*\.experts)\.([0-9]{1,5})\.(.*)")


def whole_tiles(value: Any, known: Known) -> int:
    width = integer()(value, known)
    if width % TILE_ROWS:
        raise UnfitError(f"a multiple of {TILE_ROWS}", value)
    return width


def _count(config: CheckpointConfig, known: Known) -> int | None:
    """Return the number of experts, which has two names: `num_experts` on the hub, and another as
    transformers writes it."""
    key = "num_experts" if config.get("num_experts") is not None else "num_local_experts"
    return None if config.get(key) is None else config.integer(key, at_most=LARGEST_COUNT)


EXPERTS = FieldRow("expert_count", _count, integer(most=LARGEST_COUNT))
CHOSEN = FieldRow("expert_used_count", "num_experts_per_tok", integer(most="experts"))
EXPERT_WIDTH = FieldRow("expert_feed_forward_length", "moe_intermediate_size", whole_tiles)
NORMALIZED = FieldRow("expert_weights_norm", "norm_topk_prob", flag, default=True, assumed=False)


class Experts(Protocol):
    """The fields that blocks of experts read. experts: of a layer; `chosen`: those used for a
    token; normalized: the shares of those chosen add up to 1."""

    @property
    def width(self) -> int: ...
    @property
    def experts(self) -> int: ...
    @property
    def chosen(self) -> int: ...
    @property
    def normalized(self) -> bool: ...
    @property
    def expert_width(self) -> int: ...  # of the hidden values of one
    @property
    def eps(self) -> float: ...
    @property
    def shape(self) -> ModelShape: ...


class ExpertRows:
    """The rows of the matrices of all experts of a layer, for configs that are `Experts`."""

    __slots__ = ()

    @property
    def inner_rows(self: Experts) -> int:
        """Return the rows of those into the hidden values."""
        return self.experts * self.expert_width

    @property
    def both_rows(self: Experts) -> int:
        """Return the rows of those of gate and up as one."""
        return 2 * self.experts * self.expert_width

    @property
    def outer_rows(self: Experts) -> int:
        """Return the rows of those out of the hidden values."""
        return self.experts * self.width


class ExpertsConfig(ExpertRows, DecoderConfig, frozen=True, kw_only=True):
    """The fields of decoders all of whose layers have experts; see `Experts`."""

    width: int = row(replace(WIDTH, check=whole_tiles))
    experts: int = row(EXPERTS)
    chosen: int = row(CHOSEN)
    expert_width: int = row(EXPERT_WIDTH)
    normalized: bool = row(NORMALIZED)


BOTH = "ffn_gate_up_exps.weight"  # the gate and the up of each expert, one behind the other


def has_both(weights: Mapping[str, WeightSpec]) -> bool:
    """Return whether a file has the gates and ups of experts as one matrix of each expert."""
    return any(name.endswith(BOTH) for name in weights)


ROUTER = of_layer("ffn_gate_inp.weight", "mlp.gate.weight", "experts", "width")
EXPERT_TENSORS = (
    of_layer("ffn_gate_exps.weight", "mlp.experts.gate_proj.weight", "inner_rows", "width"),
    of_layer("ffn_up_exps.weight", "mlp.experts.up_proj.weight", "inner_rows", "width"),
    of_layer("ffn_down_exps.weight", "mlp.experts.down_proj.weight", "outer_rows", "expert_width"),
)


_GATE, _UP, _DOWN = EXPERT_TENSORS
# The same where a GGUF file may have gates and ups as one, which configs know as `has_both`.
EXPERTS_OR_BOTH = (
    *(replace(one, optional=lambda c, _: c.has_both) for one in (_GATE, _UP)),
    _DOWN,
    of_layer(BOTH, None, "both_rows", "width", optional=lambda c, _: not c.has_both),
)


def stacks_of_checkpoints(gate_up: str, down: str) -> tuple[FusedRow, FusedRow]:
    """Return the rows of what checkpoints have as one tensor of all experts each, under these names
    behind "layers.{i}.": [E, 2 * F, K], the gate and the up of each expert, and [E, K, F]."""
    return (
        FusedRow(
            "blk.{i}.ffn_gate_up_exps.of_checkpoint",
            f"layers.{{i}}.{gate_up}",
            (_GATE, _UP),
            changed=_gates_first,
        ),
        FusedRow(
            "blk.{i}.ffn_down_exps.of_checkpoint",
            f"layers.{{i}}.{down}",
            (_DOWN,),
            changed=_stacked,
        ),
    )


def _stacked(tensor: TensorData) -> TensorData:
    """[E, N, K] -> [E * N, K]; one of another shape stays, and is refused by it."""
    if len(tensor.shape) != 3:
        return tensor
    experts, rows, columns = tensor.shape
    return replace(tensor, shape=(experts * rows, columns))


def _gates_first(tensor: TensorData) -> TensorData:
    """[E, 2 * F, K], gate and up of each expert -> [2 * E * F, K]: all gates, then all ups;
    likewise."""
    if len(tensor.shape) != 3 or tensor.shape[1] % 2:
        return tensor
    experts, both, columns = tensor.shape
    parts = tensor.data.reshape(experts, 2, tensor.nbytes // (2 * experts))
    data = np.ascontiguousarray(parts.swapaxes(0, 1)).reshape(-1)
    data.flags.writeable = False
    return replace(tensor, shape=(experts * both, columns), data=data)


# An expert that every token passes, with a gate for each token.
_SHARED = "mlp.shared_expert"
SHARED_EXPERT = (
    of_layer("ffn_gate_shexp.weight", f"{_SHARED}.gate_proj.weight", "shared_width", "width"),
    of_layer("ffn_up_shexp.weight", f"{_SHARED}.up_proj.weight", "shared_width", "width"),
    of_layer("ffn_down_shexp.weight", f"{_SHARED}.down_proj.weight", "width", "shared_width"),
    replace(of_layer("ffn_gate_inp_shexp.weight", f"{_SHARED}_gate.weight", "width"), flat=True),
)


def joined_experts(tensors: Mapping[str, TensorData], folder: Path) -> dict[str, TensorData]:
    """Return a checkpoint's tensors with those of experts one behind the other, without their
    numbers: "experts.0.up_proj.weight" [N,K] and so on become "experts.up_proj.weight" [E*N,K].
    Packed ones, "experts.down_proj_blocks" and "experts.down_proj_scales", become one of MXFP4. All
    of them are read for that. FileError where one is missing or unlike the others."""
    tensors = _unpacked(tensors, folder)
    result: dict[str, TensorData] = {}
    found: defaultdict[str, dict[int, TensorData]] = defaultdict(dict)
    for name, tensor in tensors.items():
        if matched := _OF_EXPERT.fullmatch(name):
            found[f"{matched[1]}.{matched[3]}"][int(matched[2])] = tensor
        else:
            result[name] = tensor
    for name, by_number in found.items():
        result[name] = _joined(name, by_number, folder)
    return result


def _unpacked(tensors: Mapping[str, TensorData], folder: Path) -> Mapping[str, TensorData]:
    stems = [name.removesuffix(_BLOCKS) for name in tensors if name.endswith(_BLOCKS)]
    if not stems:
        return tensors
    packed = {stem + part for stem in stems for part in (_BLOCKS, _SCALES)}
    result = {name: tensor for name, tensor in tensors.items() if name not in packed}
    for stem in stems:
        if stem + _SCALES not in tensors:
            raise FileError(folder, f"tensor {stem}{_SCALES} is missing")
        result[stem] = _of_mxfp4(stem, tensors[stem + _BLOCKS], tensors[stem + _SCALES], folder)
    return result


def _of_mxfp4(name: str, blocks: TensorData, scales: TensorData, folder: Path) -> TensorData:
    """Return codes uint8 [experts, rows, groups, 16], two neighbours in a byte, and
    exponents [experts, rows, groups] as one tensor [experts, rows, 32 * groups] in GGUF's blocks,
    where codes share a byte with those 16 behind them."""
    shape, half = blocks.shape, MXFP4.BLOCK_SIZE // 2
    fits = len(shape) == 4 and shape[-1] == half and scales.shape == shape[:-1]
    if not fits or (blocks.dtype, scales.dtype) != ("u8", "u8"):
        raise FileError(
            folder,
            f"tensor {blocks.name}: expected U8 blocks of {half} bytes with a scale each, found "
            f"{blocks.dtype} {shape} with scales {scales.dtype} {scales.shape}",
        )
    experts, rows, groups, _ = shape
    made = np.empty((experts, rows * groups), MXFP4.BLOCK)
    made["e"] = scales.data.reshape(experts, -1)
    for one, codes in zip(made, blocks.data.reshape(experts, -1, half), strict=True):
        pairs = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), 2, half)
        one["qs"] = pairs[:, 0] | pairs[:, 1] << 4
    data = made.reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return TensorData(name, "mxfp4", (experts, rows, groups * MXFP4.BLOCK_SIZE), data)


def _joined(name: str, experts: Mapping[int, TensorData], folder: Path) -> TensorData:
    first = experts[min(experts)]
    if not first.shape:
        raise FileError(folder, f"tensor {first.name}: expected a matrix, found one value")
    for number in range(max(experts) + 1):
        if number not in experts:
            stem, _, end = name.rpartition(".experts.")
            raise FileError(folder, f"tensor {stem}.experts.{number}.{end} is missing")
        one = experts[number]
        if (one.shape, one.dtype) != (first.shape, first.dtype):
            raise FileError(
                folder,
                f"tensor {one.name}: expected {first.dtype} {first.shape} as of the first expert, "
                f"found {one.dtype} {one.shape}",
            )
    data = np.concatenate([experts[number].data for number in range(len(experts))])
    data.flags.writeable = False
    shape = (len(experts) * first.shape[0], *first.shape[1:])
    return TensorData(name, first.dtype, shape, data)
