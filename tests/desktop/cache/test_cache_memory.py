"""What the view says of the cache's memory against the arrays and against the operating system."""

import ctypes
import re
import sys
from pathlib import Path

import pytest

from llm_lite.core.messages import KV_TYPES
from llm_lite.core.plan.plan import Kind
from llm_lite.desktop.features.cache.state import reserved_bytes, used_bytes
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running

CONTEXT, FILLED = 16_384, 12_288
SIZES = {"layers": 4, "kv_heads": 4, "heads": 8, "head_dim": 64, "context": CONTEXT}


def anonymous_bytes():
    """Memory of this process that no file stands behind, as the system counts it.

    Read by hand: psutil lists all mappings, which takes memory itself.
    """
    text = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(re.search(r"^Anonymous:\s+(\d+) kB", text, re.MULTILINE)[1])


@pytest.fixture
def without_huge_pages():
    """The system counts pages of 4 KiB, as the view does, and not some of 2 MiB."""
    disable = 41  # linux/prctl.h, PR_SET_THP_DISABLE
    libc = ctypes.CDLL(None)
    libc.prctl(disable, 1, 0, 0, 0)
    yield
    libc.prctl(disable, 0, 0, 0, 0)


def caches(runner):
    return {
        tensor.name: tensor
        for tensor in runner.executor.program.plans[0].tensors
        if tensor.kind is Kind.STATE and not tensor.fill and tensor.shape[0] == CONTEXT
    }


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("kind", KV_TYPES)
def test_the_view_agrees_with_the_system(without_huge_pages, tmp_path, kind):
    path = write_tiny_llama(tmp_path / "tiny.gguf", **SIZES)
    options = exact("cpu", keys=kind, values=kind, context=CONTEXT, query_budget=0)
    with running(path, options) as runner:
        layout = runner.model_info.cache
        states = {name: runner.executor.host_state(name) for name in caches(runner)}
        allocated = sum(state.nbytes for state in states.values())
        assert len(states) == 2 * SIZES["layers"]
        assert reserved_bytes(layout.layers) == pytest.approx(allocated, rel=0.02)
        before = anonymous_bytes()
        for state in states.values():
            state[:FILLED] = 1
        taken = anonymous_bytes() - before
        assert used_bytes(layout, FILLED) == pytest.approx(taken, rel=0.02)
