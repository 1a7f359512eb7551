"""The conversation: its model above, the messages, the input below; a welcome while it is empty."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.chat.composer import composer_height, draw_composer
from llm_lite.desktop.features.chat.conversation import draw_conversation, show_found
from llm_lite.desktop.features.chat.model import Send, SetDraft, SetForm
from llm_lite.desktop.features.chat.too_long import draw_ways, ways_height
from llm_lite.desktop.features.encoder.view import draw as draw_encoding
from llm_lite.desktop.features.layouts import view as layouts
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import CancelLoading, OpenModel
from llm_lite.desktop.features.program.requests import obstacle, waits_for_model
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.view import draw_strip, strip_height
from llm_lite.desktop.features.selection.find import draw_find
from llm_lite.desktop.features.tokens.view import draw_bar, draw_switch, switch_width
from llm_lite.desktop.features.translator.view import draw_page
from llm_lite.desktop.features.tree.view import draw_map, draw_map_button, map_width
from llm_lite.desktop.language.core_words import translated_stage
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import capital, short_name
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
    text,
    tip,
    wrapped,
)

LEAST_NAME, ROOMY_NAME = 10.0, 24.0  # spacing units of a model's name: two letters; a good part
LOADING_WIDTH = 16.0  # spacing units that a name leaves to the bar of a load and its Cancel
ALONE = mark("The model runs on this machine. Nothing you write leaves it.")
THERE = mark("The model runs at {host}. What you write is sent there.")
WITH_SERVERS = mark("The model runs on this machine. A tool server is told only the calls it runs.")
EXAMPLES = (
    (mark("Explain"), mark("Why is the sky blue? Answer in three sentences.")),
    (mark("Write"), mark("Write a short poem about the sea at night.")),
    (mark("Code"), mark("Write a Python function that reverses a string, and explain it.")),
)
CONTINUED = mark("Text completion: the model goes on with what you write.")
NO_TEMPLATE = mark("Text completion: {name} has no chat template, it goes on with what you write.")
PLAIN_CHAT = mark("{name} has no chat template: it is asked in a plain format of roles.")
WHAT_IT_READS = mark(
    "The model reads all of this as one text, without roles around it. What you write behind an "
    "answer begins a paragraph, unless it begins with a space or a line. An answer ends where the "
    "model begins to write as somebody else, as “User:”."
)
BEGINNINGS = (
    (mark("Story"), mark("Once upon a time, in a village by the sea,")),
    (mark("List"), mark("The five largest cities of the world are:\n1.")),
    (mark("Code"), mark("# A Python function that reverses a string\n")),
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_header(state, ui)
    if state.writes_targets or state.encodes:
        return actions + _draw_texts(state, ui)
    actions += draw_form(state, ui)
    if state.xray.shown and state.messages:
        actions += draw_bar(state, ui)
    draw_find(state, ui)
    below = composer_height(state, ui) + strip_height(state, ui) + ways_height(state, ui)
    room = imgui.get_content_region_avail().y - below - ui.notices_height
    with ui.styled(item_spacing=(0.0, 0.0)):
        if state.messages:
            actions += show_found(state, ui)
            actions += draw_conversation(state, ui, max(room, ui.u(10)))
        else:
            actions += _draw_empty(state, ui, max(room, ui.u(10)))
        (offset, width) = column(ui)
        _leave_room_for_notices(ui, offset, width)
        actions += draw_strip(state, ui, offset, width)
        actions += draw_ways(state, ui, offset, width)
    return actions + draw_composer(state, ui)


def _draw_texts(state: AppState, ui: Ui) -> list[Action]:
    """Draw the page of a model that holds no conversation."""
    height = imgui.get_content_region_avail().y - ui.notices_height
    imgui.begin_child("texts", ImVec2(0, max(height, ui.u(10))), FLAT)
    actions = draw_page(state, ui) if state.writes_targets else draw_encoding(state, ui)
    imgui.end_child()
    _leave_room_for_notices(ui, *column(ui))
    return actions


def draw_form(state: AppState, ui: Ui) -> list[Action]:
    """Draw a line about what the conversation is where it is no chat as the model was made for: one
    text that the model continues, or a chat in a plain format. While there is no message the other
    form can be chosen."""
    words = _form_words(state)
    if not words:
        return []
    other = tr("Chat instead") if state.completes else tr("Continue a text instead")
    with ui.font(style="small"):
        wide = imgui.calc_text_size(other).x + ui.u(6)
    room = imgui.get_content_region_avail().x - ui.u(4) - (0 if state.messages else wide)
    imgui.set_cursor_pos_x(imgui.get_cursor_pos_x() + ui.u(2))
    imgui.align_text_to_frame_padding()
    with ui.font(style="small"):
        shown = fit(words, room)
    text(ui, shown, "muted", "small")
    ui.mark("chat.form_note")
    tip(ui, words if not state.completes else f"{words}\n{tr(WHAT_IT_READS)}")
    if state.messages:
        return []
    imgui.same_line(0, ui.u(2))
    with ui.font(style="small"):
        clicked = button(ui, "chat.other_form", other)
    return [SetForm("chat" if state.completes else "completion")] if clicked else []


def _form_words(state: AppState) -> str:
    name = state.model.name if state.model else ""
    if state.completes:
        return tr(CONTINUED) if state.has_template else tr(NO_TEMPLATE).format(name=name)
    return "" if state.has_template else tr(PLAIN_CHAT).format(name=name)


def _leave_room_for_notices(ui: Ui, offset: float, width: float) -> None:
    """Leave notices a place of their own, so that they cover nothing."""
    at, height = imgui.get_cursor_screen_pos(), ui.notices_height
    ui.rects["chat.notices"] = (at.x + offset, at.y, at.x + offset + width, at.y + height)
    if height:
        imgui.dummy(ImVec2(1, height))


def _draw_header(state: AppState, ui: Ui) -> list[Action]:
    """Draw the model's name, which opens the list of models, and the way to the tokens. All of it
    stands on one line of a fixed height, whatever is shown."""
    start = imgui.get_cursor_pos()
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
        free = header - ui.u(16) - beside
        buttons = _Buttons(ui, free) if talks else None
        talk = buttons.width if buttons else 0.0
        beside_it = state.load and (state.messages or not state.holds_conversations)
        room = free - talk - (ui.u(LOADING_WIDTH) if beside_it else 0.0)
        name = f"{fit(label, room)}  " if room >= ui.u(LEAST_NAME) else ""
        if imgui.button(f"{name}{ICON_CHEVRON_DOWN}##model", ImVec2(0, ui.u(8))):
            ui.opened = "models"
        if not name:
            tip(ui, label)
    ui.mark("chat.model")
    edge = start.x + header
    talk_x = edge - beside - (talk + ui.u(3) if talk else 0.0)
    actions = _draw_progress(state, ui, talk_x - ui.u(2)) if beside_it else []
    if buttons:
        imgui.set_cursor_pos(ImVec2(talk_x, start.y))
        actions += buttons.draw(state, ui)
    imgui.set_cursor_pos(ImVec2(edge - beside, start.y))
    actions += layouts.draw(state, ui, header)
    imgui.set_cursor_pos(start)
    imgui.dummy(ImVec2(1, ui.u(8)))
    return actions + (draw_map(state, ui) if talks else [])


class _Buttons:
    """The header's buttons for a conversation. Where the model's name would have no room beside
    them, X-ray loses its own; then the map goes, then X-ray: the palette has both."""

    def __init__(self, ui: Ui, free: float) -> None:
        """Choose what fits into `free` pixels, which the model's name and these buttons have."""
        xray, icon = switch_width(ui), switch_width(ui, named=False)
        self.named = map_width(ui) + xray + ui.u(ROOMY_NAME) <= free
        self.has_map = self.named or map_width(ui) + icon <= free
        self.has_xray = self.has_map or icon <= free
        self.width = (map_width(ui) if self.has_map else 0.0) + (
            (xray if self.named else icon) if self.has_xray else 0.0
        )

    def draw(self, state: AppState, ui: Ui) -> list[Action]:
        if self.has_map:
            draw_map_button(state, ui)
            imgui.same_line(0, ui.u(1))
        return draw_switch(state, ui, named=self.named) if self.has_xray else []


def _draw_progress(state: AppState, ui: Ui, end: float) -> list[Action]:
    """Draw a load beside the model's name, while the conversation stays in sight. It stands before
    `end`, in x of the window: the stage is cut, and the bar is shorter where there is no room."""
    assert state.load is not None
    top, height, side = imgui.get_item_rect_min().y, ui.u(8), ui.u(6)
    imgui.same_line(0, ui.u(3))
    x = imgui.get_cursor_screen_pos().x
    room = x + end - imgui.get_cursor_pos_x() - x - side - ui.u(1)
    wide = max(min(ui.u(24), room), ui.u(2))
    imgui.set_cursor_screen_pos(ImVec2(x, top + (height - ui.u(1)) / 2))
    meter(ui, state.load.fraction, wide, ui.u(1))
    ui.mark("chat.loading")
    stage = capital(translated_stage(state.load.stage))
    tip(ui, stage)
    x, room = x + wide + ui.u(2), room - wide - ui.u(2)
    with ui.font(style="small"):
        if room >= ui.u(12):
            spot = ImVec2(x, round(top + (height - ui.theme.size("small")) / 2))
            shown = fit(stage, room - ui.u(1))
            imgui.get_window_draw_list().add_text(spot, ui.color("muted"), shown)
            width = imgui.calc_text_size(shown).x
            ui.rects["chat.stage"] = (x, spot.y, x + width, spot.y + ui.theme.size("small"))
            x += width + ui.u(1)
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
    goes_on = state.completes
    title = tr("How does the text begin?") if goes_on else tr("What shall we talk about?")
    _title(ui, title, note)
    actions: list[Action] = []
    for number, (verb, prompt) in enumerate(BEGINNINGS if goes_on else EXAMPLES):
        prompt = tr(prompt)
        if _example(ui, f"example.{number}", tr(verb), prompt, width):
            can_send = waits_for_model(state) or not obstacle(state)
            actions.append(Send(prompt) if can_send else SetDraft(prompt))
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
    draw.add_text(
        ImVec2(at.x + left, y),
        ui.color("muted"),
        fit(" ".join(prompt.split()), width - left - ui.u(3)),
    )
    return clicked


def _draw_loading(state: AppState, ui: Ui) -> list[Action]:
    assert state.load is not None
    _title(
        ui,
        tr("Getting ready"),
        tr("Loading {name}.").format(name=short_name(state.load.source)),
    )
    progress(ui, capital(translated_stage(state.load.stage)), state.load.fraction)
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
