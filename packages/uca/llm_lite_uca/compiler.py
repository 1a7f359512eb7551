"""From a matrix product to the commands of the array.

Activations stay on the chip while all weights stream past them once; where those of all tokens do
not fit into the input buffer, they come in groups, and the weights once for each group. A command
multiplies as many blocks along K of one tile of outputs as one weight buffer holds.
"""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.plan.plan import Op, Plan
from llm_lite_uca.layout import FORMATS, block_bytes
from llm_lite_uca.parameters import BLOCK, Parameters

ROW_EXTRA = 12  # bytes of a block of activations besides its values: scale, sum, zero, total


class Shape(Struct, frozen=True):
    """A product y[tokens, outputs] = x[tokens, inputs] . weight[outputs, inputs]^T."""

    tokens: int
    outputs: int
    inputs: int
    dtype: str  # of the weight: "int8" or "int4"

    @property
    def macs(self) -> int:
        return self.tokens * self.outputs * self.inputs

    @property
    def blocks(self) -> int:
        return self.inputs // BLOCK

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a row of x."""
        return self.inputs + ROW_EXTRA * self.blocks


def takes(op: Op, plan: Plan) -> bool:
    """Return True for products of int8 activations with weights that the array reads."""
    if op.name != "matmul":
        return False
    x, weight = (plan.tensors[i] for i in op.inputs)
    return x.dtype == "a8" and weight.dtype in FORMATS


def shape_of(op: Op, plan: Plan, tokens: int) -> Shape:
    """Return the shape of a product of so many rows."""
    x, weight = (plan.tensors[i] for i in op.inputs)
    outputs = plan.tensors[op.outputs[0]].shape[1]
    return Shape(tokens, outputs, x.shape[1], weight.dtype)


class Command(Struct, frozen=True):
    """Blocks first_block.. of one tile by some tokens. `starts`: sums begin at 0; `ends`: they are
    stored. `loads`: bytes of activations that come to the chip before it."""

    tile: int
    first_block: int
    blocks: int
    first_token: int
    tokens: int
    outputs: int
    starts: bool
    ends: bool
    loads: int = 0


def commands_of(shape: Shape, parameters: Parameters) -> list[Command]:
    group = max(1, min(shape.tokens, parameters.input_buffer // shape.row_bytes))
    fit = max(1, parameters.weight_buffer // block_bytes(shape.dtype, parameters.columns))
    tiles, found = -(-shape.outputs // parameters.columns), list[Command]()
    for first_token in range(0, shape.tokens, group):
        tokens = min(group, shape.tokens - first_token)
        loads = tokens * shape.row_bytes
        for tile in range(tiles):
            for first in range(0, shape.blocks, fit):
                blocks = min(fit, shape.blocks - first)
                ends = first + blocks == shape.blocks
                outputs = min(parameters.columns, shape.outputs - tile * parameters.columns)
                found.append(
                    Command(
                        tile, first, blocks, first_token, tokens, outputs, first == 0, ends, loads
                    )
                )
                loads = 0
    return found
