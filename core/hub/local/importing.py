"""Imports a model that is somewhere else: its path is remembered, nothing is copied."""

from __future__ import annotations

from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.hub.local.headers import read_header
from llm_lite.core.hub.local.listing import Places, local_models
from llm_lite.core.hub.local.places import imported
from llm_lite.core.messages.library import LocalModel


def import_model(path: Path, places: Places | None = None) -> LocalModel:
    """Remember a GGUF file (any of its parts) or a directory. FileError where it is no model, or
    none that can be run here. One that is listed anyway is returned as it is."""
    place = path.absolute()
    try:
        if not place.exists():
            raise FileError(path, "no such file")
        group = imported.group_at(place)
    except (OSError, ValueError):
        raise FileError(path, "cannot be read, or is no path") from None
    if group is None:
        raise FileError(path, f"is no model: {_instead(place)}")
    if group.form == "gguf":
        place = place.with_name(group.files[0])
    problem = f"{place}: {group.problem}" if group.problem else ""
    problem = problem or read_header(group.form, place).problem
    if problem:
        raise FileError(path, f"is not imported, as it could not be used: {problem}")
    known = _known(place, places)
    if known is not None:
        return known
    for file in [imported.list_file()] if places is None else places.of("imported"):
        imported.change(file, lambda paths: [*paths, place])
    found = _known(place, places)
    assert found is not None
    return found


def _instead(place: Path) -> str:
    inside = sorted(place.glob("*.gguf")) if place.is_dir() else []
    if inside:
        return f"it is a folder of GGUF files, to be imported one by one, as {inside[0]}"
    return (
        "expected a GGUF file, a directory with config.json and safetensors, a variant or a slice"
    )


def _known(path: Path, places: Places | None) -> LocalModel | None:
    return next((model for model in local_models(places) if _same(model.path, path)), None)


def _same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.resolve() == other.resolve()
    except (OSError, RuntimeError):
        return False
