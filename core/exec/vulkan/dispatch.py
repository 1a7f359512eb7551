"""A dispatch, and how an op with its tensors becomes one.

The executor is the `Binder`; what is particular to an op is in `kernels.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.vulkan.memory import WeightPart
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.core.plan.ops import OPS
from llm_lite.core.plan.plan import Op, Program, Tensor
from llm_lite.core.plan.step import N_OUTPUTS, N_TOKENS

LEAST_WORK = 1 << 15  # what starting a dispatch costs, in multiply-adds
ELEMENT_WORK = 8  # an element of an elementwise op, likewise


class Dispatch(Struct, frozen=True):
    """A shader variant with its specialization constants, buffers by name and workgroups.

    `work` estimates the multiply-adds of the largest step. One that is `whole` is never cut into
    submits: its workgroups count each other, and a step that is stopped between two submits would
    leave the count of a part behind for the next.
    """

    variant: str
    constants: Mapping[str, int | float]
    buffers: Mapping[str, BufferRange]
    groups: tuple[int, int]
    work: int
    whole: bool = False


class Binder(Protocol):
    """The executor as the kernels need it: it knows the buffers of tensors."""

    program: Program
    tuning: Tuning
    step_buffer: BufferRange

    def tensor(self, tensor: Tensor) -> BufferRange: ...
    def matrix(self, name: str) -> tuple[WeightPart, ...]: ...
    def stack(self, names: Sequence[str]) -> WeightPart | None: ...
    def vector(self, name: str) -> BufferRange: ...
    def host_rows(self, name: str) -> BufferRange: ...
    def attention_parts(self) -> tuple[BufferRange, BufferRange]: ...
    def table(self, key: str, values: NDArray[np.uint32]) -> BufferRange: ...


class Call(Struct, frozen=True):
    """An op with its tensors in hand; `inputs` are those that are not left out."""

    binder: Binder
    op: Op
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    vector: NDArray[np.float32] | None = None  # rope's factors, attention's sinks

    def optional(self, operand: str) -> Tensor | None:
        """Return an operand by its name in the op's row, without its `?`; None if it is left
        out."""
        place = OPS[self.op.name].inputs.index(f"{operand}?")
        taken = self.op.inputs[place : place + 1]
        return next((t for t in self.inputs if t.id in taken), None)

    @property
    def p(self) -> Mapping[str, float]:
        return self.op.params

    @property
    def rows(self) -> int:
        """Return the rows of the largest step."""
        return self.rows_tensor.shape[0]

    @property
    def rows_tensor(self) -> Tensor:
        return self.inputs[0] if self.op.name == "store" else self.outputs[0]

    def dispatch(
        self,
        variant: str,
        buffers: Mapping[str, BufferRange],
        groups: tuple[int, int],
        work: int,
        **constants: int | float,
    ) -> Dispatch:
        word = N_OUTPUTS if self.rows_tensor.rows == "outputs" else N_TOKENS
        each = self.rows_tensor.per_token
        rows = {"ROWS_WORD": word} | ({"PER_TOKEN": each} if each > 1 else {})
        return Dispatch(
            variant,
            {**rows, **constants},
            {"Step": self.binder.step_buffer, **buffers},
            groups,
            max(work, LEAST_WORK),
        )

    def elementwise(
        self,
        variant: str,
        buffers: Mapping[str, BufferRange],
        items: int,
        **constants: int | float,
    ) -> list[Dispatch]:
        """Dispatch a lane for each item of a row."""
        lanes = self.binder.tuning.lanes
        groups = (-(-items // lanes), self.rows)
        work = self.rows * items * ELEMENT_WORK
        return [self.dispatch(variant, buffers, groups, work, LANES=lanes, **constants)]

    def columnwise(self, **constants: int | float) -> list[Dispatch]:
        """Dispatch a lane for each value of the output, with the shader of the op's name."""
        columns = self.outputs[0].shape[1]
        sizes = {"COLUMNS": columns, **self.constants(), **constants}
        return self.elementwise(self.op.name, self.named_operands(), columns, **sizes)

    def rowwise(self) -> list[Dispatch]:
        """Dispatch a workgroup for each row, which sums over it, with the op's own shader."""
        columns, lanes = self.outputs[0].shape[1], self.binder.tuning.reduce_lanes
        work = self.rows * columns * ELEMENT_WORK
        sizes = {"LANES": lanes, "K": columns, **self.constants()}
        variant, groups = self.reducing(self.op.name), (self.rows, 1)
        return [self.dispatch(variant, self.named_operands(), groups, work, **sizes)]

    def constants(self) -> dict[str, int | float]:
        """Return the op's parameters as specialization constants, which have names in capitals."""
        kinds = OPS[self.op.name].params
        return {
            name.upper(): float(self.p[name]) if kind.startswith("float") else int(self.p[name])
            for name, kind in kinds.items()
        }

    def pages(self) -> dict[str, int]:
        """Return the constants by which shaders find values of a shared step; {} for a plain
        one."""
        program = self.binder.program
        if program.pages is None:
            return {}
        return {
            "TABLE_PAGES": program.pages.table,
            "MAX_TOKENS": program.max_tokens,
            "MAX_OUTPUTS": program.max_outputs,
            "MAX_SEGMENTS": program.pages.segments,
            "RINGED": program.pages.ringed,
            "OTHERS": program.pages.shared,
        }

    def states(self) -> dict[str, int]:
        """Return the constants by which shaders find the recurrent states of a sequence."""
        pages = self.binder.program.pages
        return {} if pages is None else {**self.pages(), "WINDOWED": int(pages.windowed > 0)}

    def named_operands(self) -> dict[str, BufferRange]:
        """Return the ranges of inputs and outputs by the names of the op's row, capitalized."""
        spec = OPS[self.op.name]
        return self.operands(tuple(name.capitalize() for name in (*spec.inputs, *spec.outputs)))

    def operands(self, names: tuple[str, ...]) -> dict[str, BufferRange]:
        """Return the ranges of inputs and outputs, by the shader's names for them."""
        tensors = (*self.inputs, *self.outputs)
        return dict(zip(names, map(self.binder.tensor, tensors), strict=True))

    def reducing(self, variant: str) -> str:
        return variant + (".subgroup" if self.binder.tuning.subgroups else "")
