"""The description of a model by the place where it was found, before its own header is read."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from llm_lite.core.messages.library import Form, Origin

ON_A_HUB = "hf:"  # before owner/name[:file]


class MadeOf(Struct, frozen=True):
    """The source of a variant or slice, as far as it was written down."""

    known_as: str = ""  # the name by which a person knew it, or "hf:owner/name:file"
    file: str = ""  # the last part of its path
    size: int = 0  # bytes
    path: Path | None = None  # of a slice that is a view


class Found(Struct, frozen=True):
    label: str  # what its program calls it: a name is made of it
    path: Path  # what a load takes
    origin: Origin
    form: Form
    files: tuple[Path, ...]  # what it is made of, as the place has them
    repo: str = ""
    revision: str = ""
    made_of: MadeOf | None = None
    licence: str = ""  # where the place tells
    problem: str = ""  # what the place itself says is wrong
    place: Path = Path()  # the folder in which it was found


def broken(origin: Origin, path: Path, problem: str, label: str = "") -> Found:
    """Return a row for something that cannot be read."""
    return Found(label or path.name, path, origin, "gguf", (), problem=problem)
