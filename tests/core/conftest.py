"""One validated Vulkan device for the whole run; every test must leave it silent."""

import pytest

from core.gpu.device import Device


@pytest.fixture(scope="session")
def _shared_device():
    device = Device.open(validation=True)
    yield device
    device.close()
    assert device.validation_messages == [], "messages while the device was closed"


@pytest.fixture
def device(_shared_device):
    yield _shared_device
    messages = list(_shared_device.validation_messages)
    _shared_device.validation_messages.clear()
    assert messages == []
