"""A model whose contexts are long and cheap."""

import pytest

from tests.make_gguf import write_tiny_llama


@pytest.fixture(scope="session")
def long_llama(tmp_path_factory):
    """Two layers with the widths and heads of SmolLM2, and 2,048 positions."""
    sizes = {"width": 576, "ffn": 1536, "heads": 9, "kv_heads": 3, "layers": 2, "context": 2048}
    folder = tmp_path_factory.mktemp("long")
    return write_tiny_llama(folder / "m.gguf", seed=4, dtype="q4_1", **sizes)
