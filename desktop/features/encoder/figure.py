"""The encoded text as a picture: its tokens, with where the one that is held looks."""

from __future__ import annotations

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.features.encoder.tokens import chips_of, paint_of
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokenizer.chips import draw_chip, lay_out_chips
from llm_lite.desktop.features.tokens.figure import WIDTH, draw_head
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.figure import Figure
from llm_lite.desktop.widgets.ui import Ui


def encoded_figure(state: AppState, ui: Ui) -> Figure:
    """All tokens in lines, as they are coloured on the page. LlmLiteError where there are none."""
    told = state.encoding.shown
    if told is None or not told.tokens:
        raise LlmLiteError(tr("there is no encoded text to make a picture of"))
    figure = Figure(ui)
    own, u = figure.ui, figure.ui.u
    wide, y = draw_head(figure, state)
    y += u(2)
    chips, paint = chips_of(own, told), paint_of(state, own, told)
    page = lay_out_chips(own, chips, u(WIDTH), u(0.5))
    for number, (chip, box) in enumerate(zip(chips, page.boxes, strict=True)):
        at = (u(8) + box.x, y + box.line * page.pitch)
        draw_chip(own, chip, at, (box.width, page.chip), paint(number), figure.list)
    ends = max(box.x + box.width for box in page.boxes)
    return figure.finish(max(wide, ends) + u(16), y + page.height + u(6))
