"""Views as PNG files: drawn within a frame once their maps are complete, rendered after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.writing import make_folder
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.map_pictures import grid_figure, heads_figure
from llm_lite.desktop.features.attention.state import MOST_LOCKED, FigureName
from llm_lite.desktop.features.encoder.text_page import encoded_figure
from llm_lite.desktop.features.program.guard import Failed, attempt
from llm_lite.desktop.features.program.model import ExportAttention
from llm_lite.desktop.features.program.notices import ReportDefect
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.figure import text_figure
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.render.png import write_png
from llm_lite.desktop.widgets.figure import Figure
from llm_lite.desktop.widgets.ui import Ui

PATIENCE = 60.0  # seconds until a picture whose maps are not complete is given up


class Outcome(Struct, frozen=True):
    words: str
    failed: bool = False
    defect: ReportDefect | None = None  # shown instead of the words


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
        """Try to draw the picture, within a frame. It has the settings of the moment it was asked
        for, and the text of now."""
        self._figure = None
        if self._wanted is None or self._state is None:
            return None
        if self._until is None:
            self._until = ui.now + PATIENCE
        view, shown = self._wanted.view, self._state
        if view != "text" and (ui.maps is None or ui.maps.problem):
            return self._end(tr("there are no maps to make a picture of"), ui)
        found = attempt(lambda: figure_of(view, shown, ui))
        if isinstance(found, Failed):
            return self._fail(found, ui)
        self._figure = found
        if self._figure is None and ui.now > self._until:
            return self._end(tr("the maps were not complete in time; try it once more at rest"), ui)
        ui.redraw_in(0.03)
        return None

    def write(self, render: Callable[[Figure], NDArray[np.uint8]], ui: Ui) -> Outcome | None:
        """Render, after the frame, what was drawn in it, and write the file."""
        if self._figure is None or self._wanted is None:
            return None
        path = Path(self._wanted.path)
        try:
            make_folder(path.parent)
            write_png(path, render(self._figure), new=True)
        except LlmLiteError as error:
            return self._end(str(error), ui)
        self._end("", ui)
        return Outcome(tr("Saved {path}").format(path=path))

    def _fail(self, failed: Failed, ui: Ui) -> Outcome:
        if isinstance(failed.error, LlmLiteError):
            return self._end(str(failed.error), ui)
        defect = ReportDefect("the picture could not be drawn", failed.text, time.time())
        return replace(self._end("", ui), defect=defect)

    def _end(self, problem: str, ui: Ui) -> Outcome:
        self._wanted = self._state = self._figure = None
        for place in range(MOST_LOCKED):
            if ui.maps is not None:
                ui.maps.drop(f"figure.{place}")
        return Outcome(problem, failed=True)


def figure_of(name: FigureName, state: AppState, ui: Ui) -> Figure | None:
    """Return the picture of a view with its settings; None while its maps are still computed.

    Raises LlmLiteError where there is nothing to draw, or too much.
    """
    if name == "text":
        return encoded_figure(state, ui) if state.encodes else text_figure(state, ui)
    maps = ui.maps
    assert maps is not None
    return grid_figure(state, ui, maps) if name == "grid" else heads_figure(state, ui, maps)
