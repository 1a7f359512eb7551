"""An engine for a test, which ends with it and leaves no thread behind."""

import threading

import pytest

from tests.core.engine_client import PATIENCE, Client, Hook
from tests.families import family_of
from tests.family_checks import write_case

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


@pytest.fixture(scope="session")
def recurrent_folder(tmp_path_factory):
    """A Qwen3.5 for 1,024 tokens, in float32; nobody writes there."""
    family, path = family_of("qwen3_5"), tmp_path_factory.mktemp("qwen3_5") / "m"
    return write_case(family, "plain", path, max_position_embeddings=1024)
