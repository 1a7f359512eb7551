"""The Vulkan classes on the software driver, under validation and synchronization validation."""

import errno
import itertools
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from llm_lite.core.errors import DeviceError, OutOfDeviceMemoryError
from llm_lite.core.gpu import shaders
from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device, list_devices
from llm_lite.core.gpu.instance import Instance
from llm_lite.core.gpu.memory import STAGING_BYTES, Buffer, Image2D, full_barrier
from llm_lite.core.gpu.pipelines import (
    BINDINGS_PER_SET,
    ComputePipeline,
    DescriptorSets,
    PipelineCache,
)
from llm_lite.core.gpu.shaders import load_spirv, reflect
from llm_lite.core.gpu.timing import Timestamps

pytestmark = pytest.mark.vulkan
STORAGE = 0x20


def test_list_devices_describes_what_it_finds():
    devices = list_devices()
    assert devices
    assert [d.index for d in devices] == list(range(len(devices)))
    best = devices[0]
    assert best.kind in {"discrete", "integrated", "software", "virtual", "other"}
    assert best.usable and best.why_not == ""
    assert best.features["timeline_semaphore"]
    assert best.memory_bytes > 1 << 20
    assert 4 <= best.subgroup_size <= 128


def test_modules_import_and_answer_without_a_loader():
    code = """
import sys, types
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "vulkan":
            raise OSError("Cannot find Vulkan SDK version")
sys.meta_path.insert(0, Refuse())
import llm_lite.core.gpu.device as d, llm_lite.core.gpu.memory, llm_lite.core.gpu.timing
import llm_lite.core.gpu.pipelines
from llm_lite.core.errors import DeviceError
assert d.list_devices() == ()
try:
    d.Device.open()
except DeviceError as error:
    assert "loader" in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_index_is_a_sentence():
    with pytest.raises(DeviceError, match="no Vulkan device 99"):
        Device.open(99)


@pytest.mark.parametrize("size", [1, 13, STAGING_BYTES + 5])
@pytest.mark.parametrize("host", [True, False])
def test_buffer_round_trip(device, size, host):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    buffer = Buffer(device, size, STORAGE, host=host)
    try:
        buffer.upload(data)
        np.testing.assert_array_equal(buffer.download(), data)
        if size > 4:
            buffer.upload(b"abc", 1)
            assert (
                buffer.download(0, 5).tobytes() == data[:1].tobytes() + b"abc" + data[4:5].tobytes()
            )
        with pytest.raises(ValueError, match="exceed"):
            buffer.upload(b"12", size - 1)
    finally:
        buffer.close()


def test_too_large_a_buffer_is_out_of_memory():
    with Device.open() as device, pytest.raises(OutOfDeviceMemoryError):
        Buffer(device, 1 << 44, STORAGE, host=False)


def test_image_is_made_and_destroyed(device):
    image = Image2D(device, 17, 5, vk.VK_FORMAT_R8G8B8A8_UNORM, vk.VK_IMAGE_USAGE_SAMPLED_BIT)
    assert image.view is not None
    image.close()
    image.close()


def test_reflection_names_bindings_and_constants():
    interface = reflect(load_spirv("fill"))
    assert [(b.name, b.binding, b.kind, b.read_only) for b in interface.bindings] == [
        ("Target", 0, "storage_buffer", False)
    ]
    assert interface.constants == {"LOCAL_SIZE": 0, "COUNT": 1, "VALUE": 2}
    assert interface.push_bytes == 0
    push = reflect(load_spirv("imgui.vert"))
    assert push.push_bytes == 16
    fragment = reflect(load_spirv("imgui.frag"))
    assert [(b.name, b.kind) for b in fragment.bindings] == [("image", "sampled_image")]


def test_a_pool_has_room_for_the_descriptors_of_any_shader():
    names = [path.stem for path in shaders._spirv_folder().glob("*.spv")]
    found = {name: len(reflect(load_spirv(name)).bindings) for name in names}
    assert len(names) > 50
    assert max(found.values()) <= BINDINGS_PER_SET, max(found, key=found.get)


def test_reflection_of_texel_buffers_gives_their_formats():
    found = {b.name: b for b in reflect(load_spirv("matmul_rows.q4_0_tiles")).bindings}
    rgba32ui, rgba32f = 107, 109  # VkFormat
    for name, texels in (("Weight", rgba32ui), ("X", rgba32f)):
        assert (found[name].kind, found[name].format) == ("texel_buffer", texels)
        assert found[name].read_only
    assert (found["Y"].kind, found["Y"].format) == ("storage_buffer", 0)


def test_reflection_of_one_buffer_that_is_read_in_two_ways():
    """It is bound once, by the shorter name."""
    found = [(b.binding, b.name) for b in reflect(load_spirv("matmul.f16")).bindings]
    assert (3, "X") in found
    assert len({binding for binding, _ in found}) == len(found)


def test_reflection_tells_cooperative_matrices():
    assert reflect(load_spirv("matmul.int4.a8.matrix")).full_subgroups
    assert not reflect(load_spirv("matmul.int4.a8.dot")).full_subgroups


@pytest.mark.parametrize(
    "damage", [b"", b"1234" * 8, struct.pack("<6I", 0x07230203, 0, 0, 0, 0, 0)]
)
def test_reflection_refuses_what_is_not_spirv(damage):
    with pytest.raises(DeviceError, match="shader binary"):
        reflect(damage)


def test_missing_shader_is_named():
    with pytest.raises(DeviceError, match="no_such_kernel"):
        load_spirv("no_such_kernel")


def test_unknown_constant_is_named(device):
    with pytest.raises(DeviceError, match="TYPO"):
        ComputePipeline(device, "fill", {"TYPO": 1})


@pytest.mark.parametrize("count", [1, 13, 127, 1000])
def test_dispatch_with_timestamps(device, count):
    pipeline = ComputePipeline(device, "fill", {"LOCAL_SIZE": 32, "COUNT": count, "VALUE": 0.5})
    sets, pool, times = (
        DescriptorSets(device),
        CommandPool(device, device.compute),
        Timestamps(device, 2),
    )
    buffer = Buffer(device, count * 4, STORAGE, host=False)
    command_buffer = pool.allocate()[0]
    with pool.record(command_buffer):
        times.reset(command_buffer)
        times.mark(command_buffer, 0)
        bound = pipeline.bind(sets, {"Target": (buffer, 0, buffer.size)})
        pipeline.dispatch(command_buffer, bound, (-(-count // 32), 1))
        full_barrier(command_buffer)
        times.mark(command_buffer, 1)
    for _ in range(2):  # a recording may be replayed
        device.compute.wait(device.compute.submit([command_buffer]))
    assert pool.recorded == 1
    assert times.read()[1] >= 0
    np.testing.assert_array_equal(
        buffer.download().view(np.float32), np.arange(count, dtype=np.float32) * 0.5
    )
    for owned in (buffer, times, pool, sets, pipeline):
        owned.close()


def test_timeline_counts_submits(device):
    first = device.queue.submit([])
    second = device.queue.submit([])
    assert second == first + 1
    device.queue.wait(second)
    assert device.queue.completed() >= second


def test_threads_share_the_queue(device):
    """The frame and the model submit at the same time; every value is handed out once."""
    data = np.arange(1000, dtype=np.uint8)
    buffers = [Buffer(device, data.size, STORAGE, host=False) for _ in range(4)]

    def work(buffer):
        values = []
        for _ in range(20):
            buffer.upload(data)
            values.append(device.compute.submit([]))
            device.compute.wait(values[-1])
            np.testing.assert_array_equal(buffer.download(), data)
        return values

    with ThreadPoolExecutor(4) as threads:
        values = [value for result in threads.map(work, buffers) for value in result]
    assert len(set(values)) == len(values)
    for buffer in buffers:
        buffer.close()


def test_a_leak_is_reported():
    device = Device.open(validation=True)
    leaked = Buffer(device, 16, STORAGE, host=False)
    device.close()
    device.close()
    assert any("VkBuffer" in m or "ObjectTracker" in m for m in device.validation_messages)
    leaked.handle = None


def test_pipeline_cache_survives_damage_and_no_permission(tmp_path, monkeypatch):
    folder = tmp_path / "file-in-the-way"
    folder.write_text("not a folder")
    monkeypatch.setenv("LLM_LITE_CACHE_DIR", str(folder))
    with Device.open(validation=True) as device:
        ComputePipeline(device, "fill").close()
    assert device.validation_messages == []
    monkeypatch.setenv("LLM_LITE_CACHE_DIR", str(tmp_path))
    with Device.open() as device:
        path = device.pipeline_cache.path
        ComputePipeline(device, "fill").close()
    path.write_bytes(b"damaged")
    with Device.open() as device:
        ComputePipeline(device, "fill").close()


def test_synchronization_validation_is_on():
    """A copy that reads what a kernel wrote, with no barrier between them, must be reported."""
    device = Device.open(validation=True)
    pipeline, sets = ComputePipeline(device, "fill"), DescriptorSets(device)
    pool = CommandPool(device, device.compute)
    buffer = Buffer(device, 64, STORAGE, host=False)
    with pool.record(pool.allocate()[0]) as command_buffer:
        bound = pipeline.bind(sets, {"Target": (buffer, 0, buffer.size)})
        pipeline.dispatch(command_buffer, bound, (1, 1))
        region = vk.VkBufferCopy(dstOffset=32, size=16)
        vk.vkCmdCopyBuffer(command_buffer, buffer.handle, buffer.handle, 1, [region])
    for owned in (buffer, pool, sets, pipeline, device):
        owned.close()
    assert any("SYNC-HAZARD-READ-AFTER-WRITE" in m for m in device.validation_messages)


@pytest.fixture
def growing_cache(tmp_path, monkeypatch):
    """A cache folder, and a driver whose cache has 100 bytes more each time it is asked for."""
    monkeypatch.setenv("LLM_LITE_CACHE_DIR", str(tmp_path))
    sizes = itertools.count(100, 100)
    monkeypatch.setattr(PipelineCache, "_data", lambda self: b"x" * next(sizes))
    return tmp_path


def test_pipeline_cache_of_another_driver_is_replaced(growing_cache):
    """Also where the foreign file is larger than what this driver will ever write."""
    with Device.open() as device:
        path = device.pipeline_cache.path
    assert path.read_bytes() == b"x" * 200
    path.write_bytes(b"another driver's" * 1000)
    with Device.open():
        pass
    assert path.read_bytes() == b"x" * 400


def test_half_written_pipeline_cache_is_taken_away(growing_cache, monkeypatch):
    def full_disk(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("llm_lite.core.files.writing.os.write", full_disk)
    with Device.open():
        pass
    assert list(growing_cache.iterdir()) == []


@pytest.mark.parametrize("part", ["Queue", "PipelineCache", "Staging"])
def test_device_that_cannot_be_finished_leaves_nothing_behind(part, monkeypatch):
    def refuse(*_):
        raise OutOfDeviceMemoryError("no memory")

    opened = []
    original = Instance.__init__

    def remember(self, *args, **options):
        original(self, *args, **options)
        opened.append(self)

    monkeypatch.setattr(Instance, "__init__", remember)
    monkeypatch.setattr(f"llm_lite.core.gpu.device.{part}", refuse)
    with pytest.raises(OutOfDeviceMemoryError):
        Device.open(validation=True)
    assert opened[0].handle is None
    assert opened[0].messages == []
