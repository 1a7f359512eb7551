"""Sentences for what the system and its libraries refuse: memory, threads, the disk. A defect of
the program gets a sentence too."""

from __future__ import annotations

import errno

NO_MEMORY = "there is not enough memory for this, or this process may not use more of it"
# How libraries say that the system has no more memory or threads for this process.
_EXHAUSTED = (
    "can't start new thread",
    "cannot allocate memory",
    "failed to map segment",
    "resource temporarily unavailable",
    "out of memory",
)


def sentence(error: BaseException) -> str:
    """Return a sentence for people; "" if the error is none of the system's, but a defect."""
    if isinstance(error, MemoryError) or _is_exhausted(error):
        return NO_MEMORY
    if isinstance(error, RecursionError):
        return "the input nests too deep"
    return _of_system(error) if isinstance(error, OSError) else ""


def defect(error: BaseException) -> str:
    """Return a sentence for people on a defect; its text and traceback are for the log."""
    return f"an internal error ({type(error).__name__}); the log has the details"


def _is_exhausted(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN):
        return True
    known = isinstance(error, RuntimeError | ImportError)
    return known and any(words in str(error).lower() for words in _EXHAUSTED)


def _of_system(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename is not None else reason
