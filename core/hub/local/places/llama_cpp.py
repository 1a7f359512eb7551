"""llama.cpp's own cache of downloads: owner_name_file.gguf beside manifest=owner=name=tag.json.

Newer versions use the layout of huggingface_hub, in its cache or where LLAMA_CACHE says.
https://github.com/ggml-org/llama.cpp/blob/master/common/download.cpp
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.hub.local.found import Found
from llm_lite.core.hub.local.grouping import models_below
from llm_lite.core.hub.local.places import huggingface
from llm_lite.core.hub.local.places.user import at_home, environment_path
from llm_lite.core.records import replace

_MANIFEST = re.compile(r"manifest=([^=]+)=([^=]+)=.*\.json")


def folders() -> tuple[Path, ...]:
    if (path := environment_path("LLAMA_CACHE")) is not None:
        return (path,)
    if sys.platform == "win32":
        local = environment_path("LOCALAPPDATA")
        return () if local is None else (local / "llama.cpp",)
    if sys.platform == "darwin":
        return at_home("Library", "Caches", "llama.cpp")
    cache = environment_path("XDG_CACHE_HOME")
    return at_home(".cache", "llama.cpp") if cache is None else (cache / "llama.cpp",)


def find(folder: Path) -> Iterator[Found]:
    yield from huggingface.find(folder, "llama.cpp")
    repos = _repos(folder)
    for found in models_below("llama.cpp", folder, deepest=0):
        for owner, name in repos:
            start = f"{owner}_{name}_"
            if found.label.startswith(start):
                label = found.label[len(start) :]
                found = replace(found, label=label, repo=f"{owner}/{name}")
                break
        if not found.problem or found.files:
            yield found


def _repos(folder: Path) -> list[tuple[str, str]]:
    """Return owner and name of each manifest; the longest first, as one may begin as another
    does."""
    matches = (_MANIFEST.fullmatch(path.name) for path in folder.iterdir())
    found = {(match[1], match[2]) for match in matches if match}
    return sorted(found, key=lambda pair: -len("".join(pair)))
