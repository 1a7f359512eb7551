"""What the command `llm-lite` runs: Ctrl-C leaves no traceback, even while modules are imported.

A signal's default action ends the program at once; Python's own handler, which raises
KeyboardInterrupt, is in place only where something answers it.
"""

import signal

_ANSWERS = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # no background job
if _ANSWERS:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from desktop import cli  # noqa: E402


def main() -> int:
    """The exit code of `desktop.cli.main`."""
    if not _ANSWERS:
        return cli.main()
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return cli.main()
    except KeyboardInterrupt:  # between the two
        return cli.INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
