"""Models that many tests share: a tiny random llama, and the real default model."""

import signal
from pathlib import Path

import pytest

from core import catalog
from tests.make_gguf import write_tiny_llama

# A shell's background jobs ignore Ctrl-C, and so would we and our children: tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> Path:
    """Two layers, 300 tokens, 128 positions: talks varied nonsense, at once and at length."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return catalog.resolve(None)
