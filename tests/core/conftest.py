"""An engine for a test, which ends with it and leaves no thread behind."""

import threading

import pytest

from tests.core.engine_client import PATIENCE, Client, Hook
from tests.families import family_of
from tests.family_checks import RECURRENT, write_case

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


def _recurrent(name, tmp_path_factory):
    """A model of a family for 1,024 tokens, in float32; nobody writes there."""
    path = tmp_path_factory.mktemp(name) / "m"
    return write_case(family_of(name), "plain", path, max_position_embeddings=1024)


@pytest.fixture(scope="session")
def recurrent_folder(tmp_path_factory):
    """A Qwen3.5, whose states have heads."""
    return _recurrent("qwen3_5", tmp_path_factory)


@pytest.fixture(scope="session", params=RECURRENT)
def each_recurrent_folder(request, tmp_path_factory):
    """One of each family with recurrent states."""
    return _recurrent(request.param, tmp_path_factory)


@pytest.fixture(scope="session")
def convolution_folder(tmp_path_factory):
    """An LFM2, whose states are of convolutions only."""
    return _recurrent("lfm2", tmp_path_factory)
