"""What the pointer says of a token: how likely it was, what else could stand there, where it
looks."""

from __future__ import annotations

import math

import numpy as np
from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import TargetToken
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.translating.translating_state import TokenAt
from llm_lite.desktop.views.translating.boxes import look_of
from llm_lite.desktop.widgets.plots.shares import draw_share_lines
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, wrapped

MOST = 5  # tokens of a list
LAST = mark("The last token: the target ends here, and no step has read it, so it looks nowhere.")


def draw_tip(state: AppState, ui: Ui, pointed: TokenAt) -> None:
    translating = state.translating
    tokens = translating.source if pointed.side == "source" else translating.tokens
    if pointed.index >= len(tokens):
        return
    token = tokens[pointed.index]
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1.25))):
        if not imgui.begin_tooltip():
            return
        text(ui, f"“{visible(token.text, 40)}”", bold=True)
        facts = [tr("token {n:,}").format(n=token.token)]
        if isinstance(token, TargetToken) and not math.isnan(token.probability):
            facts.append(tr("{share:.1%} likely").format(share=token.probability))
        text(ui, "  ·  ".join(facts), "muted", "small")
        if isinstance(token, TargetToken) and token.alternatives:
            text(ui, tr("Likeliest here"), style="small", bold=True)
            likeliest = [(a.text, a.probability) for a in token.alternatives[:MOST]]
            draw_share_lines(ui, "translating.likely", likeliest)
        _draw_looks(state, ui, pointed)
        imgui.end_tooltip()


def _draw_looks(state: AppState, ui: Ui, pointed: TokenAt) -> None:
    translating, rows = state.translating, state.attention_rows
    if pointed != translating.pointed:
        return
    if pointed.side == "target" and pointed.position >= state.context_used:
        imgui.dummy(ImVec2(ui.u(60), 0))
        wrapped(ui, tr(LAST))
        return
    if rows is not None and rows.message and rows.position == pointed.position:
        imgui.dummy(ImVec2(ui.u(60), 0))
        wrapped(ui, f"{rows.message[:1].upper()}{rows.message[1:]}.")
    found = look_of(state)
    if found is None:
        return
    weights = np.array(found.weights)
    back = found.direction == "to"
    labels = state.positions if back else [token.text for token in translating.source]
    best = [i for i in np.argsort(-weights, kind="stable")[:MOST].tolist() if weights[i] > 0]
    title = tr("Most looked at by") if back else tr("Looks most at")
    text(ui, title, style="small", bold=True)
    lines = [(labels[i] if i < len(labels) else "", float(weights[i])) for i in best]
    draw_share_lines(ui, "translating.look", lines)
