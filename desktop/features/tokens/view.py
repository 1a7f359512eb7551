"""The switch of the X-ray, and the bar above the tokens: what tints them, and the legend."""

from __future__ import annotations

import math
from typing import get_args

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.desktop.attention.colors import stops
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.state import SINK
from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.export_picture.view import draw_save
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import RAREST, Shades, draft_tint, likely, shades
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import LookBy, XRay
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.controls import picker, toggle
from llm_lite.desktop.widgets.icons import ICON_XRAY
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, tip

SWITCH = mark("X-ray")
XRAY = mark(
    "X-ray: see the conversation as the model does, token by token. Point at a token to see where "
    "it looks."
)
NAMES: dict[LookBy, str] = {
    "head": mark("One head"),
    "layer": mark("Layer mean"),
    "locked": mark("Locked heads"),
    "rollout": mark("Rollout"),
}
BY = mark(
    "One head, the mean over a layer's heads, the mean over the heads locked in the Attention "
    "view, or attention rollout: the maps of all layers multiplied, each half attention and half "
    "the token itself, which estimates what reaches a token through the whole model."
)
APART = mark("Both answers, tinted from the first token where they differ.")
STEPS = 16  # of the bar of colours
FIRST_TOKENS = 64  # of an answer, among which one with a probability is looked for
NO_ATTENTION = mark("The server does not report attention.")
REVERSE = mark("Light up the tokens that look at this one. Holding Shift does the same.")
PROBABILITIES = mark(
    "Tint each token of an answer by how unlikely the model found it. Click one to go on from "
    "there or to take another; which others there were is not kept for reopened answers."
)


DRAFTS = mark(
    "Tint the tokens of an answer that were drafted ahead: those where the draft was accepted, and "
    "those that came instead of a rejected draft. The answer is the same as without drafts."
)


def switch_width(ui: Ui, *, named: bool = True) -> float:
    if not named:
        return float(ui.u(8))
    with ui.font(style="small"):
        return imgui.calc_text_size(f"{ICON_XRAY}  {tr(SWITCH)}").x + ui.u(5)


def draw_switch(state: AppState, ui: Ui, *, named: bool = True) -> list[Action]:
    """Draw the button in the header: its icon, with its name where there is room."""
    on = state.xray.shown
    colors = {"button": "accent_soft" if on else "-", "text": "link" if on else "muted"}
    with ui.font(style="small"), ui.colored(**colors):
        label = f"{ICON_XRAY}  {tr(SWITCH)}" if named else ICON_XRAY
        size = ImVec2(switch_width(ui, named=named), ui.u(7))
        clicked = imgui.button(f"{label}##xray", size)
    ui.mark("chat.xray")
    tip(ui, tr(XRAY))
    return [SetXRay(replace(state.xray, shown=not on, at=None))] if clicked else []


def draw_bar(state: AppState, ui: Ui) -> list[Action]:
    if state.elsewhere and state.model is not None and not state.model.layers:
        return _draw_likelihood_alone(state, ui)
    choice, side = state.attention, ui.u(6)
    edge = ui.right(side) - ui.u(2)
    imgui.begin_group()
    xray, without = draw_attention_choice(state, ui, edge)
    with ui.font(style="small"):
        xray = _draw_tints(state, ui, xray, edge)
    imgui.end_group()
    imgui.same_line(ui.right(side))
    saved = draw_save(state, ui, "text", side)
    reading = _draw_reading(state, ui)
    if reading is None:
        draw_legend_line(state, ui)
    actions = saved + (reading or [])
    if xray != state.xray:
        actions.append(SetXRay(xray))
    if without != choice.exclude_first:
        actions.append(SetAttention(replace(choice, exclude_first=without)))
    return actions


def _draw_tints(state: AppState, ui: Ui, xray: XRay, edge: float) -> XRay:
    """Draw the switches of likelihood and drafts; at most one of them is on."""
    _beside(ui, tr("Likelihood"), edge)
    likely = toggle(ui, "xray.likely", tr("Likelihood"), xray.probabilities, tr(PROBABILITIES))
    if state.elsewhere:  # a server does not report what it has drafted
        return replace(xray, probabilities=likely)
    _beside(ui, tr("Drafts"), edge)
    drafts = toggle(ui, "xray.drafts", tr("Drafts"), xray.drafts, tr(DRAFTS))
    if drafts and not xray.drafts:
        likely = False
    switched_on = (likely and not xray.probabilities) or (drafts and not xray.drafts)
    at = None if switched_on else xray.at  # a token that is held would show its attention instead
    return replace(xray, probabilities=likely, drafts=drafts and not likely, at=at)


def draw_attention_choice(state: AppState, ui: Ui, edge: float) -> tuple[XRay, bool]:
    """Draw the choice of heads and direction, and whether the first token is left out, on lines
    that end before `edge`, a position in the window."""
    xray, choice = state.xray, state.attention
    by = [(one, tr(NAMES[one])) for one in get_args(LookBy)]
    chosen = picker(ui, "xray.by", by, xray.by, ui.u(34), tr(BY))
    xray = _draw_numbers(state, ui, replace(xray, by=chosen))
    with ui.font(style="small"):
        _beside(ui, tr("Who looks here"), edge)
        reverse = toggle(ui, "xray.reverse", tr("Who looks here"), xray.reverse, tr(REVERSE))
        _beside(ui, tr("Hide first token"), edge)
        without = toggle(ui, "xray.first", tr("Hide first token"), choice.exclude_first, tr(SINK))
    return replace(xray, reverse=reverse), without


def _draw_likelihood_alone(state: AppState, ui: Ui) -> list[Action]:
    """Draw the bar for a server that does not report attention."""
    xray = state.xray
    with ui.font(style="small"):
        tinted = toggle(ui, "xray.likely", tr("Likelihood"), xray.probabilities, tr(PROBABILITIES))
    imgui.same_line(0, ui.u(4))
    imgui.align_text_to_frame_padding()
    text(ui, tr(NO_ATTENTION), "muted", "small")
    draw_legend_line(state, ui)
    return [SetXRay(replace(xray, probabilities=tinted))] if tinted != xray.probabilities else []


def _beside(ui: Ui, label: str, edge: float) -> None:
    """Go on behind the last item, or on a new line if a switch would reach over `edge`."""
    imgui.same_line(0, ui.u(4))
    width = ui.u(10) + imgui.calc_text_size(label).x
    if imgui.get_cursor_pos_x() + width > edge:
        imgui.new_line()


def _draw_reading(state: AppState, ui: Ui) -> list[Action] | None:
    """Draw what the cache lacks of the conversation; return None where it lacks nothing."""
    if state.reading is None and unread_part(state, ui.maps) is None:
        return None
    return draw_unread(state, ui, "xray", ui.maps)


def _draw_numbers(state: AppState, ui: Ui, xray: XRay) -> XRay:
    model = state.model
    if model is None or xray.by not in ("head", "layer"):
        return xray
    imgui.same_line(0, ui.u(1.5))
    layers = [(str(i), tr("Layer {i}").format(i=i)) for i in model.attending_layers]
    layer = picker(ui, "xray.layer", layers, str(xray.layer), ui.u(25))
    xray = replace(xray, layer=int(layer))
    if xray.by == "layer":
        return xray
    imgui.same_line(0, ui.u(1.5))
    heads = [(str(i), tr("Head {i}").format(i=i)) for i in range(model.heads)]
    return replace(xray, head=int(picker(ui, "xray.head", heads, str(xray.head), ui.u(25))))


class Legend(Struct, frozen=True):
    """The meaning of the colours that are shown."""

    low: str
    stops: tuple[int, ...]  # packed colours, at even distances
    high: str
    note: str


def legend(state: AppState, ui: Ui) -> Legend | None:
    """Return the legend of the tokens' colours; None if they have none."""
    found = shades(state, ui)
    if found is not None:
        return weights_legend(state, found, back=state.xray.looks_back)
    if not state.holds_conversations:  # texts of an encoder are tinted by attention alone
        return None
    if state.xray.drafts and not state.elsewhere:
        return draft_legend(ui)
    if state.xray.probabilities and _knows_probabilities(state):
        return likelihood_legend(ui)
    return None


def _knows_probabilities(state: AppState) -> bool:
    # Servers may send none, and imported answers have none.
    first = [
        message.likelihood(at)
        for message in state.messages
        for at in range(min(len(message.tokens), FIRST_TOKENS))
    ]
    return not first or not all(map(math.isnan, first))


def weights_legend(state: AppState, found: Shades, *, back: bool) -> Legend:
    """Return the legend of attention from a token or, `back`, to it."""
    high = f"≥ {found.top:.1%}" if found.beyond else f"{found.top:.1%}"
    note = tr("of this token's attention, linear")
    if back:
        note = tr("of each token's attention goes here, linear")
    return Legend("0", stops(state.attention.colors, STEPS, state.theme == "light"), high, note)


def likelihood_legend(ui: Ui) -> Legend:
    """Return the legend of tints by how likely tokens were."""
    colors = tuple(likely(ui, RAREST ** (i / STEPS)) for i in range(STEPS + 1))
    note = tr("probability of each token when it was chosen, logarithmic")
    return Legend("100%", colors, f"≤ {RAREST:.1%}", note)


def draft_legend(ui: Ui) -> Legend:
    """Return the legend of tints by drafts: one half of the bar for each outcome."""
    half = (STEPS + 1) // 2
    colors = (draft_tint(ui, "accepted"),) * half
    colors += (draft_tint(ui, "rejected"),) * (STEPS + 1 - half)
    return Legend(tr("draft accepted"), colors, tr("draft rejected"), "")


def draw_legend(ui: Ui, found: Legend, at: tuple[float, float], draw: imgui.ImDrawList) -> float:
    """Draw a legend on one line in small text; return the right end of its bar."""
    small, color, width = ui.theme.size("small"), ui.color("muted"), ui.u(30)
    font = ui.fonts["regular"]
    with ui.font(style="small"):
        start = at[0] + imgui.calc_text_size(found.low).x + ui.u(1.5)
    draw.add_text(font, small, ImVec2(*at), color, found.low)
    for i in range(STEPS):
        left = ImVec2(start + width * i / STEPS, at[1] + ui.u(0.5))
        right = ImVec2(start + width * (i + 1) / STEPS, at[1] + small)
        a, b = found.stops[i], found.stops[i + 1]
        draw.add_rect_filled_multi_color(left, right, a, b, b, a)
    words = f"{found.high}  {found.note}"
    draw.add_text(font, small, ImVec2(start + width + ui.u(1.5), at[1]), color, words)
    return start + width


def draw_legend_line(state: AppState, ui: Ui) -> None:
    """Draw the legend on a line of its own, or a sentence in its place."""
    if state.comparing is not None:
        text(ui, tr(APART), "muted", "small")
        return
    found = legend(state, ui)
    if found is None:
        words = tr("Each box is a token. Point at one to see where it looks.")
        if state.xray.probabilities and state.holds_conversations:
            words = tr("No probabilities are stored for these answers.")
        if state.model is not None and not state.model.layers:
            words = tr("Each box is a token, or what the server sent at once.")
        text(ui, words, "muted", "small")
        return
    at = imgui.get_cursor_screen_pos()
    end = draw_legend(ui, found, (at.x, at.y), imgui.get_window_draw_list())
    imgui.dummy(ImVec2(end - at.x, ui.theme.size("small")))
    ui.mark("xray.legend")
