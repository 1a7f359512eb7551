"""An engine for a test, which ends with it and leaves no thread behind."""

import threading

import pytest

from tests.core.engine_client import PATIENCE, Client, Hook

OF_THE_PROGRAM = ("sandbox", "grammar mask")  # threads that all engines share


@pytest.fixture
def client():
    before = threading.enumerate()
    client = Client()
    yield client
    assert client.engine.close(PATIENCE), "the engine's thread did not end"
    client.take()
    assert client.woken == len(client.events), "wake is called for every event"
    for thread in threading.enumerate():
        if thread not in before and not thread.name.startswith(OF_THE_PROGRAM):
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} is left behind"


@pytest.fixture
def hook(monkeypatch):
    return Hook(monkeypatch)
