"""The simulated NPU as an accelerator of llm-lite: it takes products of int8 activations with int8
and int4 weights; the Arm cores, here llm-lite's C++, do all else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.accelerator import HostRunner, Value
from llm_lite.core.messages.inspecting.accounts import StepAccount
from llm_lite.core.plan.plan import Op, Plan, Program, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.blocks import a8
from llm_lite.core.quant.tensor import TensorData
from llm_lite_uca.compiler import Shape, commands_of, shape_of, takes
from llm_lite_uca.driver import (
    ADDRESSED,
    ALIGNMENT,
    COMMAND_WORDS,
    ENDS,
    IDENTITY,
    STARTS,
    Driver,
    Register,
    Status,
    Word,
    sizes_word,
)
from llm_lite_uca.layout import block_bytes, lay_out, weight_bytes
from llm_lite_uca.parameters import KV260, Parameters
from llm_lite_uca.simulator import Simulator
from llm_lite_uca.step_account import step_account, with_chosen

_BITS = {"int8": 8, "int4": 4}


class Uca:
    """An `Accelerator` of llm-lite."""

    name = "uca"
    activations: Literal["a32", "a8"] = "a8"

    def __init__(self, parameters: Parameters = KV260) -> None:
        self.parameters = parameters

    @property
    def device(self) -> str:
        p = self.parameters
        return f"simulated NPU, {p.rows} x {p.columns} multipliers at {p.clock_mhz:g} MHz"

    def takes(self, op: Op, plan: Plan) -> bool:
        return takes(op, plan)

    def weight_bytes(self, weight: Tensor) -> int:
        return weight_bytes(weight.dtype, weight.shape, self.parameters.columns)

    def account(self, plan: Plan, step: Step, chosen: Mapping[str, float]) -> StepAccount:
        """Return what a step would cost with other sizes and rates. ValueError for one that there
        is not."""
        return step_account(plan, step, with_chosen(self.parameters, chosen))

    def runner(self, program: Program, weights: Mapping[str, TensorData]) -> UcaRunner:
        columns = self.parameters.columns
        sizes = (weight_bytes(w.dtype, w.shape, columns) for w in weights.values())
        room = sum(size + ALIGNMENT for size in sizes) + _most_beside(self, program)
        if room > ADDRESSED:
            raise MemoryError(f"{room} bytes are needed, and addresses reach {ADDRESSED}")
        return UcaRunner(Simulator(self.parameters, room), self.parameters, weights)


def _most_beside(accelerator: Uca, program: Program) -> int:
    """Return the bytes of the activations, results and commands of the largest product."""
    most = 0
    for plan in program.plans:
        for op in plan.ops:
            if not accelerator.takes(op, plan):
                continue
            x, y = plan.tensors[op.inputs[0]], plan.tensors[op.outputs[0]]
            shape = shape_of(op, plan, y.shape[0])
            commands = 4 * COMMAND_WORDS * len(commands_of(shape, accelerator.parameters))
            rows = x.shape[0] * tensor_row_bytes(x) + y.shape[0] * tensor_row_bytes(y)
            most = max(most, rows + commands + 3 * ALIGNMENT)
    return most


class UcaRunner(HostRunner):
    """Runs products by programs of commands, through a driver."""

    def __init__(
        self, driver: Driver, parameters: Parameters, weights: Mapping[str, TensorData]
    ) -> None:
        super().__init__()
        self._driver, self._parameters = driver, parameters
        expected = {Register.IDENTITY: IDENTITY, Register.SIZES: sizes_word(parameters)}
        for register, value in expected.items():
            found = driver.read(register)
            if found != value:
                raise RuntimeError(f"{register.name}: expected {value:#x}, found {found:#x}")
        self._weights = dict[str, tuple[int, int]]()  # address, and blocks of a tile
        self._weight_bytes = 0
        for name, weight in weights.items():
            streams = lay_out(weight, parameters.columns)
            address = driver.allocate(streams.nbytes)
            driver.memory(address, streams.nbytes)[:] = streams.reshape(-1)
            self._weights[name] = address, streams.shape[1]
            self._weight_bytes += streams.nbytes
        self._beside = driver.allocate(0)
        self.cycles = dict[str, int]()  # of products by label, as the array counted them

    @property
    def weight_bytes(self) -> int:
        return self._weight_bytes

    def close(self) -> None:
        super().close()
        self._driver.close()

    def run_op(self, plan: Plan, op: Op, step: Step, inputs: list[Value]) -> list[Value]:
        (x,) = inputs
        assert isinstance(x, a8.Blocks), op.label
        shape = shape_of(op, plan, plan.tensors[op.outputs[0]].rows_in(step))
        if not shape.tokens:
            return [np.zeros((0, shape.outputs), np.float32)]
        rows, driver = a8.encode_rows(x), self._driver
        at_x = driver.allocate(rows.nbytes)
        driver.memory(at_x, rows.nbytes)[:] = rows.reshape(-1)
        size = 4 * shape.tokens * shape.outputs
        at_y = driver.allocate(size)
        words = self._program(shape, plan.tensors[op.inputs[1]].name, at_x, at_y)
        at_program = driver.allocate(words.nbytes)
        driver.memory(at_program, words.nbytes)[:] = words.reshape(-1).view(np.uint8)
        self._start(at_program, len(words), op.label)
        found = driver.memory(at_y, size).view(np.float32).reshape(shape.tokens, -1).copy()
        driver.free(self._beside)
        return [found]

    def _program(self, shape: Shape, weight: str, at_x: int, at_y: int) -> NDArray[np.uint32]:
        """Return the words of all commands of a product."""
        address, blocks = self._weights[weight]
        columns = self._parameters.columns
        each = block_bytes(shape.dtype, columns)
        commands = commands_of(shape, self._parameters)
        words = np.zeros((len(commands), COMMAND_WORDS), np.uint32)
        for word, command in zip(words, commands, strict=True):
            word[Word.FORMAT] = _BITS[shape.dtype]
            word[Word.FLAGS] = STARTS * command.starts | ENDS * command.ends
            word[Word.WEIGHTS] = address + (command.tile * blocks + command.first_block) * each
            word[Word.BLOCKS] = command.blocks
            word[Word.INPUTS] = at_x + command.first_token * shape.row_bytes
            word[Word.ROW_BYTES] = shape.row_bytes
            word[Word.COLUMNS] = shape.inputs
            word[Word.FIRST_BLOCK] = command.first_block
            word[Word.TOKENS] = command.tokens
            results = command.first_token * shape.outputs + command.tile * columns
            word[Word.RESULTS] = at_y + 4 * results
            word[Word.RESULT_BYTES] = 4 * shape.outputs
            word[Word.OUTPUTS] = command.outputs
        return words

    def _start(self, address: int, count: int, label: str) -> None:
        driver = self._driver
        driver.write(Register.COMMANDS, address // ALIGNMENT)
        driver.write(Register.COUNT, count)
        driver.write(Register.CONTROL, 1)
        while driver.read(Register.STATUS) == Status.BUSY:
            pass
        if driver.read(Register.STATUS) != Status.DONE:
            command = driver.read(Register.FAULT)
            raise RuntimeError(f"{label}: the array could not run command {command} of {count}")
        high, low = (driver.read(r) for r in (Register.CYCLES_HIGH, Register.CYCLES_LOW))
        self.cycles[label] = high << 32 | low
