"""Our own folders: variants, slices, and files that a person has put there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.files.places import user_folder
from llm_lite.core.hub.local.found import Found
from llm_lite.core.hub.local.grouping import models_below


def folders() -> tuple[Path, ...]:
    """Models, and the variants that the window keeps."""
    data = user_folder("data")
    return (data / "models", data / "variants")


def find(folder: Path) -> Iterator[Found]:
    yield from models_below("llm-lite", folder)
