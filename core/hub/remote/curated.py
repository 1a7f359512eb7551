"""The curated list: a few well-known small models that run here, each with date and reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from llm_lite.core.assets import ASSETS
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.hub.remote.files import is_name, usable_path
from llm_lite.core.messages.library import CuratedModel
from llm_lite.core.plain_text import one_line

LIST = ASSETS / "models.json"
_MOST_BYTES, _MOST_ROWS, _LONGEST = 256 << 10, 200, 400
_TEXTS = ("repo", "file", "title", "licence", "date", "reason")
_SIZES = ("size", "memory")
_DATE = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")


def curated_models(path: Path = LIST) -> tuple[CuratedModel, ...]:
    """Read the curated list. FileError names row and field."""
    rows = read_object(path, limit=_MOST_BYTES).get("models")
    if not isinstance(rows, list) or len(rows) > _MOST_ROWS:
        raise FileError(path, f'"models" is {found(rows)}, expected at most {_MOST_ROWS} objects')
    return tuple(_row(path, number, row) for number, row in enumerate(rows))


def _row(path: Path, number: int, row: Any) -> CuratedModel:
    where = f'"models"[{number}]'
    if not isinstance(row, dict):
        raise FileError(path, f"{where} is {found(row)}, expected an object")
    values: dict[str, Any] = {}
    for key in _TEXTS:
        value = row.get(key)
        if not isinstance(value, str) or not value or len(value) > _LONGEST:
            raise FileError(path, f'{where}["{key}"] is {found(value)}, expected a short text')
        values[key] = one_line(value)
    for key in _SIZES:
        value = row.get(key)
        if type(value) is not int or not 0 < value < 1 << 50:
            raise FileError(path, f'{where}["{key}"] is {found(value)}, expected a count of bytes')
        values[key] = value
    if not (is_name(values["repo"]) and usable_path(values["file"])):
        raise FileError(path, f'{where}: "repo" and "file" are to be OWNER/NAME and a plain path')
    if _DATE.fullmatch(values["date"]) is None:
        raise FileError(path, f'{where}["date"] is {found(values["date"])}, expected a date')
    return CuratedModel(**values)
