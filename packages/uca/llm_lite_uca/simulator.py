"""The array in NumPy: exact results, and the cycles that `account.py` counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks import a8
from llm_lite_uca.account import account
from llm_lite_uca.arithmetic import accumulate, block_sums
from llm_lite_uca.compiler import ROW_EXTRA, Command
from llm_lite_uca.driver import (
    ALIGNMENT,
    COMMAND_WORDS,
    ENDS,
    IDENTITY,
    STARTS,
    Bytes,
    Register,
    Status,
    Word,
    sizes_word,
)
from llm_lite_uca.layout import block_bytes, unpacked
from llm_lite_uca.parameters import BLOCK, Parameters

_DTYPES = {8: "int8", 4: "int4"}
_MOST_VALUES = 1 << 22  # of blocks that are summed at once, float32
# What commands that differ in their tile alone have alike.
_ALIKE = (Word.FORMAT, Word.FLAGS, Word.BLOCKS, Word.INPUTS, Word.ROW_BYTES, Word.COLUMNS,
          Word.FIRST_BLOCK, Word.TOKENS)  # fmt: skip


class Simulator:
    """A `Driver` of an array that is simulated, with so many bytes of memory."""

    def __init__(self, parameters: Parameters, memory_bytes: int) -> None:
        self.parameters = parameters
        self._memory = np.zeros(memory_bytes, np.uint8)
        self._used = 0
        self._registers = dict.fromkeys(Register, 0)
        self._registers[Register.IDENTITY] = IDENTITY
        self._registers[Register.SIZES] = sizes_word(parameters)
        self._sums: dict[int, NDArray[np.float32]] = {}  # by the address of their results

    def read(self, register: Register) -> int:
        return self._registers[register]

    def write(self, register: Register, value: int) -> None:
        self._registers[register] = value
        if register is Register.CONTROL and value == 1:
            self._run()

    def allocate(self, size: int) -> int:
        address = self._used
        if address + size > len(self._memory):
            raise MemoryError(f"{size} bytes of the array's memory are not free")
        self._used = -(-(address + size) // ALIGNMENT) * ALIGNMENT
        return address

    def free(self, address: int) -> None:
        self._used = address

    def memory(self, address: int, size: int) -> Bytes:
        return self._memory[address : address + size]

    def close(self) -> None:
        self._memory = np.zeros(0, np.uint8)
        self._sums.clear()

    def _run(self) -> None:
        begin = self._registers[Register.COMMANDS] * ALIGNMENT
        count = self._registers[Register.COUNT]
        raw = self.memory(begin, count * 4 * COMMAND_WORDS)
        words = raw.view(np.uint32).reshape(-1, COMMAND_WORDS).astype(np.int64)
        for index, command in enumerate(words):
            if len(words) != count or not self._can_run(command):
                self._registers[Register.FAULT] = index
                self._registers[Register.STATUS] = Status.FAILED
                return
        for alike in _grouped(words):
            of_tile = int(alike[0, Word.BLOCKS] * alike[0, Word.TOKENS]) * self.parameters.columns
            together = max(1, _MOST_VALUES // of_tile)
            for first in range(0, len(alike), together):
                self._multiply(alike[first : first + together])
        cycles = round(self._cycles(words))
        self._registers[Register.CYCLES_LOW] = cycles & 0xFFFFFFFF
        self._registers[Register.CYCLES_HIGH] = cycles >> 32
        self._registers[Register.STATUS] = Status.DONE

    def _can_run(self, command: NDArray[np.int64]) -> bool:
        """Return True if all that a command reads and writes is in the memory."""
        dtype = _DTYPES.get(int(command[Word.FORMAT]))
        if dtype is None or command[Word.OUTPUTS] > self.parameters.columns:
            return False
        tokens, blocks = command[Word.TOKENS], command[Word.BLOCKS]
        row = command[Word.COLUMNS] + ROW_EXTRA * (command[Word.COLUMNS] // BLOCK)
        weights = blocks * block_bytes(dtype, self.parameters.columns)
        ends = (
            command[Word.WEIGHTS] + weights,
            command[Word.INPUTS] + (tokens - 1) * command[Word.ROW_BYTES] + row,
            command[Word.RESULTS]
            + (tokens - 1) * command[Word.RESULT_BYTES]
            + 4 * command[Word.OUTPUTS],
        )
        fits = (command[Word.FIRST_BLOCK] + blocks) * BLOCK <= command[Word.COLUMNS]
        return bool(fits and tokens > 0 and blocks > 0 and max(ends) <= len(self._memory))

    def _multiply(self, alike: NDArray[np.int64]) -> None:
        """Run commands that multiply the same blocks of the same tokens, of other tiles."""
        first, columns = alike[0], self.parameters.columns
        dtype, blocks = _DTYPES[int(first[Word.FORMAT])], int(first[Word.BLOCKS])
        each = block_bytes(dtype, columns)
        size, places = blocks * each, map(int, alike[:, Word.WEIGHTS])
        streams = np.stack([self.memory(place, size) for place in places]).reshape(-1, each)
        integers, steps = unpacked(streams, dtype, columns)
        x = self._inputs(first)
        shape = len(alike), blocks, columns
        by_block = integers.reshape(*shape, BLOCK).transpose(1, 0, 2, 3)
        of_block = steps.reshape(shape).transpose(1, 0, 2).reshape(blocks, -1)
        found = block_sums(by_block.reshape(blocks, -1, BLOCK), x)
        begun = [self._begun(command) for command in alike]
        sums = accumulate(np.concatenate(begun, axis=1), found, of_block, x)
        for command, own in zip(alike, np.split(sums, len(alike), axis=1), strict=True):
            self._sums[int(command[Word.RESULTS])] = own
            if command[Word.FLAGS] & ENDS:
                self._store(command)

    def _inputs(self, command: NDArray[np.int64]) -> a8.Blocks:
        """Return the blocks of the tokens' rows that a command multiplies."""
        columns, tokens = int(command[Word.COLUMNS]), int(command[Word.TOKENS])
        stride = int(command[Word.ROW_BYTES])
        row = columns + ROW_EXTRA * (columns // BLOCK)
        places = int(command[Word.INPUTS]) + stride * np.arange(tokens)[:, None] + np.arange(row)
        whole = a8.blocks_of_rows(self._memory[places], columns)
        first = int(command[Word.FIRST_BLOCK])
        some = slice(first, first + int(command[Word.BLOCKS]))
        q = whole.q.reshape(tokens, -1, BLOCK)[:, some].reshape(tokens, -1)
        rest = (getattr(whole, name)[:, some] for name in ("scale", "zero", "total", "block_sum"))
        return a8.Blocks(q, *rest)

    def _begun(self, command: NDArray[np.int64]) -> NDArray[np.float32]:
        if command[Word.FLAGS] & STARTS:
            return np.zeros((int(command[Word.TOKENS]), self.parameters.columns), np.float32)
        return self._sums[int(command[Word.RESULTS])]

    def _store(self, command: NDArray[np.int64]) -> None:
        sums = self._sums.pop(int(command[Word.RESULTS]))[:, : int(command[Word.OUTPUTS])]
        data = np.ascontiguousarray(sums).view(np.uint8)
        stride = int(command[Word.RESULT_BYTES])
        rows = int(command[Word.RESULTS]) + stride * np.arange(len(data))[:, None]
        self._memory[rows + np.arange(data.shape[1])] = data

    def _cycles(self, words: NDArray[np.int64]) -> float:
        commands, before = list[Command](), -1
        for word in words:
            size = int(word[Word.COLUMNS]) + ROW_EXTRA * (int(word[Word.COLUMNS]) // BLOCK)
            loads = int(word[Word.TOKENS]) * size if word[Word.INPUTS] != before else 0
            before = word[Word.INPUTS]
            commands.append(
                Command(
                    tile=0,
                    first_block=int(word[Word.FIRST_BLOCK]),
                    blocks=int(word[Word.BLOCKS]),
                    first_token=0,
                    tokens=int(word[Word.TOKENS]),
                    outputs=int(word[Word.OUTPUTS]),
                    starts=bool(word[Word.FLAGS] & STARTS),
                    ends=bool(word[Word.FLAGS] & ENDS),
                    loads=loads,
                )
            )
        return account(commands, _DTYPES[int(words[0, Word.FORMAT])], self.parameters).cycles


def _grouped(words: NDArray[np.int64]) -> Iterable[NDArray[np.int64]]:
    """Return the commands in groups that can run together, earlier blocks of a tile first."""
    found = defaultdict[bytes, list[NDArray[np.int64]]](list)
    for command in words:
        found[command[list(_ALIKE)].tobytes()].append(command)
    groups = (np.stack(group) for group in found.values())
    return sorted(groups, key=lambda group: int(group[0, Word.FIRST_BLOCK]))
