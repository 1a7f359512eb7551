"""Changes that are not in the file yet, in their order; what an answer says is there once."""

from __future__ import annotations

import threading
import time

from llm_lite.core.history.database.changes import Change, ContinueAnswer, FinishAnswer, WriteAnswer
from llm_lite.core.records import dataclass


@dataclass(slots=True)
class Waiting:
    change: Change
    taken: bool = False  # by a transaction that is not through yet


class PendingChanges:
    """Filled by callers, emptied by the writer. `changed` is the one lock and bell of both."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.urgent = False  # something waits that is more than the next words of an answer
        self.since: float | None = None  # when the oldest came, by the monotonic clock
        self._waiting: list[Waiting] = []
        self._answers: dict[int, Waiting] = {}  # the newest words of each answer

    def add(self, change: Change) -> None:
        with self.changed:
            if isinstance(change, WriteAnswer):
                before = self._answers.get(change.message)
                if before is not None and not before.taken:
                    before.change = change
                    return
            waiting = Waiting(change)
            self._waiting.append(waiting)
            if isinstance(change, WriteAnswer):
                self._answers[change.message] = waiting
            else:
                self.urgent = True
                self._forget(change)
            if self.since is None:
                self.since = time.monotonic()
            self.changed.notify_all()

    def _forget(self, change: Change) -> None:
        """Words after an end or a new begin must not take the place of those before it."""
        if isinstance(change, FinishAnswer):
            self._answers.pop(change.answer.message, None)
        elif isinstance(change, ContinueAnswer):
            self._answers.pop(change.message, None)

    def __len__(self) -> int:
        return len(self._waiting)

    def all(self) -> tuple[Change, ...]:
        """Oldest first, also those that are being written."""
        with self.changed:
            return tuple(waiting.change for waiting in self._waiting)

    def take(self) -> list[Waiting]:
        """All, to be written; they stay here until `done`."""
        with self.changed:
            for waiting in self._waiting:
                waiting.taken = True
            self.urgent = False
            return list(self._waiting)

    def done(self, count: int) -> None:
        """The first so many are in the file. The others wait again."""
        with self.changed:
            gone = {id(waiting) for waiting in self._waiting[:count]}
            del self._waiting[:count]
            for number in [n for n, waiting in self._answers.items() if id(waiting) in gone]:
                del self._answers[number]
            for waiting in self._waiting:
                waiting.taken = False
            self.urgent = any(not isinstance(w.change, WriteAnswer) for w in self._waiting)
            self.since = time.monotonic() if self._waiting else None
            self.changed.notify_all()
