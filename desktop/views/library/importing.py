"""A model that was not found by itself: its path, or the system's file dialog."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.library.changing import ChooseImport, ImportLocal
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.icons import ICON_FOLDER_OPEN, ICON_NEW
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, popover, wrapped

PANEL, PATH = "library.import", "library.import.path"
LONGEST_PATH = 4096  # characters
ABOUT = mark(
    "A GGUF file, a folder with config.json and safetensors, or a variant. It is remembered where "
    "it lies: nothing is copied."
)
WIDTH = 96.0  # spacing units
LABEL = mark("Import")


def width_of(ui: Ui) -> float:
    """Of the button, in pixels."""
    words = f"{ICON_NEW}  {tr(LABEL)}"
    return float(imgui.calc_text_size(words).x) + 2 * imgui.get_style().frame_padding.x


def draw(state: AppState, ui: Ui) -> list[Action]:
    if button(ui, PANEL + ".open", tr(LABEL), ICON_NEW, tr("Add a model that lies elsewhere")):
        ui.show_popover(PANEL, PATH)
    high = imgui.get_item_rect_max()
    at = ImVec2(high.x - ui.u(WIDTH), high.y + ui.u(1))
    with popover(ui, PANEL, tr("Import a model"), at, ui.u(WIDTH)) as shown:
        return _draw_panel(ui) if shown else []


def _draw_panel(ui: Ui) -> list[Action]:
    wrapped(ui, tr(ABOUT))
    imgui.set_next_item_width(-1)
    flags = imgui.InputTextFlags_.enter_returns_true
    entered, path = imgui.input_text_with_hint(
        f"##{PATH}", tr("Path of a file or a folder"), ui.memory.get(PATH, ""), flags
    )
    ui.mark(PATH)
    ui.memory[PATH] = path = path[:LONGEST_PATH]
    able = bool(path.strip())
    if button(ui, "library.import.add", tr("Import this path"), enabled=able) or (entered and able):
        ui.memory[PATH] = ""
        imgui.close_current_popup()
        return [ImportLocal(path.strip())]
    imgui.same_line()
    if button(ui, "library.import.choose", tr("Choose a file"), ICON_FOLDER_OPEN):
        imgui.close_current_popup()
        return [ChooseImport()]
    return []
