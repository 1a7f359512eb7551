"""LM Studio: publisher/model/file.gguf below a folder that its settings may name.

Its home is ~/.lmstudio, before version 0.3.6 ~/.cache/lm-studio, or what ~/.lmstudio-home-pointer
names; settings.json in the home, or in the application's own folder, names `downloadsFolder`.
Layout: https://lmstudio.ai/docs/app/basics/import-model
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import read_bytes, read_object
from llm_lite.core.hub.local.found import Found
from llm_lite.core.hub.local.grouping import models_below
from llm_lite.core.hub.local.places.user import at_home, environment_path, expanded
from llm_lite.core.records import replace

_POINTER_BYTES = 4096
_SETTINGS_BYTES = 1 << 20


def folders() -> tuple[Path, ...]:
    homes = [*_pointed(), *at_home(".lmstudio"), *at_home(".cache", "lm-studio")]
    found = [path for home in (*homes, *_application()) for path in _set(home)]
    return tuple(dict.fromkeys((*found, *(home / "models" for home in homes))))


def find(folder: Path) -> Iterator[Found]:
    """Yield the models of LM Studio; the path publisher/model/file names the hub's repository, as
    LM Studio keeps its names."""
    for found in models_below("lm-studio", folder):
        inside = found.path.relative_to(folder).parts if found.path.is_relative_to(folder) else ()
        if found.form == "gguf" and len(inside) == 3:
            found = replace(found, repo="/".join(inside[:2]))
        elif found.form == "huggingface" and len(inside) == 2:
            found = replace(found, repo="/".join(inside))
        yield found


def _pointed() -> Iterator[Path]:
    for pointer in at_home(".lmstudio-home-pointer"):
        try:
            text = read_bytes(pointer, _POINTER_BYTES).decode("utf-8").strip()
            if text and "\0" not in text and Path(text).is_absolute():
                yield Path(text)
        except (LlmLiteError, UnicodeDecodeError):
            continue


def _application() -> tuple[Path, ...]:
    """Return the folder of the application's settings, which Electron chooses on each system."""
    if sys.platform == "win32":
        roaming = environment_path("APPDATA")
        return () if roaming is None else (roaming / "LM Studio",)
    if sys.platform == "darwin":
        return at_home("Library", "Application Support", "LM Studio")
    config = environment_path("XDG_CONFIG_HOME")
    return at_home(".config", "LM Studio") if config is None else (config / "LM Studio",)


def _set(home: Path) -> Iterator[Path]:
    """Yield the folder that settings.json of a home names."""
    try:
        text = read_object(home / "settings.json", limit=_SETTINGS_BYTES).get("downloadsFolder")
    except LlmLiteError:
        return
    if isinstance(text, str) and text and "\0" not in text:
        path = expanded(text)
        if path is not None and path.is_absolute():
            yield path
