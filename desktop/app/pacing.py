"""The moments to draw, the choice of the views that a frame draws, and the pictures of the others.

A frame comes at once after input, some times a second for the engine, else never. One that follows
the engine or a person's input does not draw every view: what the person is at is drawn in each, the
other views in turn, so that such a frame costs about the same however many are open. Between its
turns a view keeps the picture that Dear ImGui made of it, with its windows. What moves or covers
views, and the last frames after a change or any input, draw everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from imgui_bundle import imgui
from msgspec import Struct, field

from llm_lite.desktop.features.feature import View
from llm_lite.desktop.widgets.ui import Rect, Ui

FRAME = 1 / 30  # seconds between two frames that only the engine asked for
SOFTWARE_FRAME = 1 / 10  # the same where frames are drawn by the processor that answers
TURNS = 4  # frames in which each view is drawn once; input is followed by so many
TURN = 0.02  # seconds between two of these, or a frame where that takes longer
# Frames for what comes late after input, as tooltips do: seconds, and whether they draw every view
SETTLE = ((0.2, True), (0.45, False), (0.8, True))


class Pacer:
    """Decides when to draw. Times are those of one monotonic clock, in seconds."""

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


SETTLING = 2  # frames, after what drew everything: Dear ImGui moves some windows a frame late
_REST = imgui.internal.WindowRefreshFlags_.try_to_avoid_refresh


class _Kept(Struct):
    """The rectangles of a view and its wish for a next frame, of when it was drawn last."""

    rects: dict[str, Rect] = field(default_factory=dict)
    redraw_at: float = math.inf


class Turns:
    """Decides which views a frame draws. `begin` a frame, then `open` and `close` around each
    view."""

    def __init__(self, views: Iterable[View]) -> None:
        self._kept = {view.name: _Kept() for view in views}
        self._frame = 0
        self._whole = True
        self._settling = 0
        self._near: set[str] = set()  # windows under the pointer and the keyboard
        self._at: set[str] = set()  # windows and views that the person is at, or was
        self._relied: object = None
        self._others: tuple[dict[str, Rect], float] = ({}, math.inf)

    def begin(self, following: bool, relies_on: object, at: Iterable[str] = ()) -> None:
        """Begin a frame. With `following` it need not draw everything. Pictures are kept while
        `relies_on` is the same as in the frame before. `at`: views that the person is at, beside
        those that Dear ImGui knows of."""
        context: Any = imgui.get_current_context()
        popups = len(context.open_popup_stack) > 0
        if relies_on != self._relied or _drags():
            self._relied, self._settling = relies_on, SETTLING + 1
        self._whole = not following or popups or self._settling > 0
        self._settling = max(0, self._settling - 1)
        self._frame += 1
        windows = (context.hovered_window, context.nav_window, context.active_id_window)
        left, self._near = self._near, {w.root_window.name for w in windows if w is not None}
        self._at = {*self._near, *left, *at}

    def rests(self, view: View) -> bool:
        """Return True if the view's last picture does for this frame."""
        if self._whole or view.turn is None or not self._at.isdisjoint((view.window, view.name)):
            return False
        return self._frame % TURNS != view.turn and _in_sight(view)

    def open(self, view: View, ui: Ui, flags: int) -> bool:
        """Begin the view's window; return True if it is to be drawn."""
        if self.rests(view):
            imgui.internal.set_next_window_refresh_policy(_REST)
        shown: bool = imgui.begin(view.window, None, flags)[0]
        window: Any = imgui.internal.get_current_window()
        if not window.skip_refresh:
            self._others = (ui.rects, ui.redraw_at)
            ui.rects, ui.redraw_at = {}, math.inf
            if ui.maps is not None:
                ui.maps.asks(view.name)
            return shown
        if window.flags & imgui.WindowFlags_.child_window:
            _hold_docked(window)
        return False

    def close(self, view: View, ui: Ui) -> None:
        """End the view's window; `ui` holds what it left behind, now or when it was drawn."""
        window: Any = imgui.internal.get_current_window()
        kept = self._kept[view.name]
        if not window.skip_refresh:
            kept.rects, kept.redraw_at = ui.rects, ui.redraw_at
            ui.rects, ui.redraw_at = self._others
        ui.rects.update(kept.rects)
        ui.redraw_at = min(ui.redraw_at, kept.redraw_at)
        imgui.end()


def _in_sight(view: View) -> bool:
    """Return True if the view's tab is the chosen one or it has none. The picture of another is not
    to be shown, and costs nothing."""
    window: Any = imgui.internal.find_window_by_name(view.window)
    node = window and window.dock_node
    return bool(node is None or (node.visible_window and node.visible_window.id_ == window.id_))


def _drags() -> bool:
    """Return True if the pointer moves with a button down: views may be moved and resized by it."""
    io = imgui.get_io()
    moved = zip(io.mouse_down, io.mouse_drag_max_distance_sqr, strict=True)
    return any(down and far > 0 for down, far in moved)


def _hold_docked(window: Any) -> None:
    """Add a docked window that rests to its host's windows, as the host begins again in every frame
    and would not know of it. A view has its own ground, so the host paints none in its place."""
    beside = window.parent_window.dc.child_windows
    window.begin_order_within_parent = len(beside)
    beside.push_back(window)
    window.dock_node.last_bg_color = 0
