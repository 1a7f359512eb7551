"""The choice of the views that a frame draws again, and the pictures of the others.

A frame that follows the engine or a person's input does not draw every view: what the person is at
is drawn in each, the other views in turn, so that such a frame costs about the same however many
are open. Between its turns a view keeps the picture that Dear ImGui made of it, with its windows.
What moves or covers views, and the last frames after a change or any input, draw everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from imgui_bundle import imgui
from msgspec import Struct, field

from llm_lite.desktop.app.pacing import TURNS
from llm_lite.desktop.features.feature import View
from llm_lite.desktop.widgets.ui import Rect, Ui

SETTLING = 2  # frames, after what drew everything: Dear ImGui moves some windows a frame late
_REST = imgui.internal.WindowRefreshFlags_.try_to_avoid_refresh


class _Kept(Struct):
    """The rectangles of a view and its wish for a next frame, of when it was drawn last."""

    rects: dict[str, Rect] = field(default_factory=dict)
    redraw_at: float = math.inf


class Turns:
    """One for an interface: `begin` a frame, then `open` and `close` around each view."""

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
