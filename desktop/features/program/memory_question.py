"""The question before a model is loaded that would take more memory than there is."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import EngineOptions, LoadNeedsMemory
from llm_lite.core.messages.library import Fit
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import AnswerMemory
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import short_name, size
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, primary_button, text, wrapped

POPUP = "memory question"
WIDTH = 110.0  # in spacing units
_WHY = mark(
    "Loading it would leave other programs without memory, and this computer would slow down or "
    "end one of them."
)
_NOTHING = mark(
    "Nothing smaller of this model fits. Close other programs, or choose a smaller model."
)
_ANYWAY = mark("What does not fit is moved to the disk and back, if the system can do that.")
_FLAGS = imgui.WindowFlags_.no_move | imgui.WindowFlags_.no_title_bar | imgui.WindowFlags_.no_resize


def draw(state: AppState, ui: Ui) -> list[Action]:
    asked = state.memory_question
    if asked is None:
        return []
    if not imgui.is_popup_open(POPUP):
        imgui.open_popup(POPUP)
    screen, edge = imgui.get_main_viewport().size, ui.u(4)
    width = min(ui.u(WIDTH), screen.x - 2 * edge)
    middle = ImVec2(round(screen.x / 2), round(screen.y * 0.45))
    imgui.set_next_window_pos(middle, imgui.Cond_.always, ImVec2(0.5, 0.5))
    imgui.set_next_window_size(ImVec2(width, 0))
    with ui.styled(window_padding=(ui.u(5), ui.u(5))), ui.colored(border="faint"):
        shown = imgui.begin_popup_modal(POPUP, None, _FLAGS)[0]
    if not shown:
        return []
    try:
        return _draw_inside(state, asked, ui)
    finally:
        low, found = imgui.get_window_pos(), imgui.get_window_size()
        ui.rects[POPUP] = (low.x, low.y, low.x + found.x, low.y + found.y)
        imgui.end_popup()


def _draw_inside(state: AppState, asked: LoadNeedsMemory, ui: Ui) -> list[Action]:
    from llm_lite.desktop.features.library.fit_bar import draw_fit  # not before somebody is asked

    text(ui, tr("Not enough memory for {name}").format(name=_name(state, asked)), bold=True)
    wrapped(ui, tr(_WHY))
    imgui.spacing()
    draw_fit(ui, replace(asked.fit, instead=""))
    imgui.spacing()
    options = asked.options
    for number, other in enumerate(asked.others):
        label = _label(asked.fit, other)
        press = primary_button if number == 0 else button
        if press(ui, f"memory.other.{number}", label):
            return _answer(replace(options, mode=other.mode, context=other.context))
    if not asked.others:
        wrapped(ui, tr(_NOTHING), "muted")
    imgui.spacing()
    if button(ui, "memory.cancel", tr("Cancel")) or imgui.is_key_pressed(imgui.Key.escape, False):
        return _answer(None)
    imgui.same_line()
    if button(ui, "memory.anyway", tr("Load anyway"), hint=tr(_ANYWAY)):
        return _answer(replace(options, force=True))
    return []


def _answer(options: EngineOptions | None) -> list[Action]:
    imgui.close_current_popup()
    return [AnswerMemory(options)]


def _name(state: AppState, asked: LoadNeedsMemory) -> str:
    if not asked.in_use:
        return short_name(asked.source) if asked.source else tr("the default model")
    return state.model.name if state.model else tr("the model")


def _label(asked: Fit, other: Fit) -> str:
    taken = size(sum(part.host + part.device for part in other.parts))
    if other.mode == asked.mode:
        words = tr("Load with a context of {n:,} tokens  ({size})")
    elif other.context == asked.context:
        words = tr("Load in {mode}  ({size})")
    else:
        words = tr("Load in {mode}, with a context of {n:,} tokens  ({size})")
    return words.format(mode=other.mode, n=other.context, size=taken)
