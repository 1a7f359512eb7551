"""Kills windows in the middle of a conversation, and checks what the history has of it.

    python -m tools.cross.window_kills [--times 200] [--jobs 2] [--two]

Each window (`tools.cross.talking_window`) opens on a virtual display with a tiny model and is
killed at a random moment; several in a row share one history. SQLite's integrity check must find
nothing, and of each message all that the chat showed a second before the kill must be kept.
`--two`: instead of that, two windows at once on one history, which end by themselves: nothing may
be missing, and neither may say a word of a lock. Ends with 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_lite.core.history import History
from tests.children import PATIENCE
from tests.core.history.killing import lives
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tools.cross.hostile_window import x_server

GRACE = 1.0  # seconds: what is older is kept
ON_ONE_FILE = 5
CONTEXT = 2048  # tokens of the tiny model
IMPORTED = {"llm-lite": 1, "messages": [{"role": "user", "content": "Imported question"}]}


@dataclass(frozen=True, slots=True)
class Left:
    """What was looked for after one kill and found."""

    messages: int
    streamed: int  # of these, answers that were being written
    lost: float  # seconds before the kill that the oldest word was shown which is lost; or 0


class Window:
    """A window with a person in it."""

    def __init__(self, display: str, home: Path, seed: int, seconds: float | None = None) -> None:
        self._errors = (home / f"stderr-{seed}").open("wb")
        words = [str(home / "tiny.gguf"), str(home / "imported.json"), str(seed)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.cross.talking_window", *words]
            + ([str(seconds)] if seconds else []),
            cwd=ROOT, env=_environment(display, home), stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self._pool = ThreadPoolExecutor(1)
        self._lines = self._pool.submit(self._read)
        self._ready = 0.0

    def _read(self) -> list[dict[str, Any]]:
        assert self.process.stdout is not None
        told = []
        for line in self.process.stdout:
            if line == b"ready\n":
                self._ready = time.monotonic()
            elif line.endswith(b"\n"):  # the last line may be half a line
                told.append(json.loads(line))
        return told

    def wait_until_ready(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self._ready:
            assert self.process.poll() is None, f"ended with {self.process.returncode}"
            assert time.monotonic() < until, "the window did not open"
            time.sleep(0.02)

    def end(self) -> list[dict[str, Any]]:
        """Everything it told; once it is gone."""
        self.process.wait(PATIENCE)
        self._errors.close()
        told = self._lines.result(60)
        self._pool.shutdown()
        return told


def _environment(display: str, home: Path) -> dict[str, str]:
    kinds = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
    return {**os.environ, **kinds, "DISPLAY": display}


def make_home(folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_tiny_llama(folder / "tiny.gguf", context=CONTEXT)
    (folder / "imported.json").write_text(json.dumps(IMPORTED))
    return folder


def check(home: Path, told: list[dict[str, Any]], before: float, killed: float) -> Left:
    """What was shown before `before` must be kept. AssertionError."""
    history = History(home / "DATA" / "llm-lite" / "history.db")
    assert history.wait_until_open(60)
    assert history.check() == ""
    kept: dict[str, list[str]] = {"user": [], "assistant": []}
    deleted = [summary.id for summary in history.deleted()]
    for number in [*history.all_ids(), *deleted]:
        conversation = history.conversation(number)
        assert conversation is not None
        for message in conversation.messages:
            raw = message.text if not message.thought else message.thought + message.text
            kept.setdefault(message.role, []).append(raw)
    history.close()
    shown: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in told:
        if "role" in line and line["text"]:
            shown.setdefault((line["chat"], line["key"]), []).append(line)
    looked = streamed = 0
    lost = 0.0
    for lines in shown.values():
        old = [line for line in lines if line["at"] < before]
        if old:
            looked += 1
            streamed += not old[-1]["done"]
            assert _has(kept[old[-1]["role"]], old[-1]), f"lost: {old[-1]}"
        for line in lines[len(old) :]:
            if not _has(kept[line["role"]], line):
                lost = max(lost, killed - line["at"])
                break
    return Left(looked, streamed, lost)


def _has(kept: list[str], line: dict[str, Any]) -> bool:
    return any(text.startswith(line["text"]) for text in kept)


def kill_in_a_row(display: str, home: Path, first: int, times: list[float]) -> list[Left | str]:
    found: list[Left | str] = []
    make_home(home)
    for number, life in enumerate(times, first):
        window = Window(display, home, number)
        try:
            window.wait_until_ready()
            time.sleep(life)
            killed = time.monotonic()
            window.process.kill()
            found.append(check(home, window.end(), killed - GRACE, killed))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            window.process.kill()
            found.append(f"kill {number}: {error}")
    shutil.rmtree(home, ignore_errors=True)
    return found


def two_windows(display: str, folder: Path, seconds: float) -> list[str]:
    """Two at once on one history; what was wrong."""
    home = make_home(folder / "two")
    windows = [Window(display, home, seed, seconds) for seed in (1, 2)]
    told = [line for window in windows for line in window.end()]
    wrong = [f"said: {line['problem']}" for line in told if "problem" in line]
    for number, window in enumerate(windows, 1):
        if window.process.returncode:
            wrong.append(f"window {number} ended with {window.process.returncode}")
        errors = (home / f"stderr-{number}").read_text()
        wrong += [f"window {number}: {errors}"] if errors else []
    left = check(home, told, float("inf"), time.monotonic())
    print(f"two windows on one history: {left.messages} messages were shown and are kept")
    return wrong


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--seconds", type=float, default=30.0, help="that two windows stay open")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder, x_server() as display:
        if options.two:
            wrong = two_windows(display, Path(folder), options.seconds)
        else:
            wrong = many_kills(display, Path(folder), options.times, options.jobs)
    for sentence in wrong:
        print(sentence)
    return int(bool(wrong))


def many_kills(display: str, folder: Path, count: int, jobs: int) -> list[str]:
    times = lives(random.Random(count).randrange(10**6), count, 0.3, 6.0)
    begins = range(0, count, ON_ONE_FILE)
    with ThreadPoolExecutor(jobs) as pool:
        homes = [folder / str(first) for first in begins]
        groups = [times[first : first + ON_ONE_FILE] for first in begins]
        results = pool.map(kill_in_a_row, [display] * len(homes), homes, begins, groups)
        found = [left for group in results for left in group]
    left = [result for result in found if isinstance(result, Left)]
    wrong = [result for result in found if isinstance(result, str)]
    print(
        f"{len(found)} kills, {len(wrong)} wrong; {sum(k.messages for k in left)} messages were "
        f"looked for and found, {sum(k.streamed for k in left)} of them as far as they were written"
    )
    print(f"the oldest lost word was shown {max((k.lost for k in left), default=0.0):.2f} s before")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
