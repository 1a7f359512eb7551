"""What variants and slices were made of: read from their manifests, matched with what is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.formats.variant.reader import MANIFEST_FILE
from llm_lite.core.hub.local.found import ON_A_HUB, Found, MadeOf
from llm_lite.core.models.description.slices import SLICE_FILE

_LONGEST = 200  # characters of a name that a manifest tells


def made_of(model: Found) -> MadeOf | None:
    """None of a model that was made of nothing, or does not say of what."""
    try:
        if model.form == "variant":
            return _of_variant(read_object(model.path / MANIFEST_FILE).get("source"))
        if model.form == "slice":
            return _of_slice(model.path, read_object(model.path / SLICE_FILE).get("source"))
    except LlmLiteError:  # its header says what is wrong with it
        return None
    return None


def _of_variant(source: object) -> MadeOf | None:
    if not isinstance(source, dict):
        return None
    size = source.get("bytes")
    return MadeOf(_text(source, "made_of"), _text(source, "name"), size if type(size) is int else 0)


def _of_slice(folder: Path, source: object) -> MadeOf | None:
    if not isinstance(source, str) or len(source) > 4096:
        return None
    try:
        path = (folder / source).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return MadeOf(file=path.name, path=path)


def name_of(source: MadeOf, named: Sequence[tuple[str, Found, int]]) -> str:
    """The local name of a source: of (name, model, size) the one that it is; else what was told of
    it, when it is no longer here. Never the name of a model that it is not."""
    known = [one for one in named if _may_be(source, one[1], one[2])]
    for name, model, _ in known:
        if source.path is not None and _same(source.path, model.path):
            return name
    for name, model, _ in known:
        if source.told and (source.told == name or _is_on_hub(source.told, model)):
            return name
    for name, model, _ in known:
        if source.size and source.file == model.path.name:
            return name
    label = source.told or Path(source.file).stem
    return f"another {label}" if any(name == label for name, _, _ in named) else label


def _may_be(source: MadeOf, model: Found, size: int) -> bool:
    """Names come again: another size, or another repository, is another model."""
    repo = source.told.removeprefix(ON_A_HUB).partition(":")[0]
    if source.told.startswith(ON_A_HUB) and model.repo and model.repo != repo:
        return False
    return not source.size or source.size in _sizes(model, size)


def _sizes(model: Found, size: int) -> tuple[int, ...]:
    """Bytes by which a manifest may know a model: of all files, of its GGUF file alone (in Ollama's
    folder a licence lies beside it), of a folder's weights."""
    if model.form == "gguf":
        return size, _own_size(model.path)
    return size, sum(_own_size(file) for file in model.files if file.suffix == ".safetensors")


def _same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _is_on_hub(told: str, model: Found) -> bool:
    """Whether hf:owner/name[:file] is this model; the file may stand in a folder, or be one of
    those of a checkpoint."""
    repo, _, file = told.removeprefix(ON_A_HUB).partition(":")
    if not told.startswith(ON_A_HUB) or not model.repo or repo != model.repo:
        return False
    name = file.rpartition("/")[2]
    return name in ("", model.path.name) or _is_weights_of(model, name)


def _is_weights_of(model: Found, name: str) -> bool:
    return model.form == "huggingface" and any(file.name == name for file in model.files)


def _own_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) and len(value) <= _LONGEST else ""
