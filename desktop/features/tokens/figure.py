"""The conversation under the X-ray as a picture: each token in its colours, with their legend."""

from __future__ import annotations

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import paint_of, weights_of
from llm_lite.desktop.features.tokens.state import LookBy
from llm_lite.desktop.features.tokens.tokens import laid, shown_height
from llm_lite.desktop.features.tokens.view import draw_legend, legend
from llm_lite.desktop.features.tree.roles import speaker
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.figure import Figure
from llm_lite.desktop.widgets.token_text import draw_boxes, visible
from llm_lite.desktop.widgets.ui import Ui

WIDTH = 190.0  # units of a line of text
WHOSE: dict[LookBy, str] = {
    "head": mark("layer {layer}, head {head}"),
    "layer": mark("layer {layer}, mean over its heads"),
    "locked": mark("mean over {heads}"),
    "rollout": mark("attention rollout through all layers"),
}


def text_figure(state: AppState, ui: Ui) -> Figure:
    """Draw all messages, tinted by attention of the selected token or as the X-ray shows them."""
    if not state.messages:
        raise LlmLiteError(tr("there is no conversation to make a picture of"))
    figure = Figure(ui)
    own, u, small = figure.ui, figure.ui.u, figure.ui.theme.size("small")
    wide, y = draw_head(figure, state)
    for index, message in enumerate(state.messages):
        passage, page = laid(state, own, index, message, u(WIDTH))
        y += u(4)
        title = speaker(message.role)
        figure.text(u(8), y, title, "muted", "small", "bold")
        y += small + u(2)
        paint = paint_of(state, own, message, passage)
        at, first = state.xray.at, passage.first
        marked = {} if at is None or first is None else {at - first: own.color("accent")}
        draw_boxes(own, page, (u(8), y), paint, marked, figure.list)
        y += shown_height(passage, page) + u(4)
    return figure.finish(max(wide, u(WIDTH)) + u(16), y + u(4))


def draw_head(figure: Figure, state: AppState) -> tuple[float, float]:
    """Draw the title and the legend; return their width, and where they end in y."""
    own, u, small = figure.ui, figure.ui.u, figure.ui.theme.size("small")
    words, note = _title(state), _note(state)
    y = u(8)
    figure.text(u(8), y, words, style="title", face="bold")
    y += own.theme.size("title") * 1.35
    figure.text(u(8), y, note, "muted", "small")
    y += small + u(4)
    found = legend(state, own)
    if found is not None:
        draw_legend(own, found, (u(8), y), figure.list)
        y += small + u(4)
    return max(figure.width(words, "title", "bold"), figure.width(note, "small")), y


def _title(state: AppState) -> str:
    rows = weights_of(state)
    if rows is not None:
        at = rows.position
        token = visible(state.positions[at]) if at < len(state.positions) else ""
        if rows.direction == "to":
            return tr("Who looks at “{said}”").format(said=token)
        return tr("Where “{said}” looks").format(said=token)
    return tr("How likely each token was") if state.xray.probabilities else tr("Token by token")


def _note(state: AppState) -> str:
    model, xray = state.model, state.xray
    name = model.name if model else ""
    rows = weights_of(state)
    if rows is None:
        return name
    names = ", ".join(f"L{a} H{b}" for a, b in state.attention.locked)
    whose = tr(WHOSE[xray.by]).format(layer=xray.layer, head=xray.head, heads=names)
    parts = [name, tr("position {n:,}").format(n=rows.position), whose]
    if state.attention.exclude_first:
        parts.append(tr("first token left out"))
    return "  ·  ".join(parts)
