"""The panel of tools: what the model is offered, functions that a person declares, tool servers."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.chat.rounds import knows_tools, offered
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tools.model import ImportFunctions, OfferTool, SetFunctions
from llm_lite.desktop.features.tools.servers import draw_servers, input_line
from llm_lite.desktop.features.tools.state import DECLARED, chosen, size_of, sources
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.controls import chooser, toggle
from llm_lite.desktop.widgets.icons import ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, tip, wrapped

EXAMPLE = """[
  {
    "name": "get_weather",
    "description": "The weather in a city, now.",
    "parameters": {
      "type": "object",
      "properties": {
        "city": {"type": "string"},
        "unit": {
          "type": "string",
          "enum": ["celsius", "fahrenheit"]
        }
      },
      "required": ["city"]
    }
  }
]
"""
NOTE = mark(
    "Functions that the model may ask for. Each call asks you first: a server runs it, you answer "
    "it by hand, or you refuse."
)
DECLARE = mark(
    "A list of functions with a name, a description and parameters as a JSON schema, as OpenAI's "
    "interface takes them. You answer their calls by hand."
)
NO_MODEL = mark("No model is loaded. What is switched on is offered to one that knows functions.")
KNOWS = mark("{model} knows functions: what is switched on here is offered to it.")
KNOWS_NOT = mark(
    "{model} knows no functions: its chat template has no place for them. Nothing is offered to it."
)
UNREAD = mark(
    "{model} is made for functions, but marks its calls in a way that this program cannot read. "
    "Nothing is offered to it."
)
NOTHING = mark(
    "There are no functions yet. Declare some, or add a tool server and start it: they appear here."
)
TAB = "tools.tab"
TABS = (("offer", mark("Offered")), ("declare", mark("Declare")), ("servers", mark("Servers")))
HIDDEN = mark("Another function of this name is offered before it.")


def draw(state: AppState, ui: Ui) -> list[Action]:
    wrapped(ui, tr(NOTE))
    _draw_model(state, ui)
    tabs = [(tab, tr(label)) for tab, label in TABS]
    tab = ui.memory[TAB] = chooser(ui, TAB, tabs, ui.memory.get(TAB, "offer"))
    if tab == "declare":
        return _draw_declared(state, ui)
    return draw_servers(state, ui) if tab == "servers" else _draw_offers(state, ui)


def model_note(state: AppState) -> str:
    """Whether the model in use is offered anything, as a sentence."""
    if state.model is None:
        return tr(NO_MODEL)
    name = state.model.name
    if knows_tools(state):
        return tr(KNOWS).format(model=name)
    return tr(UNREAD if state.model.tool_style == "unknown" else KNOWS_NOT).format(model=name)


def _draw_model(state: AppState, ui: Ui) -> None:
    bad = state.model is not None and not knows_tools(state)
    words = model_note(state)
    wrapped(ui, f"{ICON_WARNING}  {words}" if bad else words, "warning" if bad else "text")
    ui.mark("tools.model")


def _draw_offers(state: AppState, ui: Ui) -> list[Action]:
    """A switch for each function there is, and what all take of the prompt."""
    actions: list[Action] = []
    found = sources(state.tools)
    if not found:
        wrapped(ui, tr(NOTHING))
    shown = {(source, spec.name) for source, spec in chosen(state.tools)}
    before = None
    for source, spec in found:
        if source != before:
            imgui.dummy(ImVec2(0, ui.u(0.5)))
            label = tr("Declared by you") if source == DECLARED else source
            wrapped(ui, label)
            before = source
        one = (source, spec.name)
        hint = fit_line(spec.description, 600)
        if one in state.tools.on and one not in shown:
            hint = tr(HIDDEN)
        now = toggle(ui, f"tools.on.{source}.{spec.name}", spec.name, one in state.tools.on, hint)
        if now != (one in state.tools.on):
            actions.append(OfferTool(source, spec.name, now))
    specs = offered(state)
    if specs:
        size = size_of(specs)
        words = trn("{n} function is offered", "{n} functions are offered", len(specs))
        room = tr("about {n} tokens of each prompt").format(n=f"{max(1, size // 4):,}")
        wrapped(ui, f"{words.format(n=len(specs))}  ·  {room}")
    return actions


def _draw_declared(state: AppState, ui: Ui) -> list[Action]:
    wrapped(ui, tr(DECLARE))
    tools, actions = state.tools, list[Action]()
    width = imgui.get_content_region_avail().x
    with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font("mono", "small"):
        height = ui.u(44) if tools.text else ui.u(16)
        size = ImVec2(width, height)
        changed, words = imgui.input_text_multiline("##tools.text", tools.text, size)
    ui.mark("tools.text")
    escaped = imgui.is_key_pressed(imgui.Key.escape, False)  # closes; must not restore the text
    if changed and not escaped:
        actions.append(SetFunctions(words))
    if tools.problem:
        wrapped(ui, f"{ICON_WARNING}  {_sentence(tools.problem)}", "warning")
        ui.mark("tools.problem")
    if button(ui, "tools.example", tr("Example"), enabled=not tools.text.strip()):
        actions.append(SetFunctions(EXAMPLE))
    imgui.same_line()
    clear = tr("Remove all declared functions")
    if button(ui, "tools.clear", tr("Clear"), hint=clear, enabled=bool(tools.text)):
        actions.append(SetFunctions(""))
    imgui.same_line()
    room = imgui.get_content_region_avail().x - ui.u(22)
    path = input_line(ui, "tools.path", tr("Path of a JSON file"), room)
    imgui.same_line()
    if button(ui, "tools.import", tr("Import"), enabled=bool(path)):
        actions.append(ImportFunctions(path))
    tip(ui, tr("Read functions from this file; they replace those above"))
    return actions


def _sentence(problem: str) -> str:
    return problem[:1].upper() + problem[1:] + "."
