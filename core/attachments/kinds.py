"""What a file is: a model, a picture, a PDF or something with text."""

from __future__ import annotations

import os
from pathlib import Path

from llm_lite.core.attached_text import ending

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


def is_named_as_model(path: Path) -> bool:
    return ending(path.name) in _MODEL_ENDINGS


def is_model_folder(path: Path) -> bool:
    """A folder of a model, or the file by which one is opened. It asks the disk."""
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
    """What the file is, in words; "" where nobody knows."""
    return next((words for magic, words in _KNOWN if head.startswith(magic)), "")
