"""What clients sent, without their texts: a text is kept as its length, and made of other words.

`tools.cross.conformance --record` writes it, `test_clients.py` sends it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

FOLDER = Path(__file__).with_name("clients")
_OF_PEOPLE = ("content", "text", "description", "instructions", "title", "output", "cmd")
_KEPT = ("arguments", "$schema", "$ref", "$id", "pattern")  # whose form counts
_NAMES = re.compile(r"[\w$.:#/@ -]{1,40}")
_MARK = re.compile(r"<a text of (\d+)>")
_WORDS = "Some of the words that a program has said here, for as long as it has said them. "


class Recorded(Struct):
    path: str
    body: Any


def form_of(value: Any, key: str = "") -> Any:
    """A value with the length of each text in place of it; names and numbers stay."""
    if isinstance(value, dict):
        return {name: form_of(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [form_of(one, key) for one in value]
    if not isinstance(value, str):
        return value
    if key in _KEPT:
        return value
    is_name = key not in _OF_PEOPLE and _NAMES.fullmatch(value) and not value.startswith("/")
    return value if is_name or not value else f"<a text of {len(value)}>"


def made_of(form: Any) -> Any:
    """A value of such a form, with texts of the same lengths."""
    if isinstance(form, dict):
        return {name: made_of(one) for name, one in form.items()}
    if isinstance(form, list):
        return [made_of(one) for one in form]
    if isinstance(form, str) and (found := _MARK.fullmatch(form)):
        length = int(found[1])
        return (_WORDS * (length // len(_WORDS) + 1))[:length]
    return form


def write(name: str, packages: Sequence[str], sent: Sequence[Recorded]) -> None:
    FOLDER.mkdir(exist_ok=True)
    rows = [{"path": one.path, "body": one.body} for one in sent]
    text = json.dumps({"packages": list(packages), "sent": rows}, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n")


def read(path: Path) -> list[Recorded]:
    rows = json.loads(path.read_text())["sent"]
    return [Recorded(row["path"], made_of(row["body"])) for row in rows]
