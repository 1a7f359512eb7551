"""What tests of pulls share."""

import random
from pathlib import Path

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub.remote.pulling import pull

NAME = "model.Q4_0.gguf"
REPO = "tiny/talker"


def content(size: int, seed: int = 1) -> bytes:
    """Bytes that are the same in every run: a pull does not look into them."""
    return random.Random(seed).randbytes(size)


def blobs(cache: Path) -> dict[str, int]:
    """Sizes of what lies there as a blob, finished or not."""
    return {path.name: path.stat().st_size for path in cache.glob("*/blobs/*")}


def pointers(cache: Path) -> list[str]:
    found = [path for path in cache.glob("*/snapshots/*/**/*") if not path.is_dir()]
    return sorted(path.name for path in found)


def sentence(repo: str = REPO, file: str = "", **options) -> str:
    with pytest.raises(LlmLiteError) as caught:
        pull(repo, file, **options)
    text = str(caught.value)
    assert "\n" not in text and "Traceback" not in text
    return text
