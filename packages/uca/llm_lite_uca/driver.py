"""The array as a driver sees it: a stretch of memory, and registers of 32 bits.

A program of commands lies in the memory, 16 words each (`Word`). The driver writes where and how
many to COMMANDS and COUNT, then 1 to CONTROL, and reads STATUS until it is no longer BUSY; CYCLES
tells how long the program took. `simulator.py` has the only implementation; a board's maps the same
registers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite_uca.parameters import Parameters

Bytes = NDArray[np.uint8]


class Register(IntEnum):
    """Byte offsets."""

    IDENTITY = 0x00  # reads as IDENTITY
    SIZES = 0x04  # rows in the upper half, columns in the lower
    CONTROL = 0x08  # 1 starts a program
    STATUS = 0x0C
    COMMANDS = 0x10  # address of the first, in units of 64 bytes
    COUNT = 0x14
    CYCLES_LOW = 0x18
    CYCLES_HIGH = 0x1C
    FAULT = 0x20  # index of the command that could not run


class Status(IntEnum):
    IDLE = 0
    BUSY = 1
    DONE = 2
    FAILED = 3


class Word(IntEnum):
    """Words of a command. Addresses are in bytes."""

    FORMAT = 0  # of weights: 8 or 4 bits
    FLAGS = 1  # 1: sums begin at 0; 2: they are stored
    WEIGHTS = 2  # address of the first block
    BLOCKS = 3
    INPUTS = 4  # address of the first token's row
    ROW_BYTES = 5  # from a token's row to the next one's
    COLUMNS = 6  # values of a row
    FIRST_BLOCK = 7
    TOKENS = 8
    RESULTS = 9  # address of the first token's first output
    RESULT_BYTES = 10  # from a token's results to the next one's
    OUTPUTS = 11  # that are stored


IDENTITY = 0x55434131  # "UCA1"
STARTS, ENDS = 1, 2
COMMAND_WORDS = 16
ALIGNMENT = 64
ADDRESSED = 1 << 32  # bytes that a word reaches


class Driver(Protocol):
    def read(self, register: Register) -> int: ...

    def write(self, register: Register, value: int) -> None: ...

    def allocate(self, size: int) -> int:
        """Return the address of so many bytes of the array's memory. MemoryError where there are
        none."""
        ...

    def free(self, address: int) -> None:
        """Free all that was allocated from this address on."""
        ...

    def memory(self, address: int, size: int) -> Bytes:
        """Return memory to read and write, uint8 [size]."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


def sizes_word(parameters: Parameters) -> int:
    """Return what SIZES reads as."""
    return parameters.rows << 16 | parameters.columns
