"""The panel that serves the model: what to switch on, or what is on."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.model import SetServing, SwitchServing
from llm_lite.desktop.features.serving.running import draw_running
from llm_lite.desktop.features.serving.state import (
    LONGEST_NAMES,
    MOST_PARALLEL,
    PORTS,
    Reach,
    ServingChoice,
)
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.widgets.controls import chooser, slider, toggle
from llm_lite.desktop.widgets.icons import ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import help_mark, primary_button, text, tip, wrapped

REACHES: tuple[tuple[Reach, str], ...] = (
    ("machine", mark("This machine only")), ("network", mark("The network, with a key")),
)  # fmt: skip
REACH_HINTS = (
    mark("Programs on this machine"),
    mark("Programs on other machines that reach this one, if they have the key"),
)
OPEN = mark(
    "Questions and answers cross the network unencrypted. Choose this only in a "
    "network that you trust."
)
PORT_HINT = mark("TCP port; 8080 where no other program has it")
PARALLEL_HINT = mark(
    "Requests that are answered together; more of them wait. Each takes its share of the memory "
    "for its context."
)
NAMES_HINT = mark(
    "Names by which a proxy or a browser calls the server beside its own, apart by spaces. "
    "Requests under any other name are refused."
)
KEY_HINT = mark(
    "With a key, other users of this machine can neither ask the model nor read your "
    "conversations on the page"
)
HISTORY_HINT = mark(
    "Everyone with the key can then read and change them. Otherwise the page "
    "keeps its own conversations."
)
START_HINT = mark("Off: the server is started by hand")


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


def draw_setup(state: AppState, ui: Ui) -> list[Action]:
    choice = state.serving.choice
    text(ui, tr("Who may ask"), style="small")
    hints = [*map(tr, REACH_HINTS)]
    changed = replace(
        choice, reach=chooser(ui, "serving.reach", tr_labels(REACHES), choice.reach, hints)
    )
    if choice.reach == "network":
        wrapped(ui, f"{ICON_WARNING}  {tr(OPEN)}", "warning")
    changed = replace(changed, port=_draw_port(choice, ui))
    shown = trn("{n} answer", "{n} answers", choice.parallel).format(n=choice.parallel)
    parallel = slider(
        ui, "serving.parallel", tr("Concurrent requests"), choice.parallel, (1, MOST_PARALLEL),
        hint=tr(PARALLEL_HINT), whole=True, shown=shown,
    )  # fmt: skip
    changed = replace(changed, parallel=int(parallel), names=_draw_names(choice, ui))
    if choice.reach == "machine":
        asks = toggle(ui, "serving.key", tr("Require a key"), choice.asks_key, tr(KEY_HINT))
        changed = replace(changed, asks_key=asks)
    else:
        label, shares = tr("The page has your conversations"), choice.shares_history
        shares = toggle(ui, "serving.history", label, shares, tr(HISTORY_HINT))
        changed = replace(changed, shares_history=shares)
    label, hint = tr("Start it when the window opens"), tr(START_HINT)
    changed = replace(changed, at_start=toggle(ui, "serving.start", label, choice.at_start, hint))
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    actions: list[Action] = [SetServing(changed)] if changed != choice else []
    if primary_button(ui, "serving.on", tr("Start serving")):
        actions.append(SwitchServing(True))
    if state.model is None:
        wrapped(ui, tr("No model is loaded yet: requests are refused until one is."))
    return actions


def _draw_names(choice: ServingChoice, ui: Ui) -> str:
    text(ui, tr("Other names"), style="small")
    tip(ui, tr(NAMES_HINT))
    help_mark(ui, tr(NAMES_HINT))
    imgui.set_next_item_width(-1)
    _, names = imgui.input_text_with_hint("##serving.names", "llm.example.org", choice.names)
    ui.mark("serving.names")
    if choice.wrong_name:
        words = tr("{word} is no name of a machine.").format(word=fit_line(choice.wrong_name, 60))
        wrapped(ui, f"{ICON_WARNING}  {words}", "warning")
        ui.mark("serving.names.wrong")
    return names[:LONGEST_NAMES]


def _draw_port(choice: ServingChoice, ui: Ui) -> int:
    imgui.align_text_to_frame_padding()
    text(ui, tr("Port"), style="small")
    tip(ui, tr(PORT_HINT))
    help_mark(ui, tr(PORT_HINT))
    width = ui.u(26)
    imgui.same_line(ui.right(width))
    imgui.set_next_item_width(width)
    _, port = imgui.input_int("##serving.port", choice.port, 0, 0)
    ui.mark("serving.port")
    return min(max(port, PORTS[0]), PORTS[1])
