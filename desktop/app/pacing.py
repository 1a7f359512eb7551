"""The moments to draw: at once after input, some times a second for the engine, else never."""

from __future__ import annotations

import math

FRAME = 1 / 30  # seconds between two frames that only the engine asked for
SOFTWARE_FRAME = 1 / 10  # the same where frames are drawn by the processor that answers
TURNS = 4  # frames in which each view is drawn once; input is followed by so many
TURN = 0.02  # seconds between two of these, or a frame where that takes longer
# Frames for what comes late after input, as tooltips do: seconds, and whether they draw every view
SETTLE = ((0.2, True), (0.45, False), (0.8, True))


class Pacer:
    """Times are those of one monotonic clock, in seconds."""

    def __init__(self, frame: float = FRAME) -> None:
        self.frame = frame
        self._due: list[tuple[float, bool]] = []  # as SETTLE
        self._owed, self._turn = 0, math.inf  # frames of a turn each, and when the next one is
        self._change = self._settle = self._again = math.inf
        self._last = -math.inf
        self.following = False  # most views may keep their pictures in the frame that was taken

    def on_input(self, now: float) -> None:
        self._owed, self._turn = TURNS, now
        self._due = [(now + delay, whole) for delay, whole in SETTLE]

    def on_change(self, now: float) -> None:
        """Draw a changed state soon, but not sooner than a frame after the last. Twice, because
        Dear ImGui sizes some windows by what they held in the frame before."""
        self._change = max(now, self._last + self.frame)
        self._settle = self._change + self.frame

    def again(self, *moments: float) -> None:
        """Set when the frame that was just drawn is to be drawn again; what the one before wanted
        no longer counts, or each frame would bring forth another. A frame that leaves views
        as they were does not bring forth one for them at once."""
        self._again = max(min(moments), self._last + self.frame if self.following else -math.inf)

    def wait(self, now: float, longest: float) -> float:
        """Return how long to sleep, in seconds; 0 when a frame is due."""
        return max(0.0, min(longest, self._next() - now))

    def expects(self) -> bool:
        """Return True if a frame comes as soon as a change could ask for one."""
        return self._next() <= self._last + self.frame

    def take(self, now: float) -> bool:
        """Return True if a frame is due now; it counts as drawn."""
        if self._next() > now:
            return False
        passed = [whole for when, whole in self._due if when <= now]
        settles = self._settle <= now or any(passed)
        asked = self._change <= now or self._turn <= now or bool(passed)
        self.following = asked and not settles
        self._owed = max(0, self._owed - 1) if self.following else 0
        self._turn = now + TURN if self._owed else math.inf
        self._due = [(when, whole) for when, whole in self._due if when > now]
        if self._change <= now:
            self._change = math.inf
        if self._again <= now:
            self._again = math.inf
        self._settle = math.inf if self._settle <= now else max(self._settle, now + self.frame)
        self._last = now
        return True

    def _next(self) -> float:
        due = (when for when, _ in self._due)
        return min([self._change, self._settle, self._again, self._turn, *due])
