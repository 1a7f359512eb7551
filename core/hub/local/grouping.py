"""From a folder's files to models: GGUF files and their parts, checkpoints, variants, slices."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from llm_lite.core.files.writing import reason
from llm_lite.core.formats.huggingface_reader import CONFIG_FILE
from llm_lite.core.formats.safetensors_reader import INDEX_FILE, SINGLE_FILE
from llm_lite.core.formats.variant_reader import MANIFEST_FILE
from llm_lite.core.hub.encoder_modules import is_module_folder, module_files
from llm_lite.core.hub.local.found import Found, broken
from llm_lite.core.messages.library import Form, Origin
from llm_lite.core.models.description.slices import SLICE_FILE
from llm_lite.core.text import template_files

MOST_ENTRIES = 100_000  # of a place
DEEPEST = 8  # folders below it
_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE)
_PICKLED = re.compile(r"pytorch_model(-[0-9]+-of-[0-9]+)?\.bin")
Files = Mapping[str, os.stat_result | None]


class Walk(Struct):
    """Iterates over the files below `root`, a folder after the other; links are followed, hidden
    files and folders passed over. Nothing in them is trusted: links may lead in circles or nowhere.

    `problems` has what could not be read: (path, a sentence's end) of each.
    """

    root: Path
    deepest: int = DEEPEST
    most: int = MOST_ENTRIES
    problems: list[tuple[Path, str]] = field(default_factory=list)

    def folders(self) -> Iterator[tuple[Path, dict[str, os.stat_result | None]]]:
        """Yield (folder, its files): a file's status, None if its link leads nowhere."""
        waiting = [(self.root, 0)]
        seen: set[tuple[int, int]] = set()
        left = self.most
        while waiting:
            folder, depth = waiting.pop()
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in seen and status.st_ino:
                    continue
                seen.add((status.st_dev, status.st_ino))
                files, folders, left = self._read(folder, left)
            except OSError as error:
                self.problems.append((folder, f"cannot be read: {reason(error)}"))
                continue
            if folders and depth >= self.deepest:
                text = f"has folders more than {self.deepest} deep, which are not looked into"
                self.problems.append((self.root, text))
            else:
                waiting += ((path, depth + 1) for path in sorted(folders, reverse=True))
            yield folder, files
            if left <= 0:
                text = f"holds more than {self.most} files, of which the rest is not listed"
                self.problems.append((self.root, text))
                return

    def _read(
        self, folder: Path, left: int
    ) -> tuple[dict[str, os.stat_result | None], list[Path], int]:
        files: dict[str, os.stat_result | None] = {}
        folders = []
        with os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if left <= 0:
                    break
                if entry.name.startswith("."):  # what is unfinished, and what systems put there
                    continue
                try:
                    status = entry.stat()
                except OSError:  # a link to nowhere, or to itself
                    files[entry.name] = None
                    continue
                if stat.S_ISDIR(status.st_mode):
                    folders.append(Path(entry.path))
                elif stat.S_ISREG(status.st_mode):
                    files[entry.name] = status
        return files, folders, left


class ModelFiles(Struct, frozen=True):
    """Files of one folder that are one model; `name`: without suffix and part number."""

    name: str
    form: Form
    files: tuple[str, ...]
    problem: str = ""


def models_below(origin: Origin, root: Path, *, deepest: int = 4) -> Iterator[Found]:
    """Yield every model in a tree of folders, as LM Studio and this program have them."""
    walk = Walk(root, deepest)
    for folder, files in walk.folders():
        if is_module_folder(folder.name) and (folder.parent / CONFIG_FILE).is_file():
            continue
        for group in groups(files):
            yield as_found(origin, root, folder, group)
    for path, problem in walk.problems:
        yield broken(origin, path, f"{path}: {problem}")


def as_found(origin: Origin, root: Path, folder: Path, group: ModelFiles) -> Found:
    is_file = group.form == "gguf"
    path = folder / group.files[0] if is_file else folder
    problem = f"{path}: {group.problem}" if group.problem else ""
    files = tuple(folder / name for name in group.files)
    if group.form == "huggingface":
        files += tuple(module_files(folder))
        files += tuple(file for file in (folder / template_files.FOR_TOOLS,) if file.is_file())
    label = group.name if is_file else folder.name
    return Found(label, path, origin, group.form, files, problem=problem, place=root)


def groups(files: Files) -> Iterator[ModelFiles]:
    """Yield the models of one folder."""
    if MANIFEST_FILE in files:
        yield ModelFiles("", "variant", tuple(sorted(files)))
    elif SLICE_FILE in files:
        yield ModelFiles("", "slice", (SLICE_FILE,))
    elif CONFIG_FILE in files and _has_weights(files):
        yield ModelFiles("", "huggingface", tuple(sorted(_of_checkpoint(files))))
    yield from _gguf_files(files)


def _has_weights(files: Collection[str]) -> bool:
    return SINGLE_FILE in files or INDEX_FILE in files or any(map(_PICKLED.fullmatch, files))


def _of_checkpoint(files: Collection[str]) -> list[str]:
    return [name for name in files if not name.lower().endswith(".gguf")]


def _gguf_files(files: Files) -> Iterator[ModelFiles]:
    parts: dict[tuple[str, int], list[str]] = {}
    for name in sorted(files):
        if not name.lower().endswith(".gguf"):
            continue
        match = _PART.fullmatch(name)
        if match:
            parts.setdefault((match[1], int(match[3])), []).append(name)
        else:
            yield ModelFiles(name[: -len(".gguf")], "gguf", (name,), _lost(files, (name,)))
    for (name, count), found in parts.items():
        problem = _lost(files, found)
        if len(found) != count and not problem:
            problem = f"is one of {count} parts, of which {len(found)} are here"
        yield ModelFiles(name, "gguf", tuple(found), problem)


def _lost(files: Files, names: Collection[str]) -> str:
    lost = [name for name in names if files[name] is None]
    return "is a link to a file that is not there" if lost else ""
