"""Views as PNG files: drawn within a frame once their maps are complete, rendered after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import LlmLiteError
from core.files import make_folder
from desktop.actions import ExportAttention
from desktop.attention_state import MOST_LOCKED
from desktop.figure import Figure
from desktop.png import write_png
from desktop.state import AppState
from desktop.ui import Ui

PATIENCE = 60.0  # seconds until a picture whose maps are not complete is given up


@dataclass(frozen=True, slots=True)
class Outcome:
    words: str
    failed: bool = False


class Exporter:
    """At most one picture at a time; a newer one takes the place of one that waits."""

    def __init__(self) -> None:
        self._wanted: ExportAttention | None = None
        self._state: AppState | None = None  # as it was when the picture was asked for
        self._until: float | None = None
        self._figure: Figure | None = None

    def begin(self, action: ExportAttention, state: AppState) -> None:
        self._wanted, self._state, self._until, self._figure = action, state, None, None

    def draw(self, state: AppState, ui: Ui) -> Outcome | None:
        """Within a frame: try to draw the picture, which has the look of the moment it was asked
        for, and the text of now."""
        from desktop.views.figures import figure_of

        self._figure = None
        if self._wanted is None or self._state is None:
            return None
        if self._until is None:
            self._until = ui.now + PATIENCE
        try:
            if self._wanted.view != "text" and (ui.maps is None or ui.maps.problem):
                raise LlmLiteError("there are no maps to make a picture of")
            self._figure = figure_of(self._wanted.view, self._state, ui)
        except LlmLiteError as error:
            return self._end(str(error), ui)
        if self._figure is None and ui.now > self._until:
            return self._end("the maps were not complete in time; try it once more at rest", ui)
        ui.redraw_in(0.03)
        return None

    def write(self, render: Callable[[Figure], NDArray[np.uint8]], ui: Ui) -> Outcome | None:
        """After the frame: render what was drawn in it, and write the file."""
        if self._figure is None or self._wanted is None:
            return None
        path = Path(self._wanted.path)
        try:
            make_folder(path.parent)
            write_png(path, render(self._figure), new=True)
        except LlmLiteError as error:
            return self._end(str(error), ui)
        self._end("", ui)
        return Outcome(f"Saved {path}")

    def _end(self, problem: str, ui: Ui) -> Outcome:
        self._wanted = self._state = self._figure = None
        for place in range(MOST_LOCKED):
            if ui.maps is not None:
                ui.maps.drop(f"figure.{place}")
        return Outcome(problem, failed=True)
