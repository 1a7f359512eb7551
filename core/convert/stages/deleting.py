"""Deletions of the queue: what is gone already is no error, so that each can be begun again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.convert.stages.report import StageReport
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.hub.local.listing import local_models
from llm_lite.core.hub.local.removal import delete_models, removal
from llm_lite.core.loading.sources import open_source
from llm_lite.core.loading.verification import require_sound


def delete(task: Mapping[str, Any], report: StageReport) -> dict[str, Any]:
    """Delete models that a person has chosen, by the paths that they had then."""
    report.part(0.0, 1.0)("looking for what is shared", 0.0)
    return {"freed": _remove(task["paths"])}


def delete_source(task: Mapping[str, Any], report: StageReport) -> dict[str, Any]:
    """Delete the source that a job has fetched or was given, and a slice between, after the result
    has been read back."""
    output = task["output"]
    sources = [path for path in (task["path"], task["input"]) if path and path != output]
    if not sources:
        raise RequestError("nothing was made of the source, which is therefore kept")
    _check_views(sources)
    _read_back(Path(output), report)
    return {"freed": _remove(list(dict.fromkeys(sources)))}


def _check_views(sources: Sequence[str]) -> None:
    """Raise RequestError for a slice that has no weights of its own, and takes them from a
    source."""
    every = local_models(companions=True)
    names = {model.name for model in every if str(model.path) in sources}
    for model in every:
        if model.form == "slice" and model.made_of in names:
            raise RequestError(
                f"{model.made_of} is kept: the slice {model.name} ({model.path}) is a view of it"
            )


def _read_back(path: Path, report: StageReport) -> None:
    """Read a file back and raise FileError if it is not what was written."""
    source = open_source(path)
    try:
        parts, done = source.parts, 0
        total = max(1, sum(part.nbytes for part in parts))
        progress = report.part(0.0, 0.95)
        for part in parts:
            require_sound(part, release=True)
            done += part.nbytes
            progress(f"reading {part.name} back", done / total)
    finally:
        source.close()


def _remove(paths: Sequence[str]) -> int:
    """Delete the models at these paths and return by how many bytes the disk has more room."""
    known = {str(model.path) for model in local_models(companions=True)}
    here = [path for path in paths if path in known]
    for path in paths:
        if path not in known and os.path.lexists(path):
            raise FileError(path, "is no model that this program may delete, and is left there")
    return delete_models(removal(here)) if here else 0
