"""When to draw: at once after input, some times a second for the engine, else never."""

from __future__ import annotations

import math

FRAME = 1 / 30  # seconds between two frames that only the engine asked for
SOFTWARE_FRAME = 1 / 10  # the same where frames are drawn by the processor that answers
SETTLE = (0.0, 0.016, 0.05, 0.2, 0.45, 0.8)  # frames after input: hover, tooltips, popovers


class Pacer:
    """Times are those of one monotonic clock, in seconds."""

    def __init__(self, frame: float = FRAME) -> None:
        self.frame = frame
        self._due: list[float] = []
        self._change = self._settle = self._again = math.inf
        self._last = -math.inf
        self.following = False  # the frame that was taken shows a change, and nothing settles in it

    def on_input(self, now: float) -> None:
        self._due = [now + delay for delay in SETTLE]

    def on_change(self, now: float) -> None:
        """The state is another one: draw it soon, but not sooner than a frame after the last.

        Twice, because Dear ImGui sizes some windows by what they held in the frame before.
        """
        self._change = max(now, self._last + self.frame)
        self._settle = self._change + self.frame

    def again(self, *moments: float) -> None:
        """When the frame that was just drawn wants to be drawn again; what the one before wanted
        no longer counts, or each frame would bring forth another. A frame that follows the engine
        left views as they were: what they want is not due before the next one."""
        self._again = max(min(moments), self._last + self.frame if self.following else -math.inf)

    def wait(self, now: float, longest: float) -> float:
        """How long to sleep, in seconds; 0 when a frame is due."""
        return max(0.0, min(longest, self._next() - now))

    def expects(self) -> bool:
        """Whether a frame comes as soon as a change could ask for one."""
        return self._next() <= self._last + self.frame

    def take(self, now: float) -> bool:
        """Whether a frame is due now; it counts as drawn."""
        if self._next() > now:
            return False
        others = min([self._settle, *self._due])
        self.following = self._change <= now < others
        self._due = [when for when in self._due if when > now]
        if self._change <= now:
            self._change = math.inf
        if self._again <= now:
            self._again = math.inf
        self._settle = math.inf if self._settle <= now else max(self._settle, now + self.frame)
        self._last = now
        return True

    def _next(self) -> float:
        return min([self._change, self._settle, self._again, *self._due])
