"""A tiny model that is served."""

import pytest

from tests.make_gguf import write_tiny_llama


@pytest.fixture(scope="session")
def served_model(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("served") / "tiny.gguf", context=512, seed=2)
