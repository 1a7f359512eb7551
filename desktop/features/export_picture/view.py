"""A button that opens a small panel, which saves a picture at a path that can be changed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Literal

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.errors import FileError
from llm_lite.core.files.places import expanded, fit_name, user_folder
from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.attention.state import FigureName
from llm_lite.desktop.features.file_chooser.path_field import path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import ExportAttention
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_DOWNLOAD
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, popover, primary_button, wrapped

TITLES: dict[FigureName, str] = {
    "grid": mark("Save a picture of all heads"),
    "heads": mark("Save these heads"),
    "text": mark("Save a picture of the conversation with its highlighting"),
}
HINTS: dict[FigureName, str] = {
    "grid": mark("Save a picture of all heads"),
    "heads": mark("Save these heads: a picture, or the numbers"),
    "text": mark("Save a picture of the conversation with its highlighting"),
}
ENCODED: dict[str, str] = {  # of an encoder's text
    "title": mark("Save a picture of the text with its highlighting"),
    "note": mark("All tokens of the text, as they are coloured now. Click a token to hold it."),
}
NOTES: dict[FigureName, str] = {
    "grid": mark("The heads that pass the filters, in this order, with their scale."),
    "heads": mark(
        "A picture with axes, title and scale; or the exact probabilities for NumPy (.npz)."
    ),
    "text": mark(
        "All messages, token by token, as they are coloured now. Click a token to hold it."
    ),
}


class SavePaths(Struct):
    """The path in the field of each panel."""

    paths: dict[FigureName, str] = field(default_factory=dict)


def draw_save(state: AppState, ui: Ui, view: FigureName, side: float) -> list[Action]:
    """Draw the button, and its panel once it is open."""
    panel = f"save.{view}"
    encoded = view == "text" and state.encodes
    hint = ENCODED["title"] if encoded else HINTS[view]
    if icon_button(ui, f"{panel}.open", ICON_DOWNLOAD, tr(hint), side=side):
        ui.local(SavePaths).paths[view] = one_line(str(default_path(state, view)))
        ui.opened = panel
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    at = ImVec2(max(low.x - ui.u(90), ui.u(2)), high.y + ui.u(1))
    title = ENCODED["title"] if encoded else TITLES[view]
    note = ENCODED["note"] if encoded else NOTES[view]
    with popover(ui, panel, tr(title), at, ui.u(104)) as shown:
        return _draw_panel(ui, view, panel, tr(note)) if shown else []


def default_path(state: AppState, view: str, ending: str = "png") -> Path:
    """Return a path in the documents folder, named after the model, the view and the moment."""
    model = re.sub(r"[^\w.-]+", "-", state.model.name) if state.model else "model"
    name = f"{fit_name(model)}-{view}-{time.strftime('%Y%m%d-%H%M%S')}.{ending}"
    return user_folder("documents") / name


def _draw_panel(ui: Ui, view: FigureName, panel: str, note: str) -> list[Action]:
    wrapped(ui, note)
    paths = ui.local(SavePaths).paths
    path, actions = _draw_field(ui, panel, paths.get(view, ""))
    paths[view] = path
    kinds: list[str] = []
    if primary_button(ui, f"{panel}.png", tr("Save picture"), enabled=bool(path.strip())):
        kinds.append("png")
    if view == "heads":
        imgui.same_line()
        if button(ui, f"{panel}.npz", tr("Save numbers"), enabled=bool(path.strip())):
            kinds.append("npz")
    if not kinds:
        return actions
    imgui.close_current_popup()
    wanted = _expanded(path.strip().removesuffix(".png").removesuffix(".npz"))
    kind: Literal["png", "npz"] = "npz" if kinds[0] == "npz" else "png"
    return [ExportAttention(view, kind, f"{wanted}.{kind}")]


def _draw_field(ui: Ui, panel: str, path: str) -> tuple[str, list[Action]]:
    target = PathTarget(f"{panel}.path", panel, file_name=Path(path.strip()).name)
    typed = path_field(ui, target, path, ("folder",))
    return typed.path, typed.actions


def draw_path(ui: Ui, panel: str, path: str) -> tuple[str, str, list[Action]]:
    """Draw the field of a path in an open panel, and a button that saves there and closes it.
    Return the path as it stands in the field, once the button was pressed where to save, and what
    is to be chosen."""
    path, actions = _draw_field(ui, panel, path)
    wanted = path.strip()
    if not primary_button(ui, f"{panel}.write", tr("Save"), enabled=bool(wanted)):
        return path, "", actions
    imgui.close_current_popup()
    return path, str(_expanded(wanted)), actions


def _expanded(path: str) -> Path:
    """Return the path as it is where no home folder is known: the writer explains what is wrong."""
    try:
        return expanded(path)
    except FileError:
        return Path(path)
