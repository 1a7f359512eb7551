"""The line above a conversation that shows its tokens: what their colours mean."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
from imgui_bundle import ImVec2, imgui

from desktop.actions import Action, SetAttention
from desktop.attention_colors import table
from desktop.icons import ICON_EYE
from desktop.inside import SetXRay
from desktop.state import AppState
from desktop.token_state import LookBy, XRay
from desktop.ui import Ui
from desktop.views.attention_look import SINK
from desktop.views.token_colors import RAREST, likely, shades
from desktop.widgets import picker, text, tip, toggle

SWITCH = f"{ICON_EYE}  X-ray"
XRAY = (
    "X-ray: see the conversation as the model does, token by token. Point at a token to see where "
    "it looks."
)
NAMES: dict[LookBy, str] = {
    "head": "One head",
    "layer": "Layer mean",
    "locked": "Locked heads",
    "rollout": "Rollout",
}
BY = (
    "One head, the mean over a layer's heads, the mean over the heads locked in the Attention "
    "view, or attention rollout: the maps of all layers multiplied, each half attention and half "
    "the token itself, which estimates what reaches a token through the whole model."
)
REVERSE = "Light up the tokens that look at this one. Holding Shift does the same."
PROBABILITIES = (
    "Tint each token of an answer by how unlikely the model found it. Click one to see what else "
    "it might have said."
)


def switch_width(ui: Ui) -> float:
    with ui.font(style="small"):
        return imgui.calc_text_size(SWITCH).x + ui.u(5)


def draw_switch(state: AppState, ui: Ui) -> list[Action]:
    """The button in the header."""
    on = state.xray.shown
    colors = {"button": "accent_soft" if on else "-", "text": "accent" if on else "muted"}
    with ui.font(style="small"), ui.colored(**colors):
        clicked = imgui.button(f"{SWITCH}##xray", ImVec2(switch_width(ui), ui.u(7)))
    ui.mark("chat.xray")
    tip(ui, XRAY)
    return [SetXRay(replace(state.xray, shown=not on, at=None))] if clicked else []


def draw_bar(state: AppState, ui: Ui) -> list[Action]:
    xray, choice = state.xray, state.attention
    imgui.begin_group()
    by = [(one, NAMES[one]) for one in get_args(LookBy)]
    chosen = picker(ui, "xray.by", by, xray.by, ui.u(34), BY)
    xray = replace(xray, by=chosen)
    xray = _draw_numbers(state, ui, xray)
    imgui.same_line(0, ui.u(4))
    with ui.font(style="small"):
        reverse = toggle(ui, "xray.reverse", "Who looks here", xray.reverse, REVERSE)
        imgui.same_line(0, ui.u(4))
        without = toggle(ui, "xray.first", "Without first", choice.exclude_first, SINK)
        imgui.same_line(0, ui.u(4))
        tinted = toggle(ui, "xray.likely", "Likelihood", xray.probabilities, PROBABILITIES)
    imgui.end_group()
    _draw_legend(state, ui)
    actions: list[Action] = []
    xray = replace(xray, reverse=reverse, probabilities=tinted)
    if xray != state.xray:
        actions.append(SetXRay(xray))
    if without != choice.exclude_first:
        actions.append(SetAttention(replace(choice, exclude_first=without)))
    return actions


def _draw_numbers(state: AppState, ui: Ui, xray: XRay) -> XRay:
    model = state.model
    if model is None or xray.by not in ("head", "layer"):
        return xray
    imgui.same_line(0, ui.u(1.5))
    layers = [(str(i), f"Layer {i}") for i in range(model.layers)]
    layer = picker(ui, "xray.layer", layers, str(xray.layer), ui.u(25))
    xray = replace(xray, layer=int(layer))
    if xray.by == "layer":
        return xray
    imgui.same_line(0, ui.u(1.5))
    heads = [(str(i), f"Head {i}") for i in range(model.heads)]
    return replace(xray, head=int(picker(ui, "xray.head", heads, str(xray.head), ui.u(25))))


def _draw_legend(state: AppState, ui: Ui) -> None:
    """What the colours mean just now, on a line of its own."""
    found, width = shades(state, ui), ui.u(30)
    if found is not None:
        colors = table(state.attention.colors)[:, :3].astype(np.uint32)
        packed = colors[:, 0] | colors[:, 1] << 8 | colors[:, 2] << 16 | np.uint32(0xFF000000)
        stops = [int(packed[i * 255 // 16]) for i in range(17)]
        low, high = ("0", f"{found.top:.1%}" if found.top >= 0.0005 else f"{found.top:.1g}")
        note = "of each token's attention goes here"
        if not state.xray.looks_back:
            note = "of this token's attention"
    elif state.xray.probabilities:
        stops = [likely(ui, RAREST ** (i / 16)) for i in range(17)]
        low, high, note = "certain", f"{RAREST:.1%}", "how likely the model found each token"
    else:
        text(ui, "Each box is a token. Point at one to see where it looks.", "muted", "small")
        return
    text(ui, low, "muted", "small")
    imgui.same_line(0, ui.u(1.5))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    height = ui.theme.size("small")
    for i in range(16):
        left = ImVec2(at.x + width * i / 16, at.y + ui.u(0.5))
        right = ImVec2(at.x + width * (i + 1) / 16, at.y + height)
        a, b = stops[i], stops[i + 1]
        draw.add_rect_filled_multi_color(left, right, a, b, b, a)
    imgui.dummy(ImVec2(width, height))
    ui.mark("xray.legend")
    imgui.same_line(0, ui.u(1.5))
    text(ui, f"{high}  {note}", "muted", "small")
