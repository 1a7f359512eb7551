"""Models that Python packages brought."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.hub import bundled
from llm_lite.core.hub.local.found import Found


def _files(folder: Path) -> tuple[Path, ...]:
    return tuple(path for path in sorted(folder.rglob("*")) if path.is_file())


def find() -> Iterator[Found]:
    for entry in bundled.entries():
        if entry.path is not None:
            yield Found(
                entry.name,
                entry.path,
                "bundled",
                "huggingface" if entry.is_folder else "gguf",
                _files(entry.path) if entry.is_folder else (entry.path,),
                licence=entry.licence,
                place=entry.path.parent,
            )
