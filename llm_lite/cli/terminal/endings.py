"""The end of a command: one sentence and an exit code for every error. They are decided here alone.

Exit codes: 0; 1 after an expected error or where the system refuses something; 2 for wrong usage;
70 after a defect of the program; 130 after Ctrl-C. A defect is one sentence too, and its traceback
is kept in a file that the sentence names; with LLM_LITE_TRACEBACK=1 it is printed instead.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from llm_lite.cli.terminal import interrupts, output
from llm_lite.core import system_errors
from llm_lite.core.errors import LlmLiteError

FAILED, DEFECT = 1, 70
PRINT_TRACEBACKS = "LLM_LITE_TRACEBACK"


def ended(work: Callable[[], int]) -> int:
    """Return the exit code of `work`, or of what it raised; SystemExit, for wrong usage, passes
    through."""
    try:
        try:
            code = work()
        except SystemExit:
            output.finish()
            raise
        output.finish()
        return code
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        return _tell(error)


def leave(code: int) -> int:
    """Return `code`, for the interpreter to end with; end at once if that would be a crash.

    A thread inside C++ that comes back while the interpreter goes down is ended in the middle of
    its frames, upon which C++ aborts. So does a pool of threads that nobody joins.
    """
    others = [t for t in threading.enumerate() if t is not threading.main_thread()]
    if any(thread.daemon for thread in others):
        _finish_quietly()
        atexit._run_exitfuncs()  # what is half made goes, the sandbox ends
        os._exit(code)
    return code


def catch_all() -> None:
    """Errors that Python itself would print, of threads and of finalizers, are sentences too."""
    threading.excepthook = lambda args: _defect_of_thread(args.exc_value)
    sys.unraisablehook = _unraisable


def sentence(error: BaseException) -> str:
    """Return the sentence for an error that is no defect, "" for a defect."""
    return str(error) if isinstance(error, LlmLiteError) else system_errors.sentence(error)


def _tell(error: BaseException) -> int:
    # An import that is interrupted may make another error of it.
    if isinstance(error, KeyboardInterrupt) or interrupts.pressed():
        output.say("")
        output.warn("interrupted")
        return interrupts.CODE
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as in `| head`
        output.abandon(sys.stdout)
        return FAILED
    known = sentence(error)
    output.warn(known or _of_defect(error))
    _finish_quietly()
    return FAILED if known else DEFECT


def _finish_quietly() -> None:
    """What was shown before the error is still wanted, but there is one error to tell of."""
    try:
        output.finish()
    except (LlmLiteError, BrokenPipeError):
        return


def _of_defect(error: BaseException) -> str:
    kind, text = type(error).__name__, str(error)
    what = f"{kind}: {text[:200]}" if text else kind
    return f"an internal error, please report it: {what} ({_kept(error)})"


def _kept(error: BaseException) -> str:
    """Store or print the traceback, and return a sentence that says where it is."""
    import tempfile  # none of these before there is a defect
    import traceback

    text = "".join(traceback.format_exception(error))
    if os.environ.get(PRINT_TRACEBACKS):
        output.tell_lines(text)
        return "the traceback is above"
    try:
        handle, path = tempfile.mkstemp(".txt", "llm-lite-error-")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return f"set {PRINT_TRACEBACKS}=1 to see the traceback"
    return f"the traceback is in {path}"


def _defect_of_thread(error: BaseException | None) -> None:
    if error is not None and not isinstance(error, SystemExit):
        output.warn(sentence(error) or _of_defect(error))


def _unraisable(unraisable: Any) -> None:
    """Nothing can follow from these but of Ctrl-C: only who looks for them is told."""
    error: BaseException | None = unraisable.exc_value
    if isinstance(error, KeyboardInterrupt):
        interrupts.lost()
    if error is not None and os.environ.get(PRINT_TRACEBACKS):
        import traceback

        trace: TracebackType | None = unraisable.exc_traceback
        output.tell_lines("".join(traceback.format_exception(type(error), error, trace)))
