"""The sizes and rates of the array, by default as a Kria KV260 could have them.

The KV260's chip (XCK26, Zynq UltraScale+) has 1,248 DSP slices, 144 blocks of RAM of 36 Kbit and 64
of 288 Kbit, four Arm Cortex-A53 cores at 1.33 GHz and 4 GiB of DDR4 with 64 bits at 2,400 MT/s, so
19.2 GB/s (AMD, data sheets DS986 and DS987). What a design reaches of that is assumed here.
"""

from __future__ import annotations

from msgspec import Struct

BLOCK = 32  # values along K that share a scale: rows of the array are a part or a multiple of it


class Parameters(Struct, frozen=True):
    """Sizes and rates of the array and of what is around it."""

    rows: int = 32  # of multipliers, along K
    columns: int = 32  # outputs of a product
    clock_mhz: float = 300.0
    load_rows: int = 4  # rows of the array that take weights in one cycle
    weight_buffer: int = 64 << 10  # bytes, twice: one is filled while the other is multiplied
    input_buffer: int = 512 << 10  # bytes of activations on the chip
    ddr_gb_s: float = 19.2
    ddr_share: float = 0.8  # of it that long transfers reach
    dma_latency: int = 60  # cycles before the first byte of a transfer
    command_cycles: int = 16  # to fetch a command and start it
    # The Arm cores, which do all else: multiply-adds of floats, and memory that they read.
    arm_gmacs: float = 8.0
    arm_gb_s: float = 6.0
    # Energy
    mac_pj: float = 2.0  # of a multiply-add, with what moves on the chip for it
    ddr_pj: float = 160.0  # of a byte from or to DDR
    static_watts: float = 3.5

    @property
    def ddr_bytes_per_cycle(self) -> float:
        return self.ddr_gb_s * self.ddr_share * 1e3 / self.clock_mhz

    @property
    def macs_per_cycle(self) -> int:
        return self.rows * self.columns

    def seconds(self, cycles: float) -> float:
        return cycles / self.clock_mhz / 1e6


KV260 = Parameters()
