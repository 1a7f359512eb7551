"""The table of a model as a file. It is made of a person's conversations: for its owner alone, and
checked before it is relied on.

Layout, little-endian: b"LLMLNG01"; the identity of the model (64 characters of ASCII); the model's
name (UTF-8, 96 bytes, zeros behind it); tokens of the vocabulary (u32); entries (u32); answers
(u64) and tokens (u64) that were learned; the planes of the table one after the other; the CRC-32 of
all before (u32). Every file has the same size.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.leftovers import remove_whole
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.writing import tidy, write_file
from llm_lite.core.generation.speculation.ngram_table import (
    ENTRIES,
    MOST_COUNTED,
    PLANES,
    NgramTable,
)
from llm_lite.core.plain_text import one_line

MAGIC = b"LLMLNG01"
SUFFIX = ".ngrams"
_HEADER = struct.Struct("<8s64s96sIIQQ")
_CHECKSUM = struct.Struct("<I")
_SIZE = _HEADER.size + ENTRIES * sum(dtype.itemsize for _, dtype in PLANES) + _CHECKSUM.size
_MOST_FILES = 10_000  # of the folder, that are listed
_MOST_LEARNED = 1 << 60  # answers, and tokens: more were never learned


class LearnedModel(Struct, frozen=True):
    """The model that a table belongs to, and what it was made from."""

    identity: str  # of the model: a hash, hexadecimal
    name: str
    vocabulary: int  # tokens
    answers: int = 0
    tokens: int = 0  # of these answers


class LearnedFile(Struct, frozen=True):
    """A file of the folder; `model` is None if it is another's or damaged, as `problem` says."""

    path: Path
    size: int  # bytes
    model: LearnedModel | None = None
    problem: str = ""


class Stamp(NamedTuple):
    """The stamp of a file, which differs if the file was replaced or written to."""

    inode: int
    size: int  # bytes
    written: int  # nanoseconds


def learned_folder() -> Path:
    return user_folder("cache") / "learned-drafts"


def file_of(identity: str) -> Path:
    return learned_folder() / f"{identity[:32]}{SUFFIX}"


def stamp_of(path: Path) -> Stamp | None:
    """Return a file's stamp, by which a change is noticed; None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def write(path: Path, model: LearnedModel, table: NgramTable) -> None:
    """Write the file in place of an older one, whole or not at all. FileError."""
    name = model.name.encode()[:96].decode(errors="ignore").encode()
    header = _HEADER.pack(
        MAGIC, model.identity.encode(), name, model.vocabulary, ENTRIES, model.answers, model.tokens
    )
    content = b"".join((header, *(plane.tobytes() for plane in table.planes)))
    private_folder(path.parent)
    write_file(path, content + _CHECKSUM.pack(zlib.crc32(content)), private=True)


def read(path: Path, identity: str, vocabulary: int) -> tuple[LearnedModel, NgramTable]:
    """Read the table of a model. FileError if it is not there, damaged, or another model's."""
    model, content = _read(path)
    if (model.identity, model.vocabulary) != (identity, vocabulary):
        raise FileError(path, "was learned from answers of another model")
    planes, at = [], _HEADER.size
    for _, dtype in PLANES:
        plane = np.frombuffer(content, dtype, ENTRIES, at).astype(dtype.newbyteorder("="))
        planes.append(plane)
        at += plane.nbytes
    if int(planes[1].max()) >= vocabulary:
        raise FileError(path, f"tokens: expected numbers below {vocabulary}")
    if max(planes[2].max(), planes[3].max()) >= MOST_COUNTED:  # they are halved before
        raise FileError(path, f"right, wrong: expected numbers below {MOST_COUNTED}")
    return model, NgramTable(planes)


def listed() -> list[LearnedFile]:
    """Return all files of the folder, by name. FileError if it cannot be read."""
    folder = learned_folder()
    try:
        here = folder.glob(f"*{SUFFIX}") if folder.is_dir() else ()
        found = sorted(path for path in islice(here, _MOST_FILES) if path.is_file())
    except OSError as error:
        raise FileError(folder, f"cannot be read: {error.strerror}") from None
    return [_described(path) for path in found]


def disk_bytes() -> int:
    """Return the bytes of the files of all models, without reading them; 0 if the folder cannot be
    read."""
    with suppress(OSError):
        here = islice(learned_folder().glob(f"*{SUFFIX}"), _MOST_FILES)
        return sum(path.stat().st_size for path in here if path.is_file())
    return 0


def remove_all() -> int:
    """Delete the tables of all models and return the bytes that they took. FileError of one that
    cannot be deleted, once all others are."""
    freed, problems = 0, list[FileError]()
    for one in listed():
        try:
            freed += remove(one.path)
        except FileError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return freed


def remove(path: Path) -> int:
    """Delete a table, and what killed writers left of it; return the bytes that it took, 0 if there
    is none. FileError."""
    stamp = stamp_of(path)
    tidy(path)
    remove_whole(path)
    if stamp_of(path) is not None:
        raise FileError(path, "cannot be deleted")
    return stamp.size if stamp else 0


def _described(path: Path) -> LearnedFile:
    stamp = stamp_of(path)
    size = stamp.size if stamp else 0
    try:
        return LearnedFile(path, size, _read(path)[0])
    except FileError as error:
        return LearnedFile(path, size, problem=error.problem)


def _read(path: Path) -> tuple[LearnedModel, bytes]:
    """Return header and content of a whole file. FileError if it is damaged."""
    content = read_bytes(path, _SIZE, private=True)
    if content[: len(MAGIC)] != MAGIC:
        raise FileError(path, f"holds no learned drafts: it does not begin with {MAGIC.decode()}")
    if len(content) != _SIZE:
        raise FileError(path, f"is truncated: expected {_SIZE} bytes, found {len(content)}")
    if zlib.crc32(content[: -_CHECKSUM.size]) != _CHECKSUM.unpack(content[-_CHECKSUM.size :])[0]:
        raise FileError(path, "is damaged: its checksum is another")
    _, identity, name, vocabulary, entries, answers, tokens = _HEADER.unpack_from(content)
    if entries != ENTRIES:
        raise FileError(path, f"entries: expected {ENTRIES}, found {entries}")
    if max(answers, tokens) > _MOST_LEARNED:
        raise FileError(path, f"answers, tokens: expected at most {_MOST_LEARNED}")
    title = one_line(name.rstrip(b"\0").decode(errors="replace"))
    whose = identity.rstrip(b"\0").decode(errors="replace")
    return LearnedModel(whose, title, vocabulary, answers, tokens), content
