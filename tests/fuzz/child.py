"""The process in which cases are tried, with limits of the system: `runner` starts it.

    python -m tests.fuzz.child DOOR WORK FIRST STOP STEP PIPE

It writes to PIPE a line of JSON when it is ready and one before and after each case, so that the
runner knows which case ended it or never ends.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fuzz.door import Door, Judged, OutsideError, case_of, judge

MORE_ADDRESS_SPACE = 1 << 30  # bytes above what the process has before its first case
LARGEST_FILE = 64 << 20  # bytes
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Audit events of the interpreter that change files, and which of their arguments are paths.
_CHANGES = {
    **dict.fromkeys(("os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod"), (0,)),
    **dict.fromkeys(("os.chown", "os.utime", "shutil.rmtree", "os.mkfifo"), (0,)),
    **dict.fromkeys(("os.rename", "shutil.move"), (0, 1)),
    **dict.fromkeys(("os.link", "os.symlink", "shutil.copyfile", "shutil.copytree"), (1,)),
}
_DEVICES = ("/dev/null", "/dev/full", "/dev/tty", "/proc/")


class Fence:
    """Refuses writes outside a folder, while there is one: a case may be given any path."""

    def __init__(self, *allowed: Path) -> None:
        self._always = tuple(os.path.realpath(path) for path in allowed)
        self._folder: str | None = None
        sys.addaudithook(self._audit)

    @contextmanager
    def around(self, folder: Path) -> Iterator[None]:
        self._folder = os.path.realpath(folder)
        try:
            yield
        finally:
            self._folder = None

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folder is None:
            return
        if event == "open":
            path, _mode, flags = arguments
            if isinstance(flags, int) and flags & _WRITES:
                self._check(event, path)
        elif event in _CHANGES:
            for index in _CHANGES[event]:
                self._check(event, arguments[index])

    def _check(self, event: str, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):  # a file descriptor
            return
        name = os.fsdecode(path)
        if "\0" in name:  # refused by the system
            return
        # The folder that holds the entry: a link is replaced where it lies.
        place = os.path.join(os.path.realpath(os.path.dirname(name) or "."), os.path.basename(name))  # noqa: PTH118,PTH120,PTH119
        if place.startswith(_DEVICES):
            return
        for folder in (self._folder, *self._always):
            if folder and (place == folder or place.startswith(folder + os.sep)):
                return
        raise OutsideError(f"{event} {place!r}")


def load_door(name: str) -> Door:
    door: Door = importlib.import_module(f"tests.fuzz.doors.{name}").DOOR
    return door


def main(argv: list[str]) -> None:
    name, work = argv[0], Path(argv[1])
    first, stop, step, pipe = map(int, argv[2:])
    os.chdir(work)
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # where a case is that never ends
    door = load_door(name)
    door.prepare()
    # in the cache folder stands which weights were found sound
    fence = Fence(work / "tmp", work / "home" / "cache")
    limit_memory()
    with os.fdopen(pipe, "w", buffering=1) as report:
        report.write(json.dumps({"ready": True}) + "\n")
        for number in range(first, stop, step):
            report.write(json.dumps({"begins": number}) + "\n")
            told = _try(door, number, work / str(number), fence)
            report.write(json.dumps({"ended": number, **told}) + "\n")


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    most = _status("VmSize") + MORE_ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _try(door: Door, number: int, folder: Path, fence: Fence) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)
    os.ftruncate(2, 0)
    _limit_time(door.seconds)
    _reset_peak()
    before, start = _status("VmRSS"), time.process_time()
    with fence.around(folder):
        judged = judge(door, case_of(door, number, folder))
    seconds, grown = time.process_time() - start, _status("VmHWM") - before
    judged = _measured(door, judged, seconds, grown)
    os.chdir(folder.parent)
    if judged.outcome in ("ok", "sentence"):
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "outcome": judged.outcome,
        "detail": judged.detail,
        "seconds": seconds,
        "bytes": max(0, grown),
    }


def _measured(door: Door, judged: Judged, seconds: float, grown: int) -> Judged:
    if judged.outcome not in ("ok", "sentence"):
        return judged
    if grown > door.memory_bytes:  # before the time, which on a busy machine it takes to fill it
        return Judged("memory", f"{grown >> 20} MiB more than before")
    if seconds > door.seconds:
        return Judged("hang", f"{seconds:.1f} s of the processor")
    return judged


def _limit_time(seconds: float) -> None:
    """The system ends the process where a case takes that much of the processor. The timer counts
    from now on: what the process used in all, by which RLIMIT_CPU goes, is sampled at ticks, and on
    a busy machine is seconds more after a thousand cases than `getrusage` says."""
    signal.setitimer(signal.ITIMER_PROF, seconds + 1)


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
        file.write("5")


def _status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        line = next(line for line in file if line.startswith(f"{key}:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main(sys.argv[1:])
