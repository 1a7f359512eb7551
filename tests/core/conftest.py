"""An engine for a test, which ends with it and leaves no thread behind."""

import threading

import pytest

from tests.core.engine_client import PATIENCE, Client, Hook


@pytest.fixture
def client():
    before = threading.active_count()
    client = Client()
    yield client
    assert client.engine.close(PATIENCE), "the engine's thread did not end"
    client.events += client.engine.poll()
    assert client.woken == len(client.events), "wake is called for every event"
    assert threading.active_count() == before


@pytest.fixture
def hook(monkeypatch):
    return Hook(monkeypatch)
