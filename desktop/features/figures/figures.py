"""A view as a picture for a slide or a paper."""

from __future__ import annotations

from llm_lite.desktop.features.attention.figures import grid_figure, heads_figure
from llm_lite.desktop.features.attention.state import FigureName
from llm_lite.desktop.features.encoder.figure import encoded_figure
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.figure import text_figure
from llm_lite.desktop.widgets.figure import Figure
from llm_lite.desktop.widgets.ui import Ui


def figure_of(name: FigureName, state: AppState, ui: Ui) -> Figure | None:
    """The picture of a view as it is set; None while its maps are still being computed.

    LlmLiteError where there is nothing to draw, or too much.
    """
    if name == "text":
        return encoded_figure(state, ui) if state.encodes else text_figure(state, ui)
    maps = ui.maps
    assert maps is not None
    return grid_figure(state, ui, maps) if name == "grid" else heads_figure(state, ui, maps)
