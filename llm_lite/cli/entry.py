"""The entry of the command `llm-lite`: Ctrl-C leaves no traceback, even while modules are imported.

A signal's default action ends the program at once; Python's own handler, which raises
KeyboardInterrupt, is in place only where something answers it.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_ANSWERS = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # no background job
if _ANSWERS:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

_ADDRESSES = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1  # bytes; -1: no limit
if _ADDRESSES >= 0:
    # NumPy's OpenBLAS reserves addresses for each of its threads, and where it gets none it raises
    # SIGINT, of all signals: no person has pressed Ctrl-C.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from llm_lite.cli import main as cli  # noqa: E402
from llm_lite.cli.terminal import endings, interrupts, output  # noqa: E402

# Bytes of addresses for libraries and threads; a model comes on top. With fewer a thread can fail
# before it says that it has started, and Python waits for that for ever.
NEEDED = 512 << 20


def _collect_from_here() -> None:
    """Exclude the imported modules from garbage collection, and turn it on."""
    gc.freeze()
    gc.enable()


def main() -> int:
    """Run `llm-lite`; its exit code."""
    return run(cli.main)


def run(command: Callable[..., int]) -> int:
    """Return the exit code of `command`, which calls its `imported` when all modules are there;
    does not return where threads are left that would not survive the interpreter's end."""
    endings.catch_all()
    try:
        if _ANSWERS:
            interrupts.install()
        if 0 <= _ADDRESSES < NEEDED:
            output.warn(
                f"expected at least {NEEDED >> 20} MiB of address space, found a limit of "
                f"{_ADDRESSES >> 20} MiB (ulimit -v)"
            )
            return endings.FAILED
        gc.disable()  # modules are imported next: all that they make stays
        code = command(imported=_collect_from_here)
        interrupts.end()
    except KeyboardInterrupt:  # between the two
        code = interrupts.CODE
        interrupts.end()
    return endings.leave(code)


if __name__ == "__main__":
    sys.exit(main())
