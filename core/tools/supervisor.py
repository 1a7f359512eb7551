"""The process between the program and a tool server: when either ends, so does all that the server
has started. It is run by its path and imports nothing of the program.

    python -I -S supervisor.py CONTROL COMMAND [ARGUMENT ...]

CONTROL is a socket whose other end only the program has. The supervisor says on it whether the
command was started ("started" or an errno), and kills the server with all its descendants once the
program closes it, which the system does for a program that was killed. On Linux the supervisor is
a subreaper: descendants that made a session of their own, and whose parents ended, become its
children. It ends as the server did: with the same code, or by the same signal.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STRIKES = 50  # rounds of killing children, whose own children follow in their place
_STOPPING = 20  # rounds of looking for descendants that were forked meanwhile
_KILLING = 5.0  # seconds, after which what cannot be killed is left
STARTED = b"started"
_OURS = Path(f"/proc/self/task/{os.getpid()}/children")


def main() -> None:
    control, command = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    control.set_inheritable(False)
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)  # each wakes the loop below
    server = _begun(command, control)
    _close_streams()
    with suppress(OSError):
        control.sendall(STARTED)
    status = _waited_for(server, control, woken)
    status = _end_all(server, status)
    code = 0 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        _end_by(-code)
    os._exit(max(code, 0))


def _end_by(number: int) -> None:
    import resource  # not there on Windows, where nothing runs this file

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _begun(command: list[str], control: socket.socket) -> int:
    """Start the server's process in a session of its own. If its program cannot be run, the errno
    is sent and the supervisor ends."""
    failed, fails = os.pipe()  # closed by a successful exec
    parent = os.getpid()
    server = os.fork()
    if server == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()  # a signal to its own group reaches no supervisor
            if LINUX:  # where the supervisor is killed
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent:
                    os._exit(1)
            for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(fails, str(error.errno).encode())
        os._exit(127)
    os.close(fails)
    if errno := os.read(failed, 16):
        control.sendall(errno)
        os._exit(127)
    os.close(failed)
    return server


def _close_streams() -> None:
    """Close our copies of the server's input and outputs, so that each end of a pipe is noticed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _waited_for(server: int, control: socket.socket, woken: int) -> int | None:
    """Wait for the server and return its status; None if the program has closed `control`, or a
    signal asks the supervisor to end."""
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if control.fileno() in ready:
            return None
        numbers = set(os.read(woken, 1024))
        if numbers & {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}:
            return None
        status, _ = _reaped(server)
        if status is not None:
            return status


def _reaped(server: int) -> tuple[int | None, bool]:
    """Return the status of the server, if it has ended, and whether children are left. Others that
    ended are forgotten."""
    found = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return found, True
            if pid == server:
                found = status
    except ChildProcessError:
        return found, False


def _end_all(server: int, status: int | None) -> int | None:
    """Kill what is left of the server and its descendants; return its status, if it is known."""
    latest, left = time.monotonic() + _KILLING, True
    while left and time.monotonic() < latest:
        for _ in range(_STRIKES):
            for pid in _children():
                _signal(pid, signal.SIGKILL)
            ended, left = _reaped(server)
            status = ended if status is None else status
            if not left:
                return status
        stopped: set[int] = set()
        for _ in range(_STOPPING):  # one that is stopped forks no more
            fresh = _descendants() - stopped
            if not fresh:
                break
            for pid in fresh:
                _signal(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped | _descendants():
            _signal(pid, signal.SIGKILL)
        with suppress(OSError):  # where no subreaper is, orphans of its group
            os.killpg(server, signal.SIGKILL)
        time.sleep(0.002)
        ended, left = _reaped(server)
        status = ended if status is None else status
    return status


def _children() -> list[int]:
    """Return the children. On Linux they are found in microseconds, which catches orphans that fork
    and exit over and over."""
    with suppress(OSError, ValueError):
        return [int(pid) for pid in _OURS.read_text().split()]
    return []


def _descendants() -> set[int]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, parent in _parents():
        children[parent].append(pid)
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        fresh = [pid for pid in children[waiting.pop()] if pid not in found]
        found.update(fresh)
        waiting += fresh
    return found


def _parents() -> list[tuple[int, int]]:
    if not LINUX:
        listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, check=False)
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [(int(row[0]), int(row[1])) for row in rows if len(row) == 2]
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # "PID (NAME) STATE PARENT ...", where a name may have any bytes in it
            rest = path.read_bytes().rpartition(b")")[2].split()
            found.append((int(path.parent.name), int(rest[1])))
    return found


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    """Call prctl; it has no effect where the C library cannot be called: groups and parents are
    known still."""
    with suppress(OSError, AttributeError, ImportError):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
