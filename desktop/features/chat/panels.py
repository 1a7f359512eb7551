"""Panels of the chat: the system prompt, and those that a click in a message opens, about an
address, a file for code, and the model that wrote an answer."""

from __future__ import annotations

import re
import time
from pathlib import Path

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.files.places import user_folder
from llm_lite.core.messages import ACTIVATIONS, MODES, AnswerRun
from llm_lite.core.plain_text import one_line
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import SetSystemPrompt
from llm_lite.desktop.features.export_picture.view import draw_path
from llm_lite.desktop.features.file_chooser.path_field import is_choosing
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenLink, OpenModel, SaveText, SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.model import FindServer
from llm_lite.desktop.features.steer.words import in_words
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.markdown.code_frame import CodeFrames
from llm_lite.desktop.widgets.markdown.drawing import ClickedLink
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, popover, primary_button, wrapped

NOTE = mark(
    "Said to the model before the conversation: who it is and how to answer. Small models follow "
    "it loosely. A change counts from the next message on, and the conversation is read again."
)
DEFAULT = "You are a helpful assistant."
LINK_PANEL, SAVE_PANEL = "link", "code.save"
OUTSIDE = mark(
    "It is shown by your browser, outside this program. The model wrote it: it may not lead where "
    "its words say."
)
SUFFIXES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "rust": "rs",
    "bash": "sh",
    "shell": "sh",
    "c++": "cpp",
    "c#": "cs",
    "ruby": "rb",
    "kotlin": "kt",
    "markdown": "md",
    "haskell": "hs",
    "perl": "pl",
    "latex": "tex",
    "text": "txt",
    "plaintext": "txt",
}
WRITER_PANEL = "chat.again"
THERE = "/v1/models/"  # between the address of a server and the name of its model


def draw_system_prompt(state: AppState, ui: Ui) -> list[Action]:
    """Draw the field of what the model is given before every conversation."""
    wrapped(ui, tr(NOTE))
    width = imgui.get_content_region_avail().x
    flags = imgui.InputTextFlags_.word_wrap
    with ui.styled(frame_padding=(ui.u(2.5), ui.u(2))):
        changed, words = lines_field(
            "##system", state.system_prompt, ImVec2(width, ui.theme.text * 7), flags
        )
    ui.mark("system_prompt.text")
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)  # closes; must not restore the text
    actions: list[Action] = [SetSystemPrompt(words)] if changed and not escaped else []
    if button(ui, "system_prompt.default", tr("Default"), enabled=state.system_prompt != DEFAULT):
        actions.append(SetSystemPrompt(DEFAULT))
    imgui.same_line()
    if button(ui, "system_prompt.clear", tr("None"), enabled=bool(state.system_prompt)):
        actions.append(SetSystemPrompt(""))
    return actions


class LinkPanel(Struct):
    """The panel about an address in a message."""

    address: str | None = None  # None: it is closed
    at: tuple[float, float] = (0.0, 0.0)  # the pointer, where it was opened


class SavePanel(Struct):
    """The panel that saves code of a message."""

    code: str | None = None  # None: it is closed
    path: str = ""
    at: tuple[float, float] = (0.0, 0.0)


def draw_asked(ui: Ui) -> list[Action]:
    """Draw the panels that a click in the text opened."""
    link, save = ui.local(LinkPanel), ui.local(SavePanel)
    clicked, frames = ui.local(ClickedLink), ui.local(CodeFrames)
    if clicked.address is not None:
        link.address, link.at, ui.opened = clicked.address, ui.pointer, LINK_PANEL
        clicked.address = None
    if frames.to_save is not None:
        (save.code, language), frames.to_save = frames.to_save, None
        save.path, save.at = one_line(str(default_path(language))), ui.pointer
        ui.opened = SAVE_PANEL
    if link.address is None and save.code is None:
        return []
    actions: list[Action] = []
    with ui.styled(item_spacing=(ui.u(2), ui.u(2))):  # that of the conversation is none
        if link.address is not None:
            actions += _draw_link(ui, link, link.address)
        if save.code is not None:
            actions += _draw_save(ui, save, save.code)
    return actions


def default_path(language: str) -> Path:
    """Return a path in the documents, named by the moment and the language."""
    short = language.lower()
    suffix = SUFFIXES.get(short, short if re.fullmatch(r"[a-z0-9]{1,8}", short) else "txt")
    return user_folder("documents") / f"code-{time.strftime('%Y%m%d-%H%M%S')}.{suffix}"


def _corner(ui: Ui, at: tuple[float, float]) -> ImVec2:
    return ImVec2(at[0] - ui.u(20), at[1] + ui.u(4))


def _draw_link(ui: Ui, panel: LinkPanel, address: str) -> list[Action]:
    at = _corner(ui, panel.at)
    with popover(ui, LINK_PANEL, tr("Open this address?"), at, ui.u(104)) as shown:
        if not shown:
            panel.address = None
            return []
        wrapped(ui, tr(OUTSIDE))
        with ui.font("mono", "small"), ui.colored(text="text"):
            imgui.push_text_wrap_pos(0.0)
            imgui.text_unformatted(_breakable(address))
            imgui.pop_text_wrap_pos()
        opened = primary_button(ui, "link.open", tr("Open in the browser"))
        imgui.same_line()
        if button(ui, "link.copy", tr("Copy the address")):
            imgui.set_clipboard_text(address)
            imgui.close_current_popup()
        if opened:
            imgui.close_current_popup()
        return [OpenLink(address)] if opened else []


def _breakable(address: str) -> str:
    """Break an address into lines of at most 60 characters: it has no words to break between."""
    return "\n".join(address[at : at + 60] for at in range(0, len(address), 60))


def _draw_save(ui: Ui, panel: SavePanel, code: str) -> list[Action]:
    at = _corner(ui, panel.at)
    with popover(ui, SAVE_PANEL, tr("Save the code"), at, ui.u(104)) as shown:
        if not shown:
            panel.code = code if is_choosing(ui, f"{SAVE_PANEL}.path") else None
            return []
        panel.path, wanted, actions = draw_path(ui, SAVE_PANEL, panel.path)
        return [*actions, SaveText(wanted, code + "\n")] if wanted else actions


class OtherWriter(Struct):
    """The panel about the model that wrote an answer."""

    written: AnswerRun | None = None
    at: tuple[float, float] = (0.0, 0.0)  # its corner on the screen


def open_other_writer(ui: Ui, written: AnswerRun, at: tuple[float, float]) -> None:
    """Open the panel about what wrote an answer, with its corner at a place of the screen."""
    panel = ui.local(OtherWriter)
    panel.written, panel.at = written, at
    ui.opened = WRITER_PANEL


def draw_other_writer(state: AppState, ui: Ui) -> list[Action]:
    """Draw a panel where another model, or another mode of it, is loaded: which one wrote the
    answer, and the way to it."""
    panel = ui.local(OtherWriter)
    written, at = panel.written, panel.at
    if written is None:
        return []
    with popover(ui, WRITER_PANEL, tr("Another model wrote this"), ImVec2(*at), ui.u(84)) as shown:
        if not shown:
            return []
        wrapped(ui, other_writer(state, written))
        label = tr("Connect") if written.backend == "remote" else tr("Load it")
        if primary_button(ui, f"{WRITER_PANEL}.load", label, enabled=state.load is None):
            imgui.close_current_popup()
            if written.backend == "remote":
                ui.show_popover("models")  # which tells what comes of it
            return _load(state, written)
    return []


def other_writer(state: AppState, written: AnswerRun) -> str:
    how = ", ".join(filter(None, (written.mode, written.activations)))
    how = written.device if written.backend == "remote" else how
    how = "; ".join([how, *change_words(written)])
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


def change_words(written: AnswerRun) -> list[str]:
    """Return what was changed of the model as it wrote an answer, and each switch within it."""
    changed = in_words(written.interventions)
    others = (
        tr("{how} from token {n:,}").format(
            how=in_words(switch.interventions) or tr("nothing changed"), n=switch.token + 1
        )
        for switch in written.intervention_switches
    )
    return [*([changed] if changed else ()), *others, *switch_words(written)]


def switch_words(written: AnswerRun) -> list[str]:
    """Return, for each switch within an answer, how its tokens are computed from which one on."""
    words, before, backend = list[str](), written.mode, written.backend
    for switch in written.switches:
        how = switch.mode if switch.mode != before else switch.activations
        how = switch.backend if switch.backend != backend else how
        words.append(tr("{how} from token {n:,}").format(how=how, n=switch.token + 1))
        before, backend = switch.mode, switch.backend
    return words


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
