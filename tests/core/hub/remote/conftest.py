"""A hub on the loopback address and a cache of its own, for each test; waits are short."""

import pytest

from llm_lite.core.hub.remote import access, transfer
from tests.hub.server import running_hub

_FOREIGN = ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    for name in (*_FOREIGN, *_PROXIES, "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "2")
    monkeypatch.setattr(access, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(transfer, "_FIRST_WAIT", 0.01)
    return tmp_path / "hf" / "hub"


@pytest.fixture
def hub(cache, monkeypatch):
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
