"""The input of the chat, which grows with its text: Enter sends it, Shift+Enter breaks the line,
Escape stops the answer."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.attachments.model import (
    PasteText,
    TellNoText,
    files_obstacle,
    pasted,
    takes_pastes,
)
from llm_lite.desktop.features.attachments.view import draw_files, draw_paperclip, files_height
from llm_lite.desktop.features.cache.overflow import draw_meter
from llm_lite.desktop.features.chat.input_card import (
    draw_card,
    draw_field,
    draw_send,
    draw_stop,
    escape_is_free,
    held_input,
    lines_height,
    pastes_no_text,
)
from llm_lite.desktop.features.chat.model import (
    CancelEdit,
    KeepDraft,
    Send,
    SetDraft,
    StopAnswer,
    length_obstacle,
)
from llm_lite.desktop.features.commands.keys import InputKeys, keys_of, with_keys
from llm_lite.desktop.features.layouts.view import show_view
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle, waits_for_model
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.slash import Slash
from llm_lite.desktop.features.prompts.view import draw_prompts
from llm_lite.desktop.features.steer.words import in_words
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_EDIT
from llm_lite.desktop.widgets.scripts import cannot_draw
from llm_lite.desktop.widgets.text_input import Input
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import column, fit, icon_button, text, tip

MAX_LINES = 6


def composer_height(state: AppState, ui: Ui) -> float:
    _, width = column(ui)
    banner = ui.u(7) if state.editing is not None else 0.0
    files = files_height(state, ui, width)
    return _field_height(state, ui, width) + ui.u(4) + banner + files + ui.u(7.5)


def draw_composer(state: AppState, ui: Ui) -> list[Action]:
    """Draw the input card with its button, and a line that teaches the keys."""
    held = _held(state, ui)
    offset, width = column(ui)
    origin = imgui.get_cursor_screen_pos()
    x, y = origin.x + offset, origin.y
    actions: list[Action] = []
    if state.editing is not None:
        actions += _draw_banner(state, ui, x, y, width)
        y += ui.u(7)
    height, files = _field_height(state, ui, width) + ui.u(4), files_height(state, ui, width)
    draw_card(ui, ImVec2(x, y), width, height + files)
    actions += draw_files(state, ui, ImVec2(x, y), width)
    y += files
    actions += _draw_field(state, ui, held, ImVec2(x, y), width, height)
    actions += _draw_button(state, ui, held, ImVec2(x + width, y + height))
    return actions + _draw_hint(state, ui, x, y + height + ui.u(1.5), width)


def _held(state: AppState, ui: Ui) -> Input:
    return held_input(ui, state.draft, (state.chat, state.model is not None))


def _inner_width(ui: Ui, width: float) -> float:
    return width - ui.u(2) - ui.u(12) - ui.u(16)


def _field_height(state: AppState, ui: Ui, width: float) -> float:
    return lines_height(ui, state.draft, _inner_width(ui, width) - ui.u(3), 1, MAX_LINES)


def _draw_field(
    state: AppState, ui: Ui, held: Input, at: ImVec2, width: float, height: float
) -> list[Action]:
    spot, was_active = ImVec2(at.x + ui.u(2), at.y + ui.u(2)), ui.local(InputKeys).active
    slash, free = Slash(state, ui), escape_is_free(state, ui)
    size = ImVec2(_inner_width(ui, width), height - ui.u(2))
    hint = tr("Write how it goes on") if state.completes else tr("Ask something")
    with ui.colored(text="faint" if state.queued else "text"):
        written = draw_field(ui, held, "chat.input", spot, size, hint)
    words = written.words
    if written.escaped and was_active:  # Dear ImGui would restore the text from before; we keep it
        held.again()
        return [] if slash.dismiss() else _escape(state)
    if free:
        return _escape(state)
    actions = slash.draw(at, width, active=was_active or ui.local(InputKeys).active)
    if was_active and words == held.text and pastes_no_text():
        actions.append(TellNoText())
    if written.sent and slash.is_open:
        held.focus = True
        return actions + slash.choose()
    found = pasted(held.text, words) if words != held.text else None
    if found is not None and takes_pastes(state):
        words = found.before + found.after
        held.renew(words)
        actions.append(PasteText(found))
    elif words != held.text:
        held.text = words
        actions.append(SetDraft(words))
    if written.sent:
        held.focus = True
        actions.append(Send(words))
    return actions


def _escape(state: AppState) -> list[Action]:
    if state.busy:
        return [StopAnswer()]
    if state.queued:
        return [KeepDraft()]
    return [CancelEdit()] if state.editing is not None else []


def _draw_button(state: AppState, ui: Ui, held: Input, corner: ImVec2) -> list[Action]:
    side = ui.u(8)
    clip = ImVec2(corner.x - side * 2 - ui.u(2.5), corner.y - side - ui.u(1))
    actions = draw_paperclip(ui, clip, side)
    actions += draw_prompts(state, ui, ImVec2(clip.x - side, clip.y), side)
    imgui.set_cursor_screen_pos(ImVec2(corner.x - side - ui.u(1.5), corner.y - side - ui.u(1)))
    if state.running:
        stopped = draw_stop(ui, "chat.stop", side, state.running.stopping)
        return [*actions, StopAnswer()] if stopped else actions
    has_content = bool(held.text.strip() or state.files.files)
    waits = waits_for_model(state)
    hindrance = ""
    if not waits:
        hindrance = obstacle(state) or files_obstacle(state) or length_obstacle(state)
    ready = has_content and not hindrance and not state.queued
    words = tr("Send as soon as the model is loaded") if waits else tr("Send")
    hint = (hindrance if has_content else "") or with_keys(words, "send")
    clicked = draw_send(ui, "chat.send", side, ready, hint)
    if clicked:
        held.focus = True
    return [*actions, Send(held.text)] if clicked else actions


def _draw_banner(state: AppState, ui: Ui, x: float, y: float, width: float) -> list[Action]:
    imgui.set_cursor_screen_pos(ImVec2(x + ui.u(2), y + ui.u(1)))
    text(ui, f"{ICON_EDIT}  {banner(state)}", "muted", "small")
    side = ui.u(6)
    imgui.set_cursor_screen_pos(ImVec2(x + width - side, y))
    hint = with_keys(tr("Cancel the edit"), "escape")
    clicked = icon_button(ui, "chat.cancel_edit", ICON_CLOSE, hint, side=side, style="small")
    return [CancelEdit()] if clicked else []


def banner(state: AppState) -> str:
    at = state.editing
    if at is not None and at < len(state.messages) and state.messages[at].role == "assistant":
        return tr("Editing the answer: the model's version is kept")
    return tr("Editing: the earlier version is kept")


def _draw_hint(state: AppState, ui: Ui, x: float, y: float, width: float) -> list[Action]:
    """Draw what answers are made with where nothing else on the screen shows it, or the keys."""
    send, broken = keys_of("send"), keys_of("break_line")
    words = tr("{send} sends  ·  {broken} breaks the line").format(send=send, broken=broken)
    if state.busy:
        words = tr("{keys} stops").format(keys=keys_of("escape"))
    if state.queued:
        words = tr("Sent as soon as the model is loaded  ·  {keys} keeps it here")
        words = words.format(keys=keys_of("escape"))
    plain = state.busy or state.queued
    form, gains = "" if plain else _form(state), steered(state)
    warned = cannot_draw(ui, state.draft)
    actions, at, end = list[Action](), ImVec2(round(x + ui.u(1)), y), x + width
    with ui.font(style="small"):
        if form:
            hint = tr("Set under Sampling. Click to change it.")
            if _draw_link(ui, "chat.form", form, hint, at, end):
                ui.show_popover("sampler", "sampler.form")
        elif plain or warned or not gains:
            words = fit(warned or words, width - ui.u(2))
            imgui.get_window_draw_list().add_text(at, ui.color("faint"), words)
            at.x += imgui.calc_text_size(words).x + ui.u(3)
        if gains:
            hint = tr(
                "Answers of this conversation are made under these interventions. Click to see or "
                "reset them."
            )
            if _draw_link(ui, "chat.gains", gains, hint, at, end):
                actions += show_view("steer", state, ui)
    draw_meter(state, ui, end - ui.u(1), y, end - at.x - ui.u(4))
    return actions


def _draw_link(ui: Ui, name: str, words: str, hint: str, at: ImVec2, end: float) -> bool:
    """Draw words that can be clicked, cut where there is no room, and return whether they were.
    `at` is moved behind them."""
    shown = fit(words, end - at.x)
    size = imgui.calc_text_size(shown)
    imgui.set_cursor_screen_pos(at)
    clicked = imgui.invisible_button(name, ImVec2(max(size.x, 1.0), size.y))
    ui.mark(name)
    tip(ui, f"{words}\n{hint}" if shown != words else hint)
    imgui.get_window_draw_list().add_text(at, ui.color("link"), shown)
    at.x += size.x + ui.u(3)
    return clicked


def steered(state: AppState) -> str:
    """Return the interventions in force in words: they change every answer of the conversation."""
    here = state.model is not None and state.holds_conversations
    return in_words(state.steering.interventions) if here else ""


def _form(state: AppState) -> str:
    """Return what answers keep to: it stays after a restart, and would be a riddle unseen."""
    if state.sampling.json_schema:
        return tr("Answers keep to a JSON schema")
    return tr("Answers keep to a grammar") if state.sampling.grammar else ""
