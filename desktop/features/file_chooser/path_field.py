"""The field of a path, with the buttons that choose a file or a folder for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from imgui_bundle import imgui
from msgspec import Struct, field

from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.file_chooser.model import ChoosePath
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_FILE, ICON_FOLDER_OPEN
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button

LONGEST = 4096  # characters of a path
Pick = Literal["file", "folder"]
BUTTONS: dict[Pick, tuple[str, str]] = {
    "file": (ICON_FILE, mark("Choose a file")),
    "folder": (ICON_FOLDER_OPEN, mark("Choose a folder")),
}


class ChosenPaths(Struct):
    """Chosen paths by their fields, until these are drawn, and the field that a dialog is open
    for."""

    paths: dict[str, str] = field(default_factory=dict)
    choosing: str = ""


class TypedPath(Struct, frozen=True):
    """A path as it stands in its field. `entered`: Enter was pressed there; `is_chosen`: it was
    chosen just now."""

    path: str
    entered: bool
    is_chosen: bool
    actions: list[Action]


def path_field(
    ui: Ui,
    target: PathTarget,
    path: str,
    picks: Sequence[Pick],
    hint: str = "",
    width: float | None = None,
) -> TypedPath:
    """Draw the field and its buttons over this width, in pixels, or over all that is left."""
    side = imgui.get_frame_height()
    width = imgui.get_content_region_avail().x if width is None else width
    room = width - len(picks) * (side + ui.u(1))
    imgui.set_next_item_width(max(room, 1.0))
    chosen = ui.local(ChosenPaths).paths.pop(target.field, None)
    shown = path if chosen is None else one_line(chosen)
    _, typed = imgui.input_text_with_hint(f"##{target.field}", hint, shown)
    entered = imgui.is_item_deactivated() and imgui.is_key_pressed(imgui.Key.enter, False)
    ui.mark(target.field)
    actions: list[Action] = []
    for pick in picks:
        icon, label = BUTTONS[pick]
        imgui.same_line(0, ui.u(1))
        if icon_button(ui, f"{target.field}.{pick}", icon, tr(label), side=side, style="small"):
            actions.append(ChoosePath(target, folder=pick == "folder"))
    now = (typed if chosen is None else shown)[:LONGEST]
    return TypedPath(now, entered, chosen is not None, actions)


def give_path(ui: Ui, target: PathTarget, chosen: str, *, is_folder: bool) -> None:
    """Put what was chosen into its field, from the next frame on, and show the popover that it
    stands in; a chosen folder gets the name of the file that is wanted in it."""
    named = is_folder and target.file_name
    ui.local(ChosenPaths).paths[target.field] = (
        str(Path(chosen) / target.file_name) if named else chosen
    )
    end_choosing(ui, target)


def end_choosing(ui: Ui, target: PathTarget) -> None:
    """Show again the popover that the window's own dialog has closed."""
    ui.local(ChosenPaths).choosing = ""
    if target.popover:
        ui.show_popover(target.popover)


def is_choosing(ui: Ui, field: str) -> bool:
    """Return whether the window's own dialog is open for a field, whose popover is closed by it."""
    return ui.local(ChosenPaths).choosing == field
