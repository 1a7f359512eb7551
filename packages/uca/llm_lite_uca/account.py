"""How many cycles the commands of a product take, and what they wait for.

One DMA engine moves all bytes, in this order: the weights of the first two commands, then behind
each command its results, if it ends a tile, and the weights of the second next one, whose buffer it
has left. The array multiplies a command once its weights are there. In cycles:

    transfer = dma_latency + bytes / (bytes a cycle)
    command  = command_cycles + passes * max(tokens, rows / load_rows)
    passes   = blocks * 32 / rows

A pass multiplies `rows` values along K of each token, a token a cycle, while the array takes the
weights of the next one. At the end the last sums leave it: rows + columns cycles more.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from llm_lite_uca.compiler import Command, Shape, commands_of
from llm_lite_uca.layout import block_bytes
from llm_lite_uca.parameters import BLOCK, Parameters


class ProductAccount(Struct, frozen=True):
    """Cycles and bytes of one product."""

    macs: int
    cycles: float
    array: float  # cycles in which the array multiplies
    transfers: float  # cycles in which bytes move
    read_bytes: int
    written_bytes: int
    commands: int

    @property
    def bound(self) -> str:
        """Return what it waits for: "memory", or "array" for the multipliers."""
        return "memory" if self.transfers > self.array else "array"

    def utilisation(self, parameters: Parameters) -> float:
        """Return the part of all multiply-adds that the array could have made."""
        return self.macs / (self.cycles * parameters.macs_per_cycle)


def transfer_cycles(size: int, parameters: Parameters) -> float:
    return parameters.dma_latency + size / parameters.ddr_bytes_per_cycle if size else 0.0


def command_cycles(command: Command, parameters: Parameters) -> float:
    passes = -(-command.blocks * BLOCK // parameters.rows)
    each = max(command.tokens, parameters.rows / parameters.load_rows)
    return parameters.command_cycles + passes * each


def account_of(shape: Shape, parameters: Parameters) -> ProductAccount:
    """Return the account of a product."""
    return account(commands_of(shape, parameters), shape.dtype, parameters)


def account(commands: Sequence[Command], dtype: str, parameters: Parameters) -> ProductAccount:
    """Follow commands through both engines."""
    each = block_bytes(dtype, parameters.columns)
    weights = [command.blocks * each for command in commands]
    moving = transferring = 0.0  # when the DMA engine is free, and how long it worked
    array = multiplying = 0.0
    read = written = 0
    there = [0.0] * len(commands)  # when the weights of each command are

    def move(size: int, not_before: float = 0.0) -> float:
        nonlocal moving, transferring
        cycles = transfer_cycles(size, parameters)
        moving = max(moving, not_before) + cycles
        transferring += cycles
        return moving

    def fetch(index: int, not_before: float = 0.0) -> None:
        nonlocal read
        move(commands[index].loads, not_before)
        there[index] = move(weights[index], not_before)
        read += commands[index].loads + weights[index]

    for index in range(min(2, len(commands))):
        fetch(index)
    for index, command in enumerate(commands):
        cycles = command_cycles(command, parameters)
        array = max(array, there[index]) + cycles
        multiplying += cycles
        if command.ends:
            size = 4 * command.tokens * command.outputs
            written += size
            move(size, array)
        if index + 2 < len(commands):
            fetch(index + 2, array)
    last = max(moving, array) + parameters.rows + parameters.columns
    macs = sum(one.tokens * one.outputs * one.blocks * BLOCK for one in commands)
    return ProductAccount(macs, last, multiplying, transferring, read, written, len(commands))
