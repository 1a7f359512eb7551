"""Runs cases of a door in processes apart, and tells what came of them.

A case that ends its process by a signal, or never ends, is known by what the process last wrote;
another process goes on after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.door import FAILURES, Outcome
from tests.paths import ROOT

TRIES = 3  # a machine may be busy: that often a case must be too slow
PATIENCE_SECONDS = 120.0  # for a case that computes on a busy machine
LOOK_SECONDS = 2.0  # in which a case that computes gets some of the processor
LEAST_TICKS = 2  # of it: with less it waits
READY_SECONDS = 180.0  # until a process has imported what it needs


@dataclass(frozen=True, slots=True)
class Failure:
    door: str
    number: int
    outcome: Outcome
    detail: str
    kept: Path | None = None  # its files

    @property
    def repeat(self) -> str:
        return f"python -m tests.fuzz {self.door} --case {self.number}"

    def __str__(self) -> str:
        return f"{self.outcome}: {self.detail}\n    {self.repeat}"


@dataclass(slots=True)
class Report:
    door: str
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)  # seconds of the processor, number of the case
    largest: tuple[int, int] = (0, -1)  # bytes of memory, number of the case
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def cases(self) -> int:
        return self.outcomes.total()

    @property
    def failed(self) -> int:
        return sum(self.outcomes[outcome] for outcome in FAILURES)

    def add(self, told: dict[str, Any], kept: Path | None) -> None:
        number, outcome = told["ended"], told["outcome"]
        with self.lock:
            self.outcomes[outcome] += 1
            self.slowest = max(self.slowest, (told.get("seconds", 0.0), number))
            self.largest = max(self.largest, (told.get("bytes", 0), number))
            if outcome in FAILURES:
                failure = Failure(self.door, number, outcome, told["detail"], kept)
                self.failures.append(failure)

    def as_json(self) -> dict[str, Any]:
        found = [
            {
                "case": f.number,
                "outcome": f.outcome,
                "detail": f.detail,
                "repeat": f.repeat,
                "kept": str(f.kept) if f.kept else None,
            }
            for f in sorted(self.failures, key=lambda f: f.number)
        ]
        return {
            "door": self.door,
            "cases": self.cases,
            **{outcome: self.outcomes[outcome] for outcome in ("ok", "sentence", *FAILURES)},
            "slowest_s": round(self.slowest[0], 3),
            "slowest_case": self.slowest[1],
            "largest_mib": self.largest[0] >> 20,
            "largest_case": self.largest[1],
            "failures": found,
        }


def fuzz(
    door: str,
    count: int,
    *,
    first: int = 0,
    jobs: int = 1,
    seconds: float | None = None,
    wall_seconds: float = 5.0,
    keep: Path | None = None,
) -> Report:
    """Try cases `first` to `first + count - 1`, at most `seconds` long; files of failing ones are
    copied under `keep`."""
    report = Report(door)
    until = None if seconds is None else time.monotonic() + seconds
    stop, jobs = first + count, min(jobs, count)
    with ThreadPoolExecutor(jobs) as pool:
        parts = [range(first + job, stop, jobs) for job in range(jobs)]
        for done in [
            pool.submit(_Worker(report, part, until, wall_seconds, keep).run) for part in parts
        ]:
            done.result()
    return report


@dataclass(slots=True)
class _Worker:
    """Goes through some of the cases, a process after the other."""

    report: Report
    left: range
    until: float | None
    wall_seconds: float
    keep: Path | None
    slow: int = 0  # how often the first of `left` was too slow

    def run(self) -> None:
        while self.left and not self._late():
            with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as work:
                self._one_process(Path(work))

    def _late(self) -> bool:
        return self.until is not None and time.monotonic() > self.until

    def _one_process(self, work: Path) -> None:
        with _child(self.report.door, work, self.left) as (process, lines):
            ready = lines.next(READY_SECONDS)
            if ready is None or not ready.get("ready"):
                said = _tail(work)
                raise RuntimeError(f"door {self.report.door} cannot be prepared: {said}")
            while self.left and not self._late():
                begins = lines.next(READY_SECONDS)
                if begins is None:  # between two cases: what the last one left behind
                    raise RuntimeError(f"{self.report.door}: the process ended: {_tail(work)}")
                told = self._answer(process, lines)
                if told is None:
                    self._ended(process, work, waited=lines.waited)
                    return
                self._tell(told, work)

    def _answer(self, process: subprocess.Popen[bytes], lines: _Lines) -> dict[str, Any] | None:
        """What is told of a case. One that still computes is waited for: on a busy machine only
        the processor's time, which the system limits, says that it is too slow."""
        told = lines.next(self.wall_seconds)
        until = time.monotonic() + PATIENCE_SECONDS
        while told is None and lines.waited and time.monotonic() < until:
            before = _ticks(process.pid)
            told = lines.next(LOOK_SECONDS)
            if _ticks(process.pid) - before < LEAST_TICKS:
                break
        return told

    def _ended(self, process: subprocess.Popen[bytes], work: Path, *, waited: bool) -> None:
        """The case neither returned nor raised."""
        number = self.left[0]
        if waited:
            _kill(process)
        code = process.wait()
        if not waited and code != -signal.SIGPROF:
            what = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            self._tell({"ended": number, "outcome": "signal", "detail": what + _tail(work)}, work)
            return
        self.slow += 1
        if waited and self.slow < TRIES:
            return
        detail = f"more than {self.wall_seconds:g} s"
        detail += f", {TRIES} times" if waited else " of the processor"
        self._tell({"ended": number, "outcome": "hang", "detail": detail + _tail(work)}, work)

    def _tell(self, told: dict[str, Any], work: Path) -> None:
        kept = self._keep(told, work) if told["outcome"] in FAILURES else None
        self.report.add(told, kept)
        self.left, self.slow = self.left[1:], 0

    def _keep(self, told: dict[str, Any], work: Path) -> Path | None:
        if self.keep is None:
            return None
        number = told["ended"]
        place = self.keep / f"{self.report.door}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(work / str(number), place / "files", symlinks=True)
        (place / "case.json").write_text(json.dumps({"door": self.report.door, **told}, indent=2))
        return place


@contextlib.contextmanager
def _child(
    door: str, work: Path, numbers: range
) -> Iterator[tuple[subprocess.Popen[bytes], _Lines]]:
    home = work / "home"
    for name in ("home", "tmp"):
        (work / name).mkdir()
    places = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in _XDG}
    environment = {
        **os.environ,
        **places,
        "HOME": str(home),
        "TMPDIR": str(work / "tmp"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "2",
    }
    read, write = os.pipe()
    span = [str(n) for n in (numbers.start, numbers.stop, numbers.step)]
    with (work / "stderr").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.child", door, str(work), *span, str(write)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=(write,),
            start_new_session=True,  # so that what it starts ends with it
        )
    os.close(write)
    try:
        yield process, _Lines(read)
    finally:
        os.close(read)
        _kill(process)
        process.wait()


def _ticks(root: int) -> int:
    """Hundredths of a second of the processor that a process used, and all that it started: the
    sandbox for templates has a session of its own."""
    parents, used = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            process = int(place.parent.name)
            parents[process], used[process] = int(fields[1]), int(fields[11]) + int(fields[12])
    mine = {root}
    while more := {p for p, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used.get(process, 0) for process in mine)


_XDG = ("CONFIG", "DATA", "CACHE", "STATE")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _Lines:
    """Lines of JSON from a pipe, with a limit of time for each."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.waited = False  # whether the last one did not come in time

    def next(self, seconds: float) -> dict[str, Any] | None:
        """None where the pipe was closed or the time is over."""
        until = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._descriptor], [], [], left)[0]:
                self.waited = True
                return None
            if not (more := os.read(self._descriptor, 1 << 16)):
                self.waited = False
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told


def _tail(work: Path) -> str:
    """The last that the process wrote to standard error."""
    said = (work / "stderr").read_bytes()[-4000:].decode(errors="replace").strip()
    lines = [line.strip() for line in said.splitlines() if "/tests/fuzz/" not in line]
    ours = [line for line in lines if "/core/" in line or "/desktop/" in line or "panic" in line]
    shown = (ours or lines)[:3] if "File" in said else lines[-2:]
    return f" ({' | '.join(shown)[:600]})" if shown else ""
