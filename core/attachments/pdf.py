"""The text of a PDF, read in a separate process: such files are programs of a kind, and some are
made to be malformed."""

from __future__ import annotations

import atexit
from pathlib import Path

from llm_lite.core.attached_text import Attachment
from llm_lite.core.errors import FileError
from llm_lite.core.plain_text import lines, one_line
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, SandboxProcess

WORKER = "llm_lite.core.attachments.pdf_worker"
PAGES, CHARACTERS = 2000, 4_000_000  # the most that is read
SECONDS = 20.0  # of processor time, after which no further page is begun
LIMITS = Limits(cpu_seconds=2 * SECONDS, wall_seconds=8 * SECONDS, memory_bytes=1 << 30)

_process = SandboxProcess(WORKER)
atexit.register(_process.close)


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
