"""While the server is on: its addresses, its key, what it answers, and the switch."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.program import OpenLink
from llm_lite.desktop.actions.serving.switching import HideKey, RenewKey, SwitchServing
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.incoming import fit_line
from llm_lite.desktop.state.serving.serving_state import ServingState
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.serving.requests import draw_requests
from llm_lite.desktop.views.serving.totals import draw_totals
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_COPY, ICON_LOCK, ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, icon_button, text, tip, wrapped

NEW_KEY = mark("This is the only time that the key is shown. Give it to the programs that may ask.")
RENEW_HINT = mark(
    "Programs with the old key are refused from then on, and running answers end, as the server "
    "starts again"
)
NO_MODEL = mark("No model is loaded.")
COPIED = "serving.copied"  # in the memory: what was copied last, and when
COPIED_SECONDS = 2.0
MOST_ADDRESSES = 4
PLACEHOLDER = "YOUR_KEY"
LONGEST_NAME = 80  # characters


def draw_running(state: AppState, ui: Ui) -> list[Action]:
    serving = state.serving
    actions = _draw_switch(state, ui)
    actions += _draw_addresses(serving, ui)
    actions += _draw_key(serving, ui)
    _draw_example(serving, ui)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    actions += draw_requests(serving, ui)
    draw_totals(serving, ui)
    return actions


def _draw_switch(state: AppState, ui: Ui) -> list[Action]:
    """What answers, and the button that ends it."""
    label = tr("Stop serving")
    width = imgui.calc_text_size(label).x + ui.u(6)
    right = ui.right(width)
    imgui.align_text_to_frame_padding()
    ready = state.model is not None and state.serving.answers
    with ui.font(style="small"), ui.colored(text="muted" if ready else "warning"):
        words = ready_words(state)
        imgui.text_unformatted(fit(words, right - imgui.get_cursor_pos_x() - ui.u(2)))
        tip(ui, words)
    imgui.same_line(right)
    return [SwitchServing(False)] if button(ui, "serving.off", label, width=width) else []


def ready_words(state: AppState) -> str:
    """Which model answers, or why none does."""
    if state.model is None:
        return f"{ICON_WARNING}  {tr(NO_MODEL)}"
    if not state.serving.answers:
        return f"{ICON_WARNING}  {tr('Not ready for requests yet.')}"
    # The chat may have a model elsewhere: it is the one here that is served.
    name = fit_line(state.serving.status.model, LONGEST_NAME) or state.model.name
    return tr("{model} answers.").format(model=name)


def _draw_addresses(serving: ServingState, ui: Ui) -> list[Action]:
    text(ui, tr("Address"), style="small")
    _draw_copied(ui, "serving.address", serving.address, "body")
    for number, address in enumerate(serving.others[:MOST_ADDRESSES]):
        if number == 0:
            text(ui, tr("From other machines"), style="small")
        _draw_copied(ui, f"serving.other.{number}", address, "body")
    if button(ui, "serving.page", tr("Open the page"), hint=tr("A chat in the browser")):
        return [OpenLink(serving.address)]
    imgui.same_line()
    base = f"{serving.address}/v1"
    hint = tr("{address}, as clients of OpenAI's protocol want it").format(address=base)
    if button(ui, "serving.base", tr("Copy as base URL"), ICON_COPY, hint):
        _copy(ui, "serving.base", base)
    if _was_copied(ui, "serving.base"):
        imgui.same_line(0, ui.u(2))
        imgui.align_text_to_frame_padding()
        text(ui, ICON_CHECK, "link", "small")
    return []


def _draw_key(serving: ServingState, ui: Ui) -> list[Action]:
    if not serving.key_end:
        return []
    text(ui, tr("API key"), style="small")
    if serving.fresh_key:
        _draw_copied(ui, "serving.fresh", serving.fresh_key, "small")
        wrapped(ui, tr(NEW_KEY), "warning")
        return [HideKey()] if button(ui, "serving.seen", tr("Copied")) else []
    imgui.align_text_to_frame_padding()
    with ui.font("mono", "small"), ui.colored(text="muted"):
        imgui.text_unformatted(f"{ICON_LOCK}  …{serving.key_end}")
    label = tr("New key")
    imgui.same_line(0, ui.u(3))
    return [RenewKey()] if button(ui, "serving.renew", label, hint=tr(RENEW_HINT)) else []


def curl_of(serving: ServingState) -> str:
    """A request for a shell, on one line."""
    body = '{"messages": [{"role": "user", "content": "Hello"}]}'
    parts = ["curl", f"{serving.address}/v1/chat/completions"]
    parts += ["-H", "'Content-Type: application/json'"]
    if serving.key_end:
        key = serving.fresh_key or PLACEHOLDER
        parts += ["-H", f"'Authorization: Bearer {key}'"]
    return " ".join([*parts, "-d", f"'{body}'"])


def _draw_example(serving: ServingState, ui: Ui) -> None:
    text(ui, tr("Try it in a terminal"), style="small")
    _draw_copied(ui, "serving.curl", curl_of(serving), "small")


def _draw_copied(ui: Ui, name: str, words: str, style: str) -> None:
    """A line on a ground of its own, and a button that copies all of it."""
    side, pad = ui.u(7), ui.u(2)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width = imgui.get_content_region_avail().x
    end = ImVec2(at.x + width, at.y + side)
    draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    size = ui.theme.size(style)
    with ui.font("mono", style):
        shown = fit(words, width - side - pad * 2)
        spot = ImVec2(at.x + pad, round(at.y + (side - size) / 2))
        draw.add_text(spot, ui.color("text"), shown)
    imgui.set_cursor_screen_pos(ImVec2(end.x - side, at.y))
    done = _was_copied(ui, name)
    icon, color = (ICON_CHECK, "link") if done else (ICON_COPY, "muted")
    if icon_button(ui, name, icon, tr("Copy"), side=side, color=color):
        _copy(ui, name, words)


def _copy(ui: Ui, name: str, words: str) -> None:
    imgui.set_clipboard_text(words)
    ui.memory[COPIED] = (name, ui.now)
    ui.redraw_in(COPIED_SECONDS)


def _was_copied(ui: Ui, name: str) -> bool:
    copied, at = ui.memory.get(COPIED, ("", 0.0))
    return bool(copied == name and ui.now - at < COPIED_SECONDS)
