"""Variants of a model that a person kept on disk: found again by what the model is, and mapped
where they would otherwise be made in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.folders import remove_folder, tidy
from llm_lite.core.formats.variant_reader import (
    VariantFolder,
    is_variant,
    listed_files,
    open_variant,
)
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.model_source import ModelSource, identity_of, repository_of
from llm_lite.core.messages import MODES, Mode

_OLDER = "variants"  # the folder beside ours in which earlier versions kept them
_DIGITS = 16  # of the identity, in a folder's name
_IDENTITY = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}$")


def place_of(folder: Path, file: ModelFile, mode: str) -> Path:
    """Return the place where a variant of this model and mode is kept."""
    return folder / f"{_stem_of(file)}-{mode}"


def _stem_of(file: ModelFile) -> str:
    return f"{_own_name(file.path)}-{file.identity[:_DIGITS]}"


def place_of_slice(folder: Path, source: ModelSource, cut: str) -> Path:
    """Return the place where a slice of a model is kept; `cut` names the slice, and no other."""
    identity = identity_of(source, source.nbytes)[:_DIGITS]
    return folder / f"{_own_name(source.path)}-{_plain(cut)}-{identity}"


def _own_name(path: Path) -> str:
    """Return the name without the identity of a slice."""
    return _plain(repository_of(path) or _IDENTITY.sub("", path.stem))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:64]


def find(folder: Path, file: ModelFile, warn: Callable[[str], None]) -> dict[Mode, Path]:
    """Return the kept variants of a model by mode; damaged ones only cause a warning."""
    found: dict[Mode, Path] = {}
    places = [place for place in (folder, folder.with_name(_OLDER)) if place.is_dir()]
    stem = _stem_of(file) if places else ""
    for path, mode in ((place / f"{stem}-{mode}", mode) for mode in MODES for place in places):
        tidy(path, listed_files)
        if mode in found or not is_variant(path):
            continue
        try:
            open_weights(path, file, mode)
            found[mode] = path
        except LlmLiteError as error:
            warn(f"{error} The variant is left alone, and made in memory when it is wanted.")
    return found


def open_weights(path: Path, file: ModelFile, mode: str) -> VariantFolder:
    """Open a kept variant, mapped. FileError if it cannot be read or is not this model's."""
    variant = open_variant(path)
    if variant.mode != mode:
        raise FileError(path, f"mode: expected {mode}, found {variant.mode}")
    shapes = {tensor.name: tensor.shape for tensor in variant.tensors.values()}
    expected = {tensor.name: tensor.shape for tensor in file.file.tensors.values()}
    if shapes != expected:
        raise FileError(path, f"its tensors are not those of {file.path}")
    return variant


def remove(path: Path) -> int:
    """Delete a kept variant, all or nothing of it, and return the bytes that it took. FileError.

    It is gone with its name. What cannot be deleted at once goes when the model is opened again.
    """
    if not is_variant(path):
        raise FileError(path, "expected a variant of a model, found none")
    return remove_folder(path, listed_files)
