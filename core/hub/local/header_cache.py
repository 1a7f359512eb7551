"""Headers that were read before, by path, size and time of writing of their files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.hub.local.headers import Header, read_header
from llm_lite.core.messages.library import Form
from llm_lite.core.models.registry import ARCHITECTURES
from llm_lite.core.quant.registry import FORMATS

_LAYOUT = 1
_MOST = 5000  # headers
_BYTES = 16 << 20
_KINDS = {field.name: type(field.default) for field in fields(Header)}


class HeaderCache:
    """Use as a context: what was read is kept when it ends. A cache that cannot be read or written
    costs time and nothing else."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or user_folder("cache") / "model-headers.json"
        self._known = _read(self._file)
        self._used: dict[str, list[Any]] = {}
        self._changed = False

    def __enter__(self) -> HeaderCache:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._changed:
            return
        kept = {**self._known, **self._used}
        newest = dict(list(kept.items())[-_MOST:])
        try:
            make_folder(self._file.parent)
            content = {"layout": _layout(), "headers": newest}
            write_file(self._file, json.dumps(content).encode())
        except (LlmLiteError, OSError):
            return

    def header(self, form: Form, path: Path, files: Sequence[Path]) -> Header:
        if form == "slice":  # what it says is another model's
            return read_header(form, path)
        stamp = _stamp(files)
        key = str(path)
        known = self._known.get(key)
        if stamp and known is not None and known[:2] == [form, stamp]:
            return Header(**known[2])
        header = read_header(form, path)
        lasts = not header.problem or not header.runnable  # else it may be mended
        if stamp and lasts and key.isprintable():  # no half characters: JSON has no place for them
            self._used[key] = [form, stamp, asdict(header)]
            self._changed = True
        return header


def _stamp(files: Sequence[Path]) -> str:
    """What changes when one of the files does; "" where one cannot be looked at."""
    digest = hashlib.sha256()
    for file in files:
        try:
            status = file.stat()
        except OSError:
            return ""
        digest.update(f"{status.st_ino} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _layout() -> str:
    """Another program knows other models, and says so of the same file."""
    known = f"{_LAYOUT} {sorted(ARCHITECTURES)} {sorted(FORMATS)}"
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def _read(file: Path) -> dict[str, list[Any]]:
    try:
        value = read_object(file, limit=_BYTES)
    except LlmLiteError:
        return {}
    headers = value.get("headers")
    if value.get("layout") != _layout() or not isinstance(headers, dict):
        return {}
    return {key: one for key, one in headers.items() if _is_header(one)}


def _is_header(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], dict):
        return False
    return {key: type(one) for key, one in value[2].items()} == _KINDS
