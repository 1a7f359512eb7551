"""Fetches a model of a hub into the cache of huggingface_hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.convert.stages.report import StageReport
from llm_lite.core.hub.remote.progress import PullProgress
from llm_lite.core.hub.remote.pulling import pull


def download(task: Mapping[str, Any], report: StageReport) -> dict[str, Any]:
    """Download a model; what the cache has is not fetched again, and a partial file is
    continued."""

    def progress(pulled: PullProgress) -> None:
        detail = pulled.note or _file_of(pulled)
        report.count(pulled.all_done, pulled.all_total, detail, no_rate=pulled.rate == 0)

    path = pull(task["repo"], task["file"], task["revision"], progress, report.stop)
    commit, file = _in_cache(path)
    return {"path": str(path), "revision": commit, "file": file}


def _file_of(pulled: PullProgress) -> str:
    """Return the name of the file that is being fetched; of several, with how far it is itself."""
    if not 0 < pulled.total < pulled.all_total:
        return pulled.file
    return f"{pulled.file} ({pulled.done / pulled.total:.0%})"


def _in_cache(path: Path) -> tuple[str, str]:
    """Return commit and path in the repository: snapshots/COMMIT/FILE; "" for a checkpoint."""
    for folder in path.parents:
        if folder.parent.name == "snapshots":
            return folder.name, path.relative_to(folder).as_posix()
    return (path.name, "") if path.parent.name == "snapshots" else ("", "")
