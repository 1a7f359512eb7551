"""Kills a process that talks into a history, and looks at what is left."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from llm_lite.core.history import History, StoredMessage
from tests.core.history.kill_child import text_of
from tests.paths import ROOT


@dataclass(frozen=True, slots=True)
class Left:
    """What one kill left, and what was looked at."""

    messages: int  # in the file
    finished: int  # that had to be there whole, and were
    streamed: int  # whose words so far had to be there, and were
    lost: float  # seconds: how long before the kill the oldest word was said that is lost; or 0


def kill_once(
    path: Path, seed: int, life: float, grace: float, *, once_flushed: bool = False
) -> Left:
    """Start a child, kill it after `life` seconds, and check that all is there that was written
    `grace` seconds before, or was acknowledged. The life begins when the child does or, where
    `once_flushed`, with its first acknowledgement. AssertionError."""
    command = [sys.executable, "-m", "tests.core.history.kill_child", str(path), str(seed)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == b"ready\n"
        reader = _Lines(child.stdout.fileno())
        if once_flushed:
            reader.read_until(b"flushed\n")
        reader.read_for(life)
        killed = time.monotonic()
        child.kill()
        lines = reader.rest()
    return check(path, lines, killed, grace)


class _Lines:
    """Reads a pipe all the while, so that the child never waits for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._raw = b""

    def read_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                self._take()

    def read_until(self, words: bytes) -> None:
        while words not in self._raw:
            assert self._take(), "the child has ended"

    def rest(self) -> list[str]:
        while self._take():
            pass
        return self._raw.decode().split("\n")[:-1]  # the last line may be half a line

    def _take(self) -> bool:
        more = os.read(self._descriptor, 1 << 16)
        self._raw += more
        return bool(more)


def check(path: Path, lines: list[str], killed: float, grace: float) -> Left:
    """What lines say must be in the file, if it is old enough or was acknowledged."""
    before = killed - grace
    acknowledged = max((i for i, line in enumerate(lines) if line == "flushed"), default=-1)
    purged = {int(line.split()[1]) for line in lines if line.startswith("purged")}
    history = History(path)
    assert history.wait_until_open(60)
    assert history.check() == ""
    kept = _messages(history)
    history.close()
    lost = 0.0
    finished: set[int] = set()
    streamed: dict[int, int] = {}
    for number, line in enumerate(lines):
        what, *words = line.split()
        if what not in ("wrote", "finished"):
            continue
        talk, message, tokens, at = *map(int, words[:3]), float(words[3])
        stored = kept.get(message)
        if stored is None and talk in purged:
            continue
        if at < before or number <= acknowledged:
            assert stored is not None, f"{message} is not there"
            streamed[message] = tokens
            assert len(stored.tokens) >= tokens, f"{message}: {len(stored.tokens)} of {tokens}"
            if what == "finished":
                finished.add(message)
                assert stored.finished and len(stored.tokens) == tokens
        elif stored is None or len(stored.tokens) < tokens:
            lost = lost or at
    for stored in kept.values():
        if stored.role == "assistant" and stored.text != "Edited":
            assert stored.text == text_of(stored.id, len(stored.tokens))
    return Left(len(kept), len(finished), len(streamed), killed - lost if lost else 0.0)


def _messages(history: History) -> dict[int, StoredMessage]:
    found: dict[int, StoredMessage] = {}
    for number in history.all_ids():
        conversation = history.conversation(number)
        assert conversation is not None
        found |= {message.id: message for message in conversation.messages}
    return found


def lives(seed: int, count: int, least: float, most: float) -> list[float]:
    chance = random.Random(seed)
    return [chance.uniform(least, most) for _ in range(count)]
