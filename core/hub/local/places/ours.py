"""Our own folders: variants, slices, and files that a person has put there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.files.places import user_folder
from llm_lite.core.hub.local.found import Found
from llm_lite.core.hub.local.grouping import models_below


def models_folder() -> Path:
    """Return the folder in which variants and slices are written."""
    return user_folder("data") / "models"


def folders() -> tuple[Path, ...]:
    """Return our folder, and the one in which earlier versions kept variants."""
    return (models_folder(), user_folder("data") / "variants")


def find(folder: Path) -> Iterator[Found]:
    yield from models_below("llm-lite", folder)
