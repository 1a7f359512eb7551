"""Halves unpacked by plain arithmetic, as for drivers that cannot compile unpackHalf2x16."""

import numpy as np
import pytest

from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.gpu.pipeline_store import PipelineStore
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.tensor import TensorData
from tests.core.exec.vulkan.vulkan_program import VOCABULARY, program
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running

COLUMNS = 1772  # VOCABULARY rows of them hold every half


@pytest.fixture
def by_arithmetic(device, monkeypatch):
    """Pipelines made before, which know the driver, are left alone."""
    own = PipelineStore(device)
    monkeypatch.setattr(device, "pipelines", own)
    monkeypatch.setattr(DeviceInfo, "unpacks_halves", False)
    yield
    own.close()


def test_every_half_is_its_float(by_arithmetic, make_vulkan):
    halves = np.resize(np.arange(1 << 16, dtype=np.uint16), (VOCABULARY, COLUMNS))
    table = TensorData("table", "f16", halves.shape, halves.view(np.uint8).reshape(-1))
    tokens = VOCABULARY - 1
    model, weights = program(
        [table], lambda b, x: b.output_rows(x, "rows"), tokens=VOCABULARY, outputs=VOCABULARY
    )
    executor = make_vulkan(model, weights)
    found = executor.run(Step(np.arange(tokens + 1, dtype=np.int32), 0, tokens + 1))
    expected = halves.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found.view(np.uint32)[finite], expected.view(np.uint32)[finite])


def test_weights_and_caches_of_halves(by_arithmetic, device, tmp_path):
    model = write_tiny_llama(tmp_path / "tiny.gguf", dtype="f16")
    logits = {}
    for backend in ("numpy", "vulkan"):
        options = exact(backend, keys="fp16", values="fp16")
        with running(model, options, device=device, every_output=True) as runner:
            logits[backend] = runner.session.logits(range(13))
    assert np.abs(logits["vulkan"] - logits["numpy"]).max() <= 1e-3 * np.abs(logits["numpy"]).max()
