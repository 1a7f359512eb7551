"""The panel that quantizes a model on this machine, or one that is downloaded first."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import HubFile, HubModel, LocalModel
from llm_lite.desktop.features.library.model import FetchModel, QuantizeModel
from llm_lite.desktop.features.library.words import QUANTIZED
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.controls import chooser, toggle
from llm_lite.desktop.widgets.icons import ICON_SCALE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import beside, button, popover, primary_button, wrapped

OURS = ("llm-lite", "huggingface")  # places whose models are deleted here
LOCAL, HUB = "library.quantize", "library.fetch_quantize"
WIDTH = 88.0  # spacing units
BITS: dict[Mode, float] = {"int4": 4.5, "int8": 8.5, "fp16": 16.0}  # a weight
ABOUT = mark(
    "Another file is written beside the model, in blocks of fewer bits. It opens at once and is "
    "read faster."
)
CALIBRATE = mark(
    "The model reads some text first, and what matters most is rounded best: less is lost, but it "
    "takes minutes instead of seconds."
)
THEIRS = mark(
    "Only what lies in llm-lite's own folder or in the Hugging Face cache is deleted here."
)
DELETE_HINT = mark(
    "When the new file is written and checked. Without its source it cannot be quantized in "
    "another way."
)


class QuantizeForm(Struct):
    """The choices in the panel."""

    mode: Mode = "int4"
    delete_source: bool = False
    calibrate: bool = True  # of int4


class QuantizeForms(Struct):
    by_panel: dict[str, QuantizeForm] = field(default_factory=dict)  # LOCAL, HUB


def draw_local(state: AppState, ui: Ui, model: LocalModel) -> list[Action]:
    """Draw the button in a row of buttons, and its panel."""
    ours = model.origin in OURS
    form = _draw_button(ui, LOCAL, tr("Quantize"), model.parameters, ours=ours)
    if form is None:
        return []
    return [QuantizeModel(model.name, form.mode, form.delete_source, form.calibrate)]


def draw_hub(
    ui: Ui, model: HubModel, file: HubFile, enabled: bool, *, is_here: bool
) -> list[Action]:
    """Draw the button and the panel for a file of the hub. `is_here`: it lies on this machine, so
    that its download ends at once."""
    label = tr("Quantize") if is_here else tr("Download and quantize")
    form = _draw_button(ui, HUB, label, model.parameters, enabled)
    if form is None:
        return []
    fetched = (model.repo, file.name, file.size)
    return [FetchModel(*fetched, form.mode, form.delete_source, form.calibrate)]


def _draw_button(
    ui: Ui, name: str, label: str, parameters: int, enabled: bool = True, ours: bool = True
) -> QuantizeForm | None:
    """Draw the button and the panel, and return the choices once they are confirmed."""
    beside(ui, label)
    if button(ui, f"{name}.open", label, ICON_SCALE, enabled=enabled):
        ui.local(QuantizeForms).by_panel[name] = QuantizeForm()
        ui.opened = name
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    at = ImVec2(min(low.x, high.x - ui.u(24)), high.y + ui.u(1))
    with popover(ui, name, label, at, ui.u(WIDTH)) as shown:
        return _draw_panel(ui, name, parameters, ours) if shown else None


def _draw_panel(ui: Ui, name: str, parameters: int, ours: bool) -> QuantizeForm | None:
    form = ui.local(QuantizeForms).by_panel.setdefault(name, QuantizeForm())
    wrapped(ui, tr(ABOUT))
    form.mode = chooser(ui, f"{name}.mode", QUANTIZED, form.mode)
    able = form.mode == "int4"
    imgui.begin_disabled(not able)
    words = tr("Calibrate")
    form.calibrate = toggle(ui, f"{name}.calibrate", words, form.calibrate, tr(CALIBRATE))
    imgui.end_disabled()
    if parameters:
        words = tr("About {size} on disk.")
        wrapped(ui, words.format(size=size(round(parameters * BITS[form.mode] / 8))), "text")
    words, hint = tr("Delete the source afterwards"), tr(DELETE_HINT if ours else THEIRS)
    imgui.begin_disabled(not ours)
    form.delete_source = toggle(ui, f"{name}.delete", words, form.delete_source, hint)
    imgui.end_disabled()
    if primary_button(ui, f"{name}.go", tr("Add to the queue")):
        imgui.close_current_popup()
        return form
    return None
