"""Models that many tests share: a tiny random llama, and the real default model."""

from pathlib import Path

import pytest

from core import catalog
from tests.make_gguf import write_tiny_llama


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> Path:
    """Two layers, 300 tokens, 128 positions; answers in nonsense, at once."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return catalog.resolve(None)
