"""Files to attach to a message: which kind each is by its content, and its text, within limits.

They are read from the disk, so by a thread that may wait. A file that cannot be attached gets one
sentence that says why. The text of a PDF is read in a process of its own: such files are programs
of a kind, and some are made to be malformed.
"""

from __future__ import annotations

import atexit
import codecs
import os
from pathlib import Path

from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT, Attachment, ending, kind_of_text
from llm_lite.core.errors import FileError
from llm_lite.core.files.regular import open_regular, unreadable
from llm_lite.core.plain_text import lines, one_line
from llm_lite.core.records import replace
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, SandboxProcess

WORKER = "llm_lite.core.text.pdf_worker"
PAGES, CHARACTERS = 2000, 4_000_000  # the most that is read
SECONDS = 20.0  # of processor time, after which no further page is begun
LIMITS = Limits(cpu_seconds=2 * SECONDS, wall_seconds=8 * SECONDS, memory_bytes=1 << 30)
_process = SandboxProcess(WORKER)
atexit.register(_process.close)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, which begins like it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TEXT_CONTROLS = b"\t\n\r\f\x1b\x08"
_CONTROLS = bytes({*range(32), 127} - {*_TEXT_CONTROLS})
_MOST_CONTROLS = 0.002  # of the bytes of a text
_MOST_HIGH = 0.4  # of the bytes of a text in Latin letters
_LOOKED_AT = 1 << 16  # bytes in which zeros are counted
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


def decode(raw: bytes) -> str | None:
    """Return the text of a file, its line breaks as single newlines and without control characters;
    None if the bytes are no text."""
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return _plain(_decoded(raw[len(bom) :], encoding))
    if b"\0" in raw:
        encoding = _utf16(raw[:_LOOKED_AT])
        return _plain(_decoded(raw, encoding)) if encoding else None
    if _share(raw, _CONTROLS) > _MOST_CONTROLS:
        return None
    text = _decoded(raw, "utf-8")
    if text is None and _share(raw, bytes(range(0x80, 0x100))) <= _MOST_HIGH:
        text = _decoded(raw, "cp1252")
    return _plain(text)


def _decoded(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def _share(raw: bytes, of: bytes) -> float:
    return 1 - len(raw.translate(None, of)) / max(len(raw), 1)


def _utf16(raw: bytes) -> str:
    """Return the UTF-16 encoding of bytes without a byte order mark, "" for another one: where the
    letters are Latin, most of every second byte is zero."""
    even, odd = raw[::2], raw[1::2]
    half = max(len(odd), 1)
    zeros_even, zeros_odd = even.count(0) / max(len(even), 1), odd.count(0) / half
    if zeros_odd > 0.5 and zeros_even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if zeros_even > 0.5 and zeros_odd < 0.05 else ""


def _plain(text: str | None) -> str | None:
    if text is None or "\0" in text:
        return None
    for mark in ("\r\n", "\r", "\f"):
        text = text.replace(mark, "\n")
    return lines(text)


def pdf_text(path: Path, raw: bytes, limits: Limits = LIMITS) -> Attachment:
    """Return the text of a PDF. FileError if it is broken, locked, without text, or takes too
    much."""
    request = {"pages": PAGES, "characters": CHARACTERS, "seconds": SECONDS}
    try:
        answer = _process.call("text", request, raw, limits=limits)
    except SandboxError as error:
        raise FileError(path, f"its text cannot be read: {error}") from None
    if answer.get("locked"):
        raise FileError(path, "is encrypted: save it without a password first")
    if "failed" in answer:
        problem = one_line(str(answer["failed"]))[:200] or "no reason is known"
        raise FileError(path, f"is no PDF that can be read: {problem}")
    text, whole = lines(str(answer["text"])), int(answer["whole"])
    if not text.strip():
        raise FileError(path, "has no text: its pages are pictures, as of a scanner")
    return Attachment(path.name, text, kind="pdf", whole=whole if whole > len(text) else 0)


def end_process() -> None:
    """End the worker process; the next PDF starts another."""
    _process.close()
