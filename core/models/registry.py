"""Architecture name, as files write it, -> the page that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.models import gemma3n, llama
from llm_lite.core.models.model import Model, Reader
from llm_lite.core.plan.builder import WeightSpec

ARCHITECTURES: Mapping[str, Reader] = {"llama": llama.read, "gemma3n": gemma3n.read}


def read_model(
    metadata: Mapping[str, object], weights: Mapping[str, WeightSpec], path: Path
) -> Model:
    """The model of a file; UnsupportedError or FileError where it is unknown or does not fit."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise FileError(path, "general.architecture: the field is missing or no string")
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UnsupportedError(
            f"{path}: architecture {architecture[:60]!r} is not known here; known are: {known}"
        )
    return ARCHITECTURES[architecture](metadata, weights, path)
