"""What a click in an answer asks first: whether to open an address, where to save code."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from imgui_bundle import ImVec2, imgui

from llm_lite.core.errors import FileError
from llm_lite.core.files.places import expanded, user_folder
from llm_lite.core.plain_text import one_line
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.program import OpenLink, SaveText
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.markdown.code_frame import SAVE
from llm_lite.desktop.widgets.markdown.drawing import LINK
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, popover, primary_button, wrapped

LINK_PANEL, SAVE_PANEL = "link", "code.save"
LONGEST = 4096  # characters of a path
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


def draw_asked(ui: Ui) -> list[Action]:
    """The panels that a click in the text opened."""
    for wanted, panel in ((LINK, LINK_PANEL), (SAVE, SAVE_PANEL)):
        if wanted in ui.memory:
            ui.memory[f"{panel}.asked"] = ui.memory.pop(wanted)
            ui.memory[f"{panel}.at"] = ui.pointer
            ui.opened = panel
            if panel == SAVE_PANEL:
                _, language = ui.memory[f"{panel}.asked"]
                ui.memory[f"{panel}.path"] = one_line(str(default_path(language)))
    actions: list[Action] = []
    for panel, draw in ((LINK_PANEL, _draw_link), (SAVE_PANEL, _draw_save)):
        if f"{panel}.asked" in ui.memory:
            with ui.styled(item_spacing=(ui.u(2), ui.u(2))):  # that of the conversation is none
                actions += draw(ui)
    return actions


def default_path(language: str) -> Path:
    """In the documents, named by the moment and the language."""
    short = language.lower()
    suffix = SUFFIXES.get(short, short if re.fullmatch(r"[a-z0-9]{1,8}", short) else "txt")
    return user_folder("documents") / f"code-{time.strftime('%Y%m%d-%H%M%S')}.{suffix}"


def _place(ui: Ui, panel: str) -> ImVec2:
    x, y = ui.memory.get(f"{panel}.at", (0.0, 0.0))
    return ImVec2(x - ui.u(20), y + ui.u(4))


def _draw_link(ui: Ui) -> list[Action]:
    at = _place(ui, LINK_PANEL)
    with popover(ui, LINK_PANEL, tr("Open this address?"), at, ui.u(104)) as shown:
        if not shown:
            del ui.memory[f"{LINK_PANEL}.asked"]
            return []
        address: str = ui.memory[f"{LINK_PANEL}.asked"]
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
    """On lines of at most 60 characters: an address has no words to break between."""
    return "\n".join(address[at : at + 60] for at in range(0, len(address), 60))


def _draw_save(ui: Ui) -> list[Action]:
    with popover(ui, SAVE_PANEL, tr("Save the code"), _place(ui, SAVE_PANEL), ui.u(104)) as shown:
        if not shown:
            del ui.memory[f"{SAVE_PANEL}.asked"]
            return []
        code, _ = ui.memory[f"{SAVE_PANEL}.asked"]
        imgui.set_next_item_width(-1)
        _, path = imgui.input_text(f"##{SAVE_PANEL}.path", ui.memory[f"{SAVE_PANEL}.path"])
        ui.mark(f"{SAVE_PANEL}.path")
        ui.memory[f"{SAVE_PANEL}.path"] = path = path[:LONGEST]
        wanted = path.strip()
        if not primary_button(ui, f"{SAVE_PANEL}.write", tr("Save"), enabled=bool(wanted)):
            return []
        imgui.close_current_popup()
        with suppress(FileError):  # of a home directory that is unknown the writer tells
            wanted = str(expanded(wanted))
        return [SaveText(wanted, code + "\n")]
