"""Tables of more than 2^31 values and 2^32 bytes: rows are read where they lie."""

import mmap

import numpy as np
import pytest

from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.blocks.floats import BF16
from llm_lite.core.quant.tensor import TensorData
from tests.runners import BACKENDS

ROWS, COLUMNS = 262_144, 8_960  # of Gemma 3n E4B: 4.7 GB in bfloat16
ROW_BYTES = 2 * COLUMNS
TOKENS = (0, 1, 239_674, 239_675, 262_143)  # around value 2^31


@pytest.fixture
def table(tmp_path):
    """A sparse file: only the rows that are written take room on the disk."""
    path = tmp_path / "table.bin"
    with path.open("wb") as file:
        file.truncate(ROWS * ROW_BYTES)
        for token in TOKENS:
            file.seek(token * ROW_BYTES)
            file.write(BF16.quantize(row_of(token)).tobytes())
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return TensorData("table", "bf16", (ROWS, COLUMNS), np.frombuffer(mapping, np.uint8))


def row_of(token):
    """Few bits, so that they are exact."""
    return ((np.arange(COLUMNS) + token) % 128).astype(np.float32)


def make(backend, program, weights, device):
    if backend == "numpy":
        return NumpyExecutor(program, weights)
    if backend == "cpu":
        from llm_lite.core.exec.cpu.executor import CpuExecutor

        return CpuExecutor(program, weights)
    from llm_lite.core.exec.vulkan.executor import VulkanExecutor

    return VulkanExecutor(device, program, weights)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_a_table_beyond_32_bits(backend, table, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    assert ROWS * COLUMNS > 2**31
    assert table.nbytes > 2**32
    builder = PlanBuilder({"table": table}, Bucket(5, 5), integer_activations=False)
    rows = builder.table_rows(builder.table("table"), "rows")
    plan = builder.finish(builder.output_rows(rows, "out"))
    program = Program((plan,), 16, ROWS)
    executor = make(backend, program, {"table": table}, device)
    try:
        found = executor.run(Step(np.array(TOKENS, np.int32), 0, 5))
        assert backend == "cpu" or executor.weight_bytes == 0
    finally:
        executor.close()
    for row, token in zip(found, TOKENS, strict=True):
        assert np.array_equal(row, row_of(token)), token
