"""A command on a terminal of its own, as a person has it: pty, keys typed, screen read."""

import contextlib
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

from tests.children import PATIENCE
from tests.cli.terminal_runs import ROOT


class OnTerminal:
    """`args` to `llm-lite`, on a pty of 100 x 40."""

    def __init__(self, *args, term="dumb", home=None, env=None):
        self.seen = b""
        master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, 100, 0, 0))
        environment = os.environ | {"TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1"} | (env or {})
        if home is not None:
            environment |= {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llm_lite.cli.entry", *map(str, args)],
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._master = master

    def type(self, text):
        os.write(self._master, text if isinstance(text, bytes) else text.encode())

    def line(self, text):
        self.type(text)
        self.type("\r")

    def until(self, expected, count=1):
        """What appears up to `expected`, the `count`-th time from now; it is taken off `seen`."""
        wanted = expected.encode()
        end = time.monotonic() + PATIENCE
        taken = b""
        while count:
            before, found, after = self.seen.partition(wanted)
            if found:
                taken, self.seen, count = taken + before + found, after, count - 1
                continue
            assert time.monotonic() < end, f"no {expected!r} in {self.seen!r}"
            if not self._read():
                raise AssertionError(f"it ended without {expected!r}: {self.seen!r}")
        return taken.decode(errors="replace")

    def _read(self):
        """Whether the terminal is still open."""
        if not select.select([self._master], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the child closed it
            return False
        self.seen += data
        return bool(data)

    def end(self):
        """(exit code, what was still to be seen)."""
        end = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < end, f"it does not end: {self.seen!r}"
        return self.process.wait(PATIENCE), self.seen.decode(errors="replace")

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)


@contextlib.contextmanager
def on_terminal(*args, **options):
    one = OnTerminal(*args, **options)
    try:
        yield one
    finally:
        one.close()
