"""Hostile files in the real window: does it answer throughout, and close in time?

    python -m tools.cross.hostile_window [--out FILE.json] [--only WORDS] [--ways argument,drop]

Each file of `tests.fuzz.hostile_files` is opened in a program of its own on a virtual display: by
argument, by the open dialog (Ctrl+O, answered by a stand-in for zenity), and by a drop as a file
manager does it. A model that loads is asked something. All the while a pointer moves onto a button
and away from it, and each movement is timed until the screen shows it: that is how long a person
waits for an answer of the window. Then the window is closed as by its button, and the end of the
process is timed. Bars: 100 ms and 2 s; nothing but sentences on standard error, no signal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from llm_lite.desktop.widgets.theme import DARK
from tests.desktop import x11, xdnd
from tests.fuzz.hostile_files import Hostile, make
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT

WAYS = ("argument", "dialog", "drop")
INPUT_MS, CLOSE_SECONDS = 100.0, 2.0  # the bars
BUTTON, SPOT, AWAY = (28, 28), (12, 28), (28, 200)  # pixels: of the rail's first button, beside it
LIT = DARK.hover  # the button's colour under the pointer
BETWEEN = 0.02  # seconds between two movements
KEYSTROKE = 0.04  # seconds; Dear ImGui takes one change of a key a frame
SETTLING = 0.3  # seconds


@dataclass(frozen=True)
class Limits:
    """Seconds that are not waited beyond."""

    start: float = 30.0  # for the window, and for the good model's answer
    drop: float = 10.0  # for the window to take a file that is dropped
    frame: float = 5.0  # for a movement to be shown, or the window counts as frozen
    look: float = 6.0  # for what the person is told of the file
    end: float = 10.0  # for the process, once its window is closed


@dataclass
class Result:
    file: str
    way: str
    longest_ms: float = 0.0  # until the screen showed a movement
    median_ms: float = 0.0
    moves: int = 0
    frozen: bool = False  # it did not, for `Limits.frame` seconds
    own_ms: float = (
        0.0  # that the event loop computed itself in one pass, since the file was opened
    )
    host_ms: float = 0.0  # that this process itself waited longer than it slept: a busy machine
    passes: list[str] = field(default_factory=list)  # beyond 100 ms; since the file was opened
    told: list[str] = field(default_factory=list)
    exit_seconds: float = 0.0
    code: int | None = None  # None: it had to be killed
    stderr: str = ""
    problems: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """What is not as it should be; times of the person's waiting are in a list of their own."""
        if self.frozen:
            self.problems.append("the window froze")
        elif self.longest_ms > INPUT_MS:
            self.problems.append(f"an input waited for {self.longest_ms:.0f} ms")
        if self.code is None:
            self.problems.append("it had to be killed")
        elif self.code < 0:
            self.problems.append(f"ended by {signal.Signals(-self.code).name}")
        elif self.exit_seconds > CLOSE_SECONDS:
            self.problems.append(f"closing took {self.exit_seconds:.1f} s")
        if "Traceback" in self.stderr:
            self.problems.append("a traceback")


@contextmanager
def x_server() -> Iterator[str]:
    """A virtual display; its name."""
    read, write = os.pipe()
    screen = ["-screen", "0", "1600x1000x24", "-nolisten", "tcp", "-noreset"]
    command = ["Xvfb", "-displayfd", str(write), *screen]
    server = subprocess.Popen(command, pass_fds=(write,), stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with os.fdopen(read) as numbers:
            yield f":{numbers.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


class Program:
    """The program with a witness, in a folder of its own."""

    def __init__(
        self,
        display: str,
        folder: Path,
        good: Path,
        hostile: Hostile,
        way: str,
        limits: Limits,
    ) -> None:
        self.limits = limits
        self.display, self._folder, self._hostile, self.way = display, folder, hostile, way
        self._notes, self._errors = folder / "notes", folder / "stderr"
        self._notes.touch()
        self.window = 0
        self.opened = time.monotonic()
        opened = hostile.path if way == "argument" else good
        command = [sys.executable, "-m", "tools.cross.watched", str(self._notes), "desktop"]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, "--ctx", "128", opened], cwd=ROOT, env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        """Settings of its own, and a dialog that is answered at once."""
        settings = self._folder / "llm-lite" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"theme": "dark", "appearance": "dark"}))  # of LIT
        stand_in = self._folder / "bin" / "zenity"
        stand_in.parent.mkdir()
        answer = self._folder / "answer"
        answer.write_bytes(os.fsencode(self._hostile.path) + b"\n")
        stand_in.write_text(f"#!/bin/sh\nexec cat '{answer}'\n")
        stand_in.chmod(0o755)
        own = {name: str(self._folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
        known = {key: value for key, value in os.environ.items() if key != "WAYLAND_DISPLAY"}
        return {**known, **own, "DISPLAY": self.display, "PATH": path}

    def notes(self) -> list[tuple[str, float, Any]]:
        lines = self._notes.read_text("utf-8", "replace").splitlines()
        return [tuple(json.loads(line)) for line in lines if line.endswith("]")]

    def heard(self, *kinds: str) -> bool:
        """Return whether there is a note of one of these kinds since the file was opened."""
        return any(kind in kinds and when > self.opened for kind, when, _ in self.notes())

    def appeared(self) -> bool:
        self.window = x11.mapped_window(self.display)
        return self.window != 0

    def answered(self) -> bool:
        return self.heard("answered")

    def stderr(self) -> str:
        return self._errors.read_text("utf-8", "replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, what: Callable[[], object], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end or not self.running:
                return False
            time.sleep(0.02)
        return True

    def open(self) -> None:
        """The hostile file, in the way asked for."""
        if self.way != "argument":
            self.opened = time.monotonic()
        if self.way == "drop":
            xdnd.drop(self.display, self.window, self._hostile.path, self.limits.drop)
        elif self.way == "dialog":
            strokes = (("Control_L", True), ("o", True), ("o", False), ("Control_L", False))
            for number, stroke in enumerate(strokes, 1):
                x11.press_keys(self.display, self.window, stroke, start=number)
                time.sleep(KEYSTROKE)

    def close(self) -> float:
        """Seconds from the click on the close button to the end of the process."""
        start = time.monotonic()
        if self.running and self.window:
            x11.ask_to_close(self.display, self.window)
        self.wait(lambda: False, self.limits.end)
        seconds = time.monotonic() - start
        if self.running:
            self.process.kill()
            self.process.wait()
            self.process.returncode = None
        return seconds


class Eye:
    """Moves the pointer onto a button and away, and times each until the screen shows it."""

    def __init__(self, program: Program) -> None:
        self._program, self._pointer = program, x11.Pointer(program.display, program.window)
        self.took: list[float] = []  # milliseconds
        self.late = 0.0  # milliseconds, the longest
        self.frozen = False

    def look(self) -> None:
        """One movement onto the button and one away from it."""
        for place, lit in ((BUTTON, True), (AWAY, False)):
            if self._program.running and not self.frozen:
                self._time(place, lit)
                self._rest()

    def _rest(self) -> None:
        start = time.perf_counter()
        time.sleep(BETWEEN)
        self.late = max(self.late, 1e3 * (time.perf_counter() - start - BETWEEN))

    def _time(self, place: tuple[int, int], lit: bool) -> None:
        start = time.perf_counter()
        self._pointer.move(*place)
        while (self._pointer.color(*SPOT) == LIT) != lit:
            if not self._program.running:
                return
            if time.perf_counter() - start > self._program.limits.frame:
                self.frozen = True
                return
            time.sleep(0.001)
        self.took.append(1e3 * (time.perf_counter() - start))

    def close(self) -> None:
        self._pointer.close()


def try_file(
    display: str, good: Path, hostile: Hostile, way: str, limits: Limits | None = None
) -> Result:
    """Open it, look until the person is told of it, close the window."""
    result = Result(hostile.name, way)
    with tempfile.TemporaryDirectory() as name:
        program = Program(display, Path(name), good, hostile, way, limits or Limits())
        try:
            _watch(program, hostile, result)
        finally:
            result.exit_seconds = program.close()
        result.code, result.stderr = program.process.returncode, program.stderr()[-2000:]
        notes = program.notes()
    passes = [(when - program.opened, *value) for kind, when, value in notes if kind == "pass"]
    result.passes = [
        f"{1e3 * busy:.0f} ms at {when:+.1f} s, own {1e3 * own:.0f} ms"
        for when, busy, own in passes
        if 1e3 * busy > INPUT_MS
    ]
    known = ("error", "warning", "answered")
    result.told += [f"{kind}: {text}" for kind, _, text in notes if kind in known]
    result.own_ms = max((1e3 * own for when, _, own in passes if when > 0), default=0.0)
    result.judge()
    return result


def _watch(program: Program, hostile: Hostile, result: Result) -> None:
    if not program.wait(program.appeared, program.limits.start):
        result.problems.append("no window appeared")
        return
    if program.way != "argument" and not program.wait(program.answered, program.limits.start):
        result.problems.append("the good model did not answer")
        return
    time.sleep(SETTLING)
    eye = Eye(program)
    try:
        program.open()
        _look(program, hostile, eye)
        if not program.heard("answered", "error", "warning"):
            result.problems.append("the person was told nothing")
    finally:
        eye.close()
    result.longest_ms, result.frozen = max(eye.took, default=0.0), eye.frozen
    result.median_ms = statistics.median(eye.took) if eye.took else 0.0
    result.moves, result.host_ms = len(eye.took), eye.late


def _look(program: Program, hostile: Hostile, eye: Eye) -> None:
    """Until a while after the file's fate is told, or time is over."""
    end, settled = time.monotonic() + program.limits.look, False
    during = hostile.during
    while time.monotonic() < end and program.running and not eye.frozen:
        eye.look()
        if during and program.heard("loaded"):
            during()
            during = None
        if not settled and program.heard("answered", "error"):
            settled, end = True, min(end, time.monotonic() + 1.0)


HEAD = f"{'file':28} {'way':9} {'longest':>8} {'median':>7} {'own':>7} {'host':>7} {'exit':>6}"


def row(one: Result) -> str:
    longest = "frozen" if one.frozen else f"{one.longest_ms:.0f} ms"
    told = repr(one.told[-1][:100]) if one.told else "nothing told"
    words = "; ".join([*map(str.upper, one.problems), told])
    times = f"{one.median_ms:4.0f} ms {one.own_ms:4.0f} ms {one.host_ms:4.0f} ms"
    return f"{one.file:28} {one.way:9} {longest:>8} {times} {one.exit_seconds:4.1f} s  {words}"


def run(ways: Sequence[str], only: str, limits: Limits) -> Iterator[Result]:
    """Each file in each way; first a model that is as it should be, to compare with."""
    with tempfile.TemporaryDirectory() as name, x_server() as display:
        good = write_tiny_llama(Path(name) / "good.gguf", seed=2)
        other = write_tiny_llama(Path(name) / "other.gguf", seed=2)
        for way in ways:
            folder = Path(name) / way
            folder.mkdir()
            files = [Hostile("nothing wrong", other), *make(folder)]
            for hostile in files:
                if only in hostile.name:
                    yield try_file(display, good, hostile, way, limits)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="files whose name has this in it")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument(
        "--seconds", type=float, default=Limits.look, help="that a file is looked at"
    )
    arguments = parser.parse_args()
    if shutil.which("Xvfb") is None:
        print("Xvfb is not installed", file=sys.stderr)
        return 2
    results, limits = [], Limits(look=arguments.seconds)
    print(HEAD)
    for result in run(arguments.ways.split(","), arguments.only, limits):
        results.append(result)
        print(row(result), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    bad = sum(bool(one.problems) for one in results)
    print(f"{len(results)} openings, {bad} with a problem")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
