"""A file as an attachment, or one sentence why it cannot be one. It reads the disk: for a thread
that may wait."""

from __future__ import annotations

import os
from pathlib import Path

from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT, Attachment, ending, kind_of_text
from llm_lite.core.attachments.decoding import decode
from llm_lite.core.attachments.pdf import pdf_text
from llm_lite.core.errors import FileError
from llm_lite.core.files.regular import open_regular, unreadable
from llm_lite.core.plain_text import one_line
from llm_lite.core.records import replace

_PICTURES = (
    (0, b"\x89PNG\r\n\x1a\n"),
    (0, b"\xff\xd8\xff"),  # JPEG
    (0, b"GIF8"),
    (0, b"BM"),
    (0, b"II*\0"),  # TIFF
    (0, b"MM\0*"),
    (0, b"\0\0\x01\0"),  # an icon
    (8, b"WEBP"),
    (4, b"ftypheic"),
    (4, b"ftypavif"),
    (4, b"ftypmif1"),
)
# What is often dropped and holds no text, and what else can be done.
_KNOWN = (
    (b"PK\x03\x04", "a ZIP archive, as .docx, .xlsx and .odt are: save it as text or as PDF"),
    (b"\xd0\xcf\x11\xe0", "a document of an older office program: save it as text or as PDF"),
    (b"\x1f\x8b", "compressed: unpack it first"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"OggS", "a sound"),
    (b"ID3", "a sound"),
    (b"RIFF", "a sound or a film"),
    (b"SQLite format 3\0", "a database"),
)
_MODEL_ENDINGS = ("gguf", "safetensors")
_MODEL_FILES = ("config.json", "variant.json", "slice.json")


LARGEST_TEXT = LONGEST_TEXT  # bytes: some million tokens, more than models read
LARGEST_PDF = 64 << 20
_HEAD = 1 << 12


class FoundModelError(FileError):
    """Raised for a file that is a model, which is opened and not attached."""


def read_attachment(path: Path) -> Attachment:
    """Read a file to be attached. FileError if that is impossible, FoundModelError for a model."""
    _check_place(path)
    head, raw, size = _read(path)
    name = one_line(path.name)[:LONGEST_NAME]
    if not raw:
        raise FileError(path, "is empty: there is nothing to attach")
    if is_model(head):
        raise FoundModelError(path, "is a model")
    if is_picture(head):
        return Attachment(name, kind="picture")
    if is_pdf(head):
        _check_size(path, size, LARGEST_PDF, "PDF")
        return replace(pdf_text(path, raw), name=name)
    _check_size(path, size, LARGEST_TEXT, "text")
    text = decode(raw)
    if text is None:
        known = known_binary(head)
        raise FileError(path, f"is no text but {known or 'binary data'}")
    if not text.strip():
        raise FileError(path, "holds nothing but spaces: there is nothing to attach")
    return Attachment(name, text, kind=kind_of_text(path.name))


def _check_place(path: Path) -> None:
    """Check what is known of a file before it is opened. FileError."""
    try:
        is_model = is_named_as_model(path) or is_model_folder(path)
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:  # a folder that may not be entered, say
        raise unreadable(path, error) from error
    if is_model:
        raise FoundModelError(path, "is a model")
    if is_folder:
        raise FileError(path, "is a folder; attach the files in it")


def _read(path: Path) -> tuple[bytes, bytes, int]:
    """Return the first bytes of a file, all that can be used of it, and its size; at most one byte
    more than allowed is read, whatever size the file claims."""
    with open_regular(path) as stream:
        try:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(_HEAD)
            if is_picture(head) or is_model(head):
                return head, head, size
            most = LARGEST_PDF if is_pdf(head) else LARGEST_TEXT
            if size > most:
                return head, head, size
            raw = head + stream.read(most + 1 - len(head))
        except OSError as error:
            raise unreadable(path, error) from error
    return head, raw, max(size, len(raw))


def _check_size(path: Path, size: int, most: int, what: str) -> None:
    if size > most:
        problem = f"has {size / 1e6:,.1f} MB, and a {what} of at most {most / 1e6:.0f} MB"
        raise FileError(path, f"{problem} can be attached")


def is_named_as_model(path: Path) -> bool:
    return ending(path.name) in _MODEL_ENDINGS


def is_model_folder(path: Path) -> bool:
    """Return True for a model's folder, or the file by which one is opened. It reads the disk."""
    if path.name in _MODEL_FILES:
        return any(_holds(path.parent, "safetensors"))
    return any((path / name).is_file() for name in _MODEL_FILES) or any(
        _holds(path, *_MODEL_ENDINGS)
    )


def _holds(folder: Path, *endings: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if ending(entry.name) in endings]
    except OSError:
        return []


def is_picture(head: bytes) -> bool:
    if head.startswith(b"BM") and b"\0" not in head[:32]:
        return False  # a text may begin so
    return any(head.startswith(magic, at) for at, magic in _PICTURES)


def is_pdf(head: bytes) -> bool:
    return b"%PDF-" in head[:1024]


def is_model(head: bytes) -> bool:
    return head.startswith(b"GGUF")


def known_binary(head: bytes) -> str:
    """Return what kind of binary file begins with these bytes, in words; "" if it is not known."""
    return next((words for magic, words in _KNOWN if head.startswith(magic)), "")
