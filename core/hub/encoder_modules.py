"""Folders of sentence-transformers beside an encoder: what makes a vector of its hidden states, as
`core/models/description/sentence_files.py` reads it. They belong to the model and are none
themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = re.compile(r"\d+_(?:Pooling|Dense)")
_FILES = {"Pooling": ("config.json",), "Dense": ("config.json", "model.safetensors")}


def is_module_folder(name: str) -> bool:
    return _FOLDER.fullmatch(name) is not None


def is_module_file(path: str) -> bool:
    """Return True for a path below the model's folder such as "1_Pooling/config.json"."""
    folder, _, name = path.partition("/")
    return is_module_folder(folder) and name in _FILES[folder.partition("_")[2]]


def module_files(model: Path) -> list[Path]:
    """Return the files of such modules in a model's folder."""
    folders = (path for path in model.iterdir() if is_module_folder(path.name))
    files = (folder / name for folder in folders for name in _FILES[folder.name.partition("_")[2]])
    return sorted(file for file in files if file.is_file())
