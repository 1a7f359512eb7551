"""The panel that serves the model: what to switch on, or what is on."""

from __future__ import annotations

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.serving.running import draw_running
from llm_lite.desktop.views.serving.setup import draw_setup
from llm_lite.desktop.widgets.icons import ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import wrapped

NOTE = mark(
    "Editors, notebooks, scripts and a browser ask the model that is loaded here, by OpenAI's "
    "protocol, while you go on chatting."
)
STARTING, STOPPING = mark("Starting the server…"), mark("Stopping the server…")


def draw(state: AppState, ui: Ui) -> list[Action]:
    serving = state.serving
    if serving.phase == "on":
        return draw_running(state, ui)
    wrapped(ui, tr(NOTE))
    if serving.problem:
        wrapped(ui, f"{ICON_WARNING}  {_sentence(serving.problem)}", "warning")
        ui.mark("serving.problem")
    if serving.phase == "off":
        return draw_setup(state, ui)
    wrapped(ui, tr(STARTING if serving.phase == "starting" else STOPPING), "text")
    return []


def _sentence(problem: str) -> str:
    words = problem[:1].upper() + problem[1:]
    return words if words.endswith(".") else f"{words}."
