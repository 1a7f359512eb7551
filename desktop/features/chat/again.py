"""An answer's writer, and the same answer once more; a message that a search has found."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import ACTIVATIONS, MODES, AnswerRun
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import EditMessage, Regenerate
from llm_lite.desktop.features.chat.places import Stack
from llm_lite.desktop.features.history.model import ForkConversation, Reveal
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel, SetOptions
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.remote.model import FindServer
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_BRANCH, ICON_DICE, ICON_EDIT, ICON_REGENERATE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, popover, primary_button, wrapped

PANEL = "chat.again"
THERE = "/v1/models/"  # between the address of a server and the name of its model
REGENERATE = mark("Regenerate; a new seed gives another answer")
EXACTLY = mark("Regenerate exactly: the same seed, sampling and gains")
EDIT = mark("Edit the answer; the model's version is kept")

FORK = mark("Fork to a new conversation: a copy of this one up to here")


def writer(state: AppState, message: Message) -> str:
    """Who is named at the head of an answer."""
    known = message.written.model.name if message.written else ""
    name = known or (state.model.name if state.model else tr("Assistant"))
    return f"{name}  ·  {tr('edited by you')}" if message.edited else name


def draw_again(state: AppState, ui: Ui, index: int, side: float) -> list[Action]:
    """Draw buttons behind others on their line: answer again, exactly so, or in a
    person's words."""
    actions: list[Action] = []
    message, last = state.messages[index], index == len(state.messages) - 1
    name = f"message.{index}"
    imgui.same_line(0, ui.u(1))
    regenerate = "chat.regenerate" if last else f"{name}.regenerate"
    if icon_button(ui, regenerate, ICON_REGENERATE, tr(REGENERATE), side=side, style="small"):
        actions.append(Regenerate(None if last else index))
    if message.written is not None and message.sampling is not None and not message.edited:
        imgui.same_line(0, ui.u(1))
        if icon_button(ui, f"{name}.exactly", ICON_DICE, tr(EXACTLY), side=side, style="small"):
            actions += _again(state, ui, index, message.written)
    imgui.same_line(0, ui.u(1))
    if icon_button(ui, f"{name}.edit", ICON_EDIT, tr(EDIT), side=side, style="small"):
        actions.append(EditMessage(index))
    if state.history.open is not None:
        imgui.same_line(0, ui.u(1))
        if icon_button(ui, f"{name}.fork", ICON_BRANCH, tr(FORK), side=side, style="small"):
            actions.append(ForkConversation(message.key))
    return actions


def _again(state: AppState, ui: Ui, index: int, written: AnswerRun) -> list[Action]:
    if written.is_like(AnswerRun.by(state.model, state.executor)):
        return [Regenerate(index, exactly=True)]
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    panel = ui.local(OtherWriter)
    panel.written, panel.at = written, (low.x, high.y + ui.u(1))
    ui.opened = PANEL
    return []


class OtherWriter(Struct):
    """The panel about the model that wrote an answer."""

    written: AnswerRun | None = None
    at: tuple[float, float] = (0.0, 0.0)  # its corner on the screen


class Revealing(Struct):
    key: object = None  # of the message that the last frame was to show


def draw_other_writer(state: AppState, ui: Ui) -> list[Action]:
    """Draw a panel where another model, or another mode of it, is loaded: which one wrote the
    answer, and the way to it."""
    panel = ui.local(OtherWriter)
    written, at = panel.written, panel.at
    if written is None:
        return []
    with popover(ui, PANEL, tr("Another model wrote this"), ImVec2(*at), ui.u(84)) as shown:
        if not shown:
            return []
        wrapped(ui, other_writer(state, written))
        label = tr("Connect") if written.backend == "remote" else tr("Load it")
        if primary_button(ui, f"{PANEL}.load", label, enabled=state.load is None):
            imgui.close_current_popup()
            if written.backend == "remote":
                ui.show_popover("models")  # which tells what comes of it
            return _load(state, written)
    return []


def other_writer(state: AppState, written: AnswerRun) -> str:
    how = ", ".join(filter(None, (written.mode, written.activations)))
    how = written.device if written.backend == "remote" else how
    now = AnswerRun.by(state.model, state.executor)
    there = tr("No model is loaded.")
    if now is not None and now.backend == "remote":
        there = tr("{model} answers now ({where}).")
        there = there.format(model=now.model.name, where=now.device)
    elif now is not None:
        there = tr("{model} is loaded in {mode} with {activations}.")
        if now.model.path == written.model.path:
            there = tr("It is loaded in {mode} with {activations}.")
        there = there.format(model=now.model.name, mode=now.mode, activations=now.activations)
    wrote = tr("{model} wrote it ({how}).").format(model=written.model.name, how=how)
    return f"{wrote} {there} {tr('Load what wrote it, then ask again.')}"


def _load(state: AppState, written: AnswerRun) -> list[Action]:
    if written.backend == "remote":
        address, _, name = written.model.path.partition(THERE)
        return [FindServer(address, model=name)]
    if state.model is None or state.model.path != written.model.path:
        return [OpenModel(written.model.path)]
    options = state.options
    mode = next((m for m in MODES if m == written.mode), options.mode)
    activations = next((a for a in ACTIVATIONS if a == written.activations), options.activations)
    return [SetOptions(replace(options, mode=mode, activations=activations))]


def show_found(state: AppState, ui: Ui) -> list[Action]:
    """Bring the message that a search has found into sight, once its place is known."""
    key = state.history.reveal
    if key is None:
        return []
    revealing = ui.local(Revealing)
    if revealing.key != key or ui.local(Stack).measuring:
        revealing.key = key
        ui.redraw_in(0.0)
        return []
    revealing.key = None
    shown = (index for index, message in enumerate(state.messages) if message.key == key)
    ui.memory["chat.show"] = next(shown, None)
    return [Reveal(None)]
