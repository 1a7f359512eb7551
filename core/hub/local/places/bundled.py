"""Models that Python packages brought."""

from __future__ import annotations

from collections.abc import Iterator

from llm_lite.core.hub import bundled
from llm_lite.core.hub.local.found import Found


def find() -> Iterator[Found]:
    for entry in bundled.entries():
        if entry.path is not None:
            yield Found(
                entry.name,
                entry.path,
                "bundled",
                "gguf",
                (entry.path,),
                licence=entry.licence,
                place=entry.path.parent,
            )
