"""Models that a person has imported: a list of paths in a JSON file of ours, nothing is copied.

{"version": 1, "paths": ["/data/models/one.gguf", ...]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.json_text import found as shown
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, reason, write_file
from llm_lite.core.hub.local.found import Found, broken
from llm_lite.core.hub.local.grouping import ModelFiles, Walk, as_found, groups

_VERSION = 1
_MOST = 10_000  # paths
_PATIENCE = 10.0  # seconds; a change takes milliseconds


def list_file() -> Path:
    return user_folder("data") / "imported-models.json"


def find(file: Path) -> Iterator[Found]:
    """Yield the imported models that exist; a path that leads nowhere is reported as broken."""
    try:
        paths = read(file)
    except LlmLiteError as error:
        yield broken("imported", file, str(error))
        return
    for path in paths:
        group = group_at(path)
        if group is None:
            text = f"{path}: is not there any more, or no model; `llm-lite models gc` forgets it"
            yield broken("imported", path, text)
        else:
            folder = path.parent if group.form == "gguf" else path
            yield as_found("imported", folder, folder, group)


def group_at(path: Path) -> ModelFiles | None:
    """Return the model at a path: a GGUF file (the first of its parts) or a directory."""
    folder = path if path.is_dir() else path.parent
    walk = Walk(folder, deepest=0)
    for _, files in walk.folders():
        for group in groups(files):
            if path == folder and group.form != "gguf":
                return group
            if path.name in group.files and group.form == "gguf":
                return group
    return None


def read(file: Path) -> list[Path]:
    """Read the list of imported paths. FileError if the file is not as we write it."""
    if not file.exists():
        return []
    value = read_object(file, private=True)
    paths = value.get("paths")
    if value.get("version") != _VERSION or not isinstance(paths, list):
        raise FileError(file, f"paths is {shown(paths)}, expected a list of paths (version 1)")
    if not all(isinstance(path, str) and path and "\0" not in path for path in paths):
        raise FileError(file, "paths: expected texts, found something else among them")
    return [Path(path) for path in dict.fromkeys(paths[:_MOST])]


def change(file: Path, changed: Callable[[list[Path]], list[Path]]) -> None:
    """Write the list that `changed` returns; no other program changes it meanwhile. FileError if it
    cannot be read or written, and then it is as it was."""
    from filelock import FileLock, Timeout

    make_folder(file.parent)
    lock = FileLock(file.with_name(f".{file.name}.lock"))
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise FileError(file, "another program has locked it for more than 10 seconds") from None
    except (OSError, NotImplementedError) as error:
        raise FileError(file, f"cannot be locked: {reason(error)}") from None
    try:
        _write(file, changed(read(file)))
    finally:
        lock.release()


def _write(file: Path, paths: list[Path]) -> None:
    for path in paths:
        if not _is_unicode(path):  # JSON has no place for it, and would be unreadable with it
            raise FileError(path, "cannot be remembered: expected a path in UTF-8; rename it first")
    if len(paths) > _MOST:
        raise FileError(file, f"holds {_MOST} paths already, which is the most it takes")
    value = {"version": _VERSION, "paths": [str(path) for path in paths]}
    write_file(file, json.dumps(value, indent=1, ensure_ascii=True).encode(), private=True)


def _is_unicode(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
