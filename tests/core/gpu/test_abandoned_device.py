"""A device that does not finish its work: nothing that it may use is destroyed under it."""

import pytest

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.create import create, vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer

pytestmark = pytest.mark.vulkan
SIZE, STORAGE = 1 << 20, 0x20  # VK_BUFFER_USAGE_STORAGE_BUFFER_BIT


class Held:
    """A device whose queue waits for `release`, then fills a buffer."""

    def __init__(self):
        self.device = device = Device.open(validation=True)
        self.handle = device.handle
        kind = vk.VkSemaphoreTypeCreateInfo(semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE)
        info = vk.VkSemaphoreCreateInfo(pNext=kind)
        self.gate = create(vk.vkCreateSemaphore, device.handle, info, kind)
        self.buffer = Buffer(device, SIZE, STORAGE, host=False)
        self.pool = CommandPool(device, device.queue)
        commands = self.pool.allocate()[0]
        with self.pool.record(commands):
            vk.vkCmdFillBuffer(commands, self.buffer.handle, 0, SIZE, 7)
        self._wait_for_gate()
        self.value = device.queue.submit([commands])
        self.timeline = device.queue.timeline

    def _wait_for_gate(self):
        """All that is submitted later waits too."""
        values = vk.VkTimelineSemaphoreSubmitInfo(pWaitSemaphoreValues=[1])
        stages = [vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT]
        info = vk.VkSubmitInfo(pNext=values, pWaitSemaphores=[self.gate], pWaitDstStageMask=stages)
        vk.vkQueueSubmit(self.device.queue.handle, 1, [info], None)

    def release(self):
        if vk.vkGetSemaphoreCounterValue(self.handle, self.gate) == 0:
            vk.vkSignalSemaphore(
                self.handle, vk.VkSemaphoreSignalInfo(semaphore=self.gate, value=1)
            )
        info = vk.VkSemaphoreWaitInfo(pSemaphores=[self.timeline], pValues=[self.value])
        vk.vkWaitSemaphores(self.handle, info, 2**63)

    def close(self):
        for one in (self.buffer, self.pool, self.device):
            one.close()


@pytest.fixture
def held(monkeypatch):
    one = Held()
    monkeypatch.setattr(one.device.queue, "patience_s", 0.01)
    yield one
    one.release()  # or the driver would wait when the process ends


def test_what_a_late_device_uses_stays_when_it_is_closed(held):
    with pytest.raises(DeviceLostError, match="did not finish its work"):
        held.device.queue.wait(held.value)
    held.close()
    held.release()  # its timeline and buffer are there: it goes on
    assert held.device.validation_messages == []


def test_a_late_device_is_closed_without_a_wait_before(held):
    held.pool.close = held.buffer.close = lambda: None
    held.close()
    held.release()
    assert held.device.validation_messages == []


def test_a_late_device_takes_no_more_work_and_another_does(held):
    with pytest.raises(DeviceLostError):
        held.device.wait_idle()
    for ask in (held.device.wait_idle, lambda: held.device.queue.submit([])):
        with pytest.raises(DeviceLostError, match="was taken for lost"):
            ask()
    held.close()
    with Device.open(validation=True) as other:
        buffer = Buffer(other, 16, STORAGE, host=False)
        buffer.upload(bytes(range(16)))
        assert bytes(buffer.download()) == bytes(range(16))
        buffer.close()
    assert other.validation_messages == []
