"""The conversation: its model above, the messages, the input below; a welcome while it is empty."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.chatting import Send, SetDraft
from llm_lite.desktop.actions.program import CancelLoading, OpenModel
from llm_lite.desktop.actions.requests import obstacle
from llm_lite.desktop.language.core_words import said_stage
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import capital, short_name
from llm_lite.desktop.views import layouts
from llm_lite.desktop.views.cache.resume import draw_strip, strip_height
from llm_lite.desktop.views.chat.again import show_found
from llm_lite.desktop.views.chat.composer import composer_height, draw_composer
from llm_lite.desktop.views.chat.conversation import draw_conversation
from llm_lite.desktop.views.encoding.page import draw as draw_encoding
from llm_lite.desktop.views.selection.find import draw_find
from llm_lite.desktop.views.tokens.bar import draw_bar, draw_switch, switch_width
from llm_lite.desktop.views.translating.page import draw_page
from llm_lite.desktop.views.tree.map import draw_map, draw_map_button, map_width
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN, ICON_CLOSE, ICON_LINK, ICON_SPARKLES
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    column,
    fit,
    icon_button,
    meter,
    primary_button,
    progress,
    wrapped,
)

ALONE = mark("The model runs on this machine. Nothing you write leaves it.")
THERE = mark("The model runs at {host}. What you write is sent there.")
WITH_SERVERS = mark("The model runs on this machine. A tool server is told only the calls it runs.")
EXAMPLES = (
    (mark("Explain"), mark("Why is the sky blue? Answer in three sentences.")),
    (mark("Write"), mark("Write a short poem about the sea at night.")),
    (mark("Code"), mark("Write a Python function that reverses a string, and explain it.")),
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_header(state, ui)
    if state.writes_targets:
        return actions + draw_page(state, ui)
    if state.encodes:
        return actions + draw_encoding(state, ui)
    if state.xray.shown and state.messages:
        actions += draw_bar(state, ui)
    draw_find(state, ui)
    below = composer_height(state, ui) + strip_height(state, ui)
    room = imgui.get_content_region_avail().y - below
    with ui.styled(item_spacing=(0.0, 0.0)):
        if state.messages:
            actions += show_found(state, ui)
            actions += draw_conversation(state, ui, max(room, ui.u(10)))
        else:
            actions += _draw_empty(state, ui, max(room, ui.u(10)))
        at, (offset, width) = imgui.get_cursor_screen_pos(), column(ui)
        left = at.x + offset
        ui.rects["chat.composer"] = (left, at.y, left + width, at.y + below)  # notices spare it
        actions += draw_strip(state, ui, offset, width)
    return actions + draw_composer(state, ui)


def _draw_header(state: AppState, ui: Ui) -> list[Action]:
    """The model's name, which opens the list of models; the way to the tokens."""
    if state.remote.connection is not None:
        there = state.remote.connection
        label = f"{ICON_LINK}  {there.model.title}  ·  {there.server.host}"
    elif state.model:
        label = state.model.name
    else:
        label = tr("Loading") if state.load else tr("No model")
    with ui.font("bold"), ui.colored(button="-"):
        header = imgui.get_content_region_avail().x
        beside = layouts.width_of(ui, header)
        talks = bool(state.messages) and state.holds_conversations
        talk = switch_width(ui) + map_width(ui) if talks else 0.0
        room = header - ui.u(16) - talk - beside
        name = fit(label, room)
        if imgui.button(f"{name}  {ICON_CHEVRON_DOWN}##model", ImVec2(0, ui.u(8))):
            ui.opened = "models"
    ui.mark("chat.model")
    beside_it = state.load and (state.messages or not state.holds_conversations)
    actions = _draw_progress(state, ui) if beside_it else []
    if talks:
        imgui.same_line(ui.right(beside + switch_width(ui) + map_width(ui) + ui.u(3)))
        draw_map_button(state, ui)
        imgui.same_line(0, ui.u(1))
        actions += draw_switch(state, ui)
    imgui.same_line(ui.right(beside))
    actions += layouts.draw(state, ui, header)
    return actions + (draw_map(state, ui) if talks else [])


def _draw_progress(state: AppState, ui: Ui) -> list[Action]:
    """A load beside the model's name, while the conversation stays in sight."""
    assert state.load is not None
    top, height = imgui.get_item_rect_min().y, ui.u(8)
    imgui.same_line(0, ui.u(3))
    x = imgui.get_cursor_screen_pos().x
    imgui.set_cursor_screen_pos(ImVec2(x, top + (height - ui.u(1)) / 2))
    meter(ui, state.load.fraction, ui.u(24), ui.u(1))
    ui.mark("chat.loading")
    stage, side = capital(said_stage(state.load.stage)), ui.u(6)
    x += ui.u(24) + ui.u(2)
    with ui.font(style="small"):
        spot = ImVec2(x, round(top + (height - ui.theme.size("small")) / 2))
        imgui.get_window_draw_list().add_text(spot, ui.color("muted"), stage)
        x += imgui.calc_text_size(stage).x + ui.u(1)
    imgui.set_cursor_screen_pos(ImVec2(x, top + (height - side) / 2))
    if icon_button(ui, "chat.cancel_load", ICON_CLOSE, tr("Cancel"), side=side, style="small"):
        return [CancelLoading()]
    return []


def _draw_empty(state: AppState, ui: Ui, height: float) -> list[Action]:
    imgui.begin_child("welcome", ImVec2(0, height), FLAT, imgui.WindowFlags_.no_saved_settings)
    offset, width = column(ui)
    width = min(width, ui.u(120))
    offset = (imgui.get_content_region_avail().x - width) / 2
    imgui.set_cursor_pos_y(max(ui.u(4), height / 2 - ui.u(38)))
    imgui.set_cursor_pos_x(imgui.get_cursor_pos_x() + offset)
    imgui.begin_child("welcome.column", ImVec2(width, 0), imgui.ChildFlags_.auto_resize_y | FLAT)
    with ui.styled(item_spacing=(ui.u(2), ui.u(2))):
        if state.load:
            actions = _draw_loading(state, ui)
        elif state.model:
            actions = _draw_welcome(state, ui, width)
        else:
            actions = _draw_no_model(state, ui)
    imgui.end_child()
    imgui.end_child()
    return actions


def _title(ui: Ui, words: str, note: str) -> None:
    with ui.font("bold", "display"):
        imgui.push_text_wrap_pos(0.0)
        imgui.text_unformatted(words)
        imgui.pop_text_wrap_pos()
    wrapped(ui, note, style="body")
    imgui.dummy(ImVec2(0, ui.u(3)))


def _draw_welcome(state: AppState, ui: Ui, width: float) -> list[Action]:
    serves = any(server.status == "on" for server in state.tools.servers)
    note = tr(WITH_SERVERS if serves else ALONE)
    if state.remote.connection is not None:
        note = tr(THERE).format(host=state.remote.connection.server.host)
    _title(ui, tr("What shall we talk about?"), note)
    actions: list[Action] = []
    for number, (verb, prompt) in enumerate(EXAMPLES):
        prompt = tr(prompt)
        if _example(ui, f"example.{number}", tr(verb), prompt, width):
            actions.append(SetDraft(prompt) if obstacle(state) else Send(prompt))
    return actions


def _example(ui: Ui, name: str, verb: str, prompt: str, width: float) -> bool:
    draw, at, height = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos(), ui.u(12)
    clicked = press_area(name, ImVec2(width, height))
    ui.mark(name)
    end = ImVec2(at.x + width, at.y + height)
    fill = "hover" if imgui.is_item_hovered() else "base"
    draw.add_rect_filled(at, end, ui.color(fill), ui.theme.radius)
    draw.add_rect(at, end, ui.color("border"), ui.theme.radius, ui.u(0.25))
    y = at.y + (height - ui.theme.text) / 2
    draw.add_text(ImVec2(at.x + ui.u(3), y), ui.color("accent"), ICON_SPARKLES)
    left = ui.u(3) + ui.theme.text + ui.u(2.5)
    with ui.font("bold"):
        draw.add_text(ImVec2(at.x + left, y), ui.color("text"), verb)
    left += ui.u(17)
    draw.add_text(ImVec2(at.x + left, y), ui.color("muted"), fit(prompt, width - left - ui.u(3)))
    return clicked


def _draw_loading(state: AppState, ui: Ui) -> list[Action]:
    assert state.load is not None
    _title(
        ui,
        tr("Getting ready"),
        tr("Loading {name}.").format(name=short_name(state.load.source)),
    )
    progress(ui, capital(said_stage(state.load.stage)), state.load.fraction)
    ui.mark("chat.loading")
    imgui.dummy(ImVec2(0, ui.u(1)))
    label = tr("Cancelling") if state.load.cancelling else tr("Cancel")
    if button(ui, "chat.cancel_load", label, enabled=not state.load.cancelling):
        return [CancelLoading()]
    return []


def _draw_no_model(state: AppState, ui: Ui) -> list[Action]:
    _title(
        ui,
        tr("No model is loaded"),
        tr("Open a GGUF file, drop one on this window, or take the bundled model."),
    )
    actions: list[Action] = []
    if primary_button(ui, "chat.load_default", tr("Load the default model")):
        actions.append(OpenModel(None))
    imgui.same_line()
    if button(ui, "chat.open_models", tr("Choose a model")):
        ui.opened = "models"
    return actions
