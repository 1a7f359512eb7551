from pathlib import Path

import psutil
import pytest

from llm_lite.core import memory
from llm_lite.core.memory import cache_memory
from llm_lite.core.messages import CacheLayerInfo, CacheLayout
from llm_lite.core.plan.step import PAGE
from tests.runners import BACKENDS, exact, running

LAYOUT = CacheLayout(
    layers=(CacheLayerInfo(0, (), PAGE, 0, 60, 40), CacheLayerInfo(1, (2,), 20, 8, 30, 20)),
    reserved_bytes=PAGE * 100 + 20 * 50,
    page=PAGE,
)


def test_available_memory_is_plausible():
    found = memory.available_bytes()
    assert found is not None and 1 << 20 < found < 1 << 50


def test_a_system_that_does_not_tell(monkeypatch):
    def refuse(*_):
        raise PermissionError("/proc is not mounted")

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert memory.available_bytes() is None


def test_what_a_context_takes():
    same = cache_memory(LAYOUT, 100, 100, None)
    assert (same.needed, same.largest, same.fits) == (LAYOUT.reserved_bytes, None, True)
    larger = cache_memory(LAYOUT, 100, 1000, 16_000)
    assert larger.needed == 8 * PAGE * 100 + 20 * 50, "in whole pages; a ring stays as it is"
    assert larger.largest == PAGE, "of 140 tokens: a sixteenth is left alone"
    assert not larger.fits
    assert cache_memory(LAYOUT, 100, PAGE, 16_000).fits
    assert cache_memory(LAYOUT, 100, 1, 500).largest == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["fp16", "fp32"])
def test_what_is_reserved_is_what_the_executor_allocates(tiny_llama, device, backend, kind):
    options = exact(backend, keys=kind, values=kind, context=96)
    with running(tiny_llama, options, device=device) as runner:
        layout, executor = runner.model_info.cache, runner.executor
        names = [t.name for layer in runner.session.cache.layers for t in layer.tensors]
        if backend == "vulkan":
            sizes = [executor.device_state(name)[2] for name in names]
        else:
            sizes = [executor.host_state(name).nbytes for name in names]
        assert sum(sizes) == layout.reserved_bytes == runner.model_info.kv_bytes
        assert layout.reserved_bytes == cache_memory(layout, 96, 96, None).needed


def test_what_came_from_disks_is_counted(monkeypatch):
    before = memory.bytes_from_disks()
    assert 0 <= before <= memory.bytes_from_disks()
    counts = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 7\n"
    monkeypatch.setattr(Path, "read_text", lambda *_: counts)
    assert memory.bytes_from_disks() == 4096
    monkeypatch.setattr(Path, "read_text", lambda *_: "rchar: 9\n")
    assert memory.bytes_from_disks() == 0
