"""The requests of clients: who asks, how far each is, and a way to end it."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import ServedRequest
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.serving.switching import CancelServed
from llm_lite.desktop.language.translate import tr, trn
from llm_lite.desktop.state.incoming import fit_line
from llm_lite.desktop.state.serving.serving_state import ServingState, in_order
from llm_lite.desktop.state.units import rate, tokens
from llm_lite.desktop.widgets.icons import ICON_CLOSE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, meter, text, wrapped

MOST_SHOWN = 10
LONGEST_CLIENT = 120  # characters


def draw_requests(serving: ServingState, ui: Ui) -> list[Action]:
    text(ui, tr("Requests"), bold=True)
    imgui.same_line(0, ui.u(2))
    text(ui, counted(serving), "muted", "small")
    ui.mark("serving.requests")
    shown = in_order(serving.status.requests)
    if not shown:
        wrapped(ui, tr("No requests at the moment."))
        return []
    actions: list[Action] = []
    for request in shown[:MOST_SHOWN]:
        actions += _draw_request(serving, request, ui)
    more = len(shown) - MOST_SHOWN
    if more > 0:
        wrapped(ui, trn("and {n} more", "and {n} more", more).format(n=more))
    return actions


def counted(serving: ServingState) -> str:
    """How many run and wait, and how fast they are together."""
    running, waiting = len(serving.running), len(serving.waiting)
    parts = [tr("{n} of {most} concurrent").format(n=running, most=serving.status.parallel)]
    if waiting:
        parts.append(trn("{n} waits", "{n} wait", waiting).format(n=waiting))
    if serving.rate > 0:
        parts.append(f"{rate(serving.rate)} tok/s")
    return "  ·  ".join(parts)


def progress_of(serving: ServingState, request: ServedRequest) -> str:
    """How far a request is, in words."""
    seconds = f"{request.seconds:.0f} s"
    if request.number in serving.cancelling:
        return tr("ends")
    if request.waiting:
        return f"{tr('waits')}  ·  {seconds}"
    if not request.new_tokens:
        whole = request.prompt_tokens
        share = f"{min(request.prefilled, whole):,} / {whole:,}" if whole else "–"
        return f"{tr('reads its prompt')}  ·  {share}  ·  {seconds}"
    speed = serving.rate_of(request.number)
    parts = [tokens(request.new_tokens), *([f"{rate(speed)} tok/s"] if speed else []), seconds]
    return "  ·  ".join(parts)


def _draw_request(serving: ServingState, request: ServedRequest, ui: Ui) -> list[Action]:
    """Two lines: the client, and how far it is; the button that ends it at the right."""
    name, side = f"serving.request.{request.number}", ui.u(6)
    small, gap = ui.theme.size("small"), ui.u(1)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, small * 2 + gap * 3
    room = width - side - ui.u(2)
    who = fit_line(request.client, LONGEST_CLIENT) or tr("A client")
    with ui.font(style="small"):
        draw.add_text(ImVec2(at.x, at.y + gap), ui.color("text"), fit(who, room))
        below = ImVec2(at.x, at.y + small + gap * 2)
        draw.add_text(below, ui.color("muted"), fit(progress_of(serving, request), room))
    imgui.set_cursor_screen_pos(ImVec2(at.x + width - side, at.y + (height - side) / 2))
    imgui.begin_disabled(request.number in serving.cancelling)
    hint = tr("End this request")
    ended = icon_button(ui, f"{name}.cancel", ICON_CLOSE, hint, side=side, style="small")
    imgui.end_disabled()
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + height))
    whole = request.prompt_tokens
    if not request.waiting and not request.new_tokens and whole:
        meter(ui, request.prefilled / whole, width, ui.u(0.75))
    imgui.dummy(ImVec2(width, 0))
    ui.rects[name] = (at.x, at.y, at.x + width, at.y + height)
    return [CancelServed(request.number)] if ended else []
