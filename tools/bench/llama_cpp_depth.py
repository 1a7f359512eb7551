"""llama.cpp far into a context. Run by the peer's own interpreter, so it imports none of ours.

llama_cpp_depth.py MODEL THREADS CONTEXT CACHE FLASH
    JSON lines in, JSON lines out: {"depth": n} fills the cache with so many positions,
    {"prefill": n} and {"decode": n} then measure so many tokens behind them, in tokens per second

A cache is filled by its saved state: that of a few hundred tokens, which were read, is repeated.
What it holds does not change what a step costs.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
import time

import llama_cpp as llama
import numpy as np
from llama_cpp_worker import Runner, start

_READ = 512  # tokens that are really read


class DeepRunner(Runner):
    def __init__(self, path: str, threads: int, context: int, cache: str, flash: str) -> None:
        super().__init__(path, threads, 0, context, cache, flash)
        self._layers = llama.llama_model_n_layer(self._model)
        self._random = random.Random(1)
        self._depth = 0
        self._feed(self._tokens(_READ))
        self._state = self._saved()

    def fill(self, depth: int) -> None:
        self._clear()
        self._depth = depth
        if depth:
            state = longer_state(self._state, _READ, depth, self._layers)
            address = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
            if not llama.llama_state_seq_set_data(self._context, address, len(state), 0):
                raise SystemExit(f"llama.cpp takes no state of {depth} positions")
        self._length = depth

    def prefill(self, tokens: int) -> float:
        prompt = self._tokens(tokens)
        began = time.perf_counter()
        self._feed(prompt)
        return self._rate(tokens, began)

    def decode(self, tokens: int) -> float:
        answer = self._tokens(tokens)
        began = time.perf_counter()
        for token in answer:
            self._feed([token])
        return self._rate(tokens, began)

    def _rate(self, tokens: int, began: float) -> float:
        rate = tokens / (time.perf_counter() - began)
        llama.llama_memory_seq_rm(llama.llama_get_memory(self._context), 0, self._depth, -1)
        self._length = self._depth
        return rate

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(self._vocabulary) for _ in range(count)]

    def _saved(self) -> np.ndarray:
        size = llama.llama_state_seq_get_size(self._context, 0)
        data = np.empty(size, np.uint8)
        address = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        llama.llama_state_seq_get_data(self._context, address, size, 0)
        return data


def longer_state(state: np.ndarray, cells: int, wanted: int, layers: int) -> np.ndarray:
    """The state uint8 of a sequence with so many cells as one with as many as wanted.

    llama-context.cpp, state_seq_get_data: magic, sequence; llama-kv-cache.cpp, state_write:
    streams, cells; of each cell position, sequences, sequence; whether values are transposed,
    layers; of each layer's keys, then of each layer's values, the type, the bytes of a row, and the
    rows. Transposed values have the bytes of one, the length of a row, and a row of all cells for
    each of its columns. ValueError where it is written otherwise.
    """
    head = 16 + 12 * cells
    streams, found, transposed, found_layers = (
        *struct.unpack_from("<2I", state, 8),
        *struct.unpack_from("<2I", state, head),
    )
    if (streams, found, found_layers) != (1, cells, layers):
        raise ValueError(
            f"state of llama.cpp: expected {(1, cells, layers)}, "
            f"found {(streams, found, found_layers)}"
        )
    places = np.stack([np.arange(wanted), np.ones(wanted), np.zeros(wanted)], 1).astype(np.int32)
    parts = [state[:8].tobytes(), struct.pack("<2I", 1, wanted), places.tobytes()]
    parts.append(state[head : head + 8].tobytes())
    at = head + 8
    for tensor in range(2 * layers):
        if transposed and tensor >= layers:
            _, each, rows = struct.unpack_from("<i2I", state, at)
            columns = each
        else:
            _, columns = struct.unpack_from("<iQ", state, at)
            rows = 1
        size = rows * cells * columns
        values = state[at + 12 : at + 12 + size].reshape(rows, cells, columns)
        repeated = values[:, np.arange(wanted) % cells]
        parts += [state[at : at + 12].tobytes(), repeated.tobytes()]
        at += 12 + size
    if at != len(state):
        raise ValueError(f"state of llama.cpp: expected {at} bytes, found {len(state)}")
    return np.frombuffer(b"".join(parts), np.uint8)


def main(arguments: list[str]) -> int:
    system = start()
    path, threads, context, cache, flash = arguments
    runner = DeepRunner(path, int(threads), int(context), cache, flash)
    print(json.dumps({"version": llama.__version__, "system": system}), flush=True)
    for line in sys.stdin:
        ((what, count),) = json.loads(line).items()
        answer = {"depth": runner.fill, "prefill": runner.prefill, "decode": runner.decode}[what]
        print(json.dumps({"tok_s": answer(count)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
