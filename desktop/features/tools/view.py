"""The panel of tools: what the model is offered, functions that a person declares, tool servers."""

from __future__ import annotations

import shlex

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ServerSpec
from llm_lite.core.tools.commands import split_command
from llm_lite.core.tools.declared import NAME
from llm_lite.desktop.features.file_chooser.path_field import path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tools.model import (
    ImportFunctions,
    OfferTool,
    RemoveServer,
    SetFunctions,
    SetServer,
    StartServer,
    StopServer,
)
from llm_lite.desktop.features.tools.state import (
    DECLARED,
    MOST_SERVERS,
    MOST_VARIABLES,
    ToolServer,
    chosen,
    size_of,
    sources,
)
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.controls import chooser, slider, toggle
from llm_lite.desktop.widgets.icons import ICON_EDIT, ICON_NEW, ICON_TRASH, ICON_WARNING
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    icon_button,
    primary_button,
    text,
    tip,
    wrapped,
)

SERVERS = mark(
    "Programs that offer functions over MCP, the Model Context Protocol, on their standard input "
    "and output. One runs only after you have seen its command."
)
ASK = mark("Start this program? It can do all that you can do on this machine.")
STATES = {
    "off": mark("off"),
    "starting": mark("starting"),
    "on": mark("running"),
    "ended": mark("ended"),
}
LONGEST = 4096  # characters of a line
LONGEST_LINES = 16_384  # characters of an environment


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
TABS = (("offer", mark("Offered")), ("declare", mark("Declare")), ("servers", mark("Servers")))
HIDDEN = mark("Another function of this name is offered before it.")


class ServerForm(Struct):
    """A tool server as it is typed; `old` is the name of the one that is changed."""

    old: str = ""
    name: str = ""
    command: str = ""
    environment: str = ""  # a line for each variable
    start: float = 10.0  # seconds
    call: float = 30.0


class ToolControls(Struct):
    """Values that the panel keeps from frame to frame."""

    tab: str = "offer"
    path: str = ""  # typed, of a file of functions
    to_start: str = ""  # the server whose command is shown before it starts
    form: ServerForm | None = None


def draw(state: AppState, ui: Ui) -> list[Action]:
    wrapped(ui, tr(NOTE))
    _draw_model(state, ui)
    tabs = [(tab, tr(label)) for tab, label in TABS]
    controls = ui.local(ToolControls)
    tab = controls.tab = chooser(ui, "tools.tab", tabs, controls.tab)
    if tab == "declare":
        return _draw_declared(state, ui)
    return draw_servers(state, ui) if tab == "servers" else _draw_offers(state, ui)


def model_note(state: AppState) -> str:
    """Return a sentence that says whether the model in use is offered anything."""
    if state.model is None:
        return tr(NO_MODEL)
    name = state.model.name
    if state.knows_tools:
        return tr(KNOWS).format(model=name)
    return tr(UNREAD if state.model.tool_style == "unknown" else KNOWS_NOT).format(model=name)


def _draw_model(state: AppState, ui: Ui) -> None:
    bad = state.model is not None and not state.knows_tools
    words = model_note(state)
    wrapped(ui, f"{ICON_WARNING}  {words}" if bad else words, "warning" if bad else "text")
    ui.mark("tools.model")


def _draw_offers(state: AppState, ui: Ui) -> list[Action]:
    """Draw a switch for each function, and how much of the prompt they take."""
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
    specs = state.offered_tools
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
        changed, words = lines_field("##tools.text", tools.text, size)
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
    controls = ui.local(ToolControls)
    target, hint = PathTarget("tools.path", "tools", ("*.json",)), tr("Path of a JSON file")
    typed = path_field(ui, target, controls.path, ("file",), hint, room)
    controls.path, path = typed.path, typed.path.strip()
    actions += typed.actions
    imgui.same_line()
    if button(ui, "tools.import", tr("Import"), enabled=bool(path)):
        actions.append(ImportFunctions(path))
    tip(ui, tr("Read functions from this file; they replace those above"))
    return actions


def _sentence(problem: str) -> str:
    return problem[:1].upper() + problem[1:] + "."


def draw_servers(state: AppState, ui: Ui) -> list[Action]:
    controls = ui.local(ToolControls)
    if controls.form is not None:
        return _draw_form(state, ui, controls.form)
    wrapped(ui, tr(SERVERS))
    actions: list[Action] = []
    for server in state.tools.servers:
        actions += _draw_server(server, ui)
    if button(ui, "tools.new", tr("Add a server"), ICON_NEW):
        controls.form = ServerForm()
    return actions


def _draw_server(server: ToolServer, ui: Ui) -> list[Action]:
    actions, controls = list[Action](), ui.local(ToolControls)
    spec, name = server.spec, f"tools.server.{server.spec.name}"
    side = ui.u(7)
    right = ui.right(side * 2 + ui.u(26))
    imgui.align_text_to_frame_padding()
    text(ui, fit(spec.name, ui.u(34)), bold=True)
    imgui.same_line(0, ui.u(2))
    text(ui, _status(server), "warning" if server.status == "ended" else "muted", "small")
    imgui.same_line(right)
    running = server.status in ("starting", "on")
    if running:
        if button(ui, f"{name}.stop", tr("Stop"), width=ui.u(22)):
            actions.append(StopServer(spec.name))
    else:
        label = tr("Start again") if server.status == "ended" else tr("Start")
        if button(ui, f"{name}.start", label, width=ui.u(22)):
            controls.to_start = spec.name
    imgui.same_line(0, ui.u(1))
    hint = tr("Change the command")
    if not running and icon_button(ui, f"{name}.edit", ICON_EDIT, hint, side=side):
        controls.form = _form_of(spec)
    elif running:
        imgui.dummy(ImVec2(side, side))
    imgui.same_line(0, ui.u(1))
    if icon_button(ui, f"{name}.remove", ICON_TRASH, tr("Remove the server"), side=side):
        actions.append(RemoveServer(spec.name))
    if server.problem:
        words = fit_line(server.problem, 300)
        sentence = words[:1].upper() + words[1:]
        wrapped(ui, f"{ICON_WARNING}  {sentence}.", "warning")
        ui.mark(f"{name}.problem")
    if controls.to_start == spec.name and not running:
        actions += _draw_question(spec, ui)
    return actions


def _status(server: ToolServer) -> str:
    words = tr(STATES[server.status])
    if server.status != "on":
        return words
    count = len(server.tools)
    functions = trn("{n} function", "{n} functions", count).format(n=count)
    return f"{words}, {functions}"


def _draw_question(spec: ServerSpec, ui: Ui) -> list[Action]:
    """Draw the command, argument by argument, and ask whether to start it."""
    wrapped(ui, tr(ASK), "text")
    try:
        parts, problem = split_command(spec.command), ""
    except RequestError as error:
        parts, problem = [], str(error)
    with ui.font("mono", "small"):
        imgui.push_text_wrap_pos(0.0)
        for number, part in enumerate(parts):
            imgui.text_unformatted(f"{'   ' if number else ''}{fit_line(part, 1000)}")
        for variable, value in spec.environment:
            imgui.text_unformatted(fit_line(f"{variable}={value}", 1000))
        imgui.pop_text_wrap_pos()
    if problem:
        wrapped(ui, f"{ICON_WARNING}  {problem}", "warning")
    actions: list[Action] = []
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if primary_button(ui, "tools.start", tr("Start it"), enabled=bool(parts)):
        actions.append(StartServer(spec.name))
        ui.local(ToolControls).to_start = ""
    imgui.same_line()
    if button(ui, "tools.start_not", tr("Do not start")):
        ui.local(ToolControls).to_start = ""
    imgui.dummy(ImVec2(0, ui.u(1)))
    return actions


def _form_of(spec: ServerSpec) -> ServerForm:
    variables = "\n".join(f"{name}={value}" for name, value in spec.environment)
    return ServerForm(
        spec.name, spec.name, spec.command, variables, spec.start_seconds, spec.call_seconds
    )


def with_file(command: str, path: str) -> str:
    """Return a command with one more argument, the path of a file that was chosen."""
    return " ".join(filter(None, (command.strip(), shlex.quote(path))))


def _draw_form(state: AppState, ui: Ui, form: ServerForm) -> list[Action]:
    width = imgui.get_content_region_avail().x
    form.name = _input_line(ui, "tools.form.name", tr("Name"), form.name, width)
    command = tr("Command, with its arguments")
    target = PathTarget("tools.form.command", "tools")
    typed = path_field(ui, target, form.command, ("file",), command, width)
    chosen = with_file(form.command, typed.path)
    form.command = (chosen if typed.is_chosen else typed.path)[:LONGEST]
    wrapped(ui, tr("Environment, a line for each variable"))
    size = ImVec2(width, ui.u(12))
    with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font("mono", "small"):
        _, words = lines_field("##tools.form.environment", form.environment, size)
    form.environment = words[:LONGEST_LINES]
    ui.mark("tools.form.environment")
    for name, label in (
        ("start", tr("Time to start, at most")),
        ("call", tr("Time of a call, at most")),
    ):
        seconds = slider(
            ui,
            f"tools.form.{name}",
            label,
            getattr(form, name),
            (1.0, 300.0),
            fmt="%.0f s",
            log=True,
        )
        setattr(form, name, seconds)
    spec, problem = read_form(form, state)
    if problem and form.command.strip():
        wrapped(ui, f"{ICON_WARNING}  {problem}", "warning")
    actions = typed.actions
    label = tr("Save") if form.old else tr("Add")
    if primary_button(ui, "tools.form.save", label, enabled=spec is not None) and spec:
        old = form.old or spec.name
        actions += [RemoveServer(old)] if old != spec.name else []
        actions.append(SetServer(spec))
        ui.local(ToolControls).form = None
    imgui.same_line()
    if button(ui, "tools.form.cancel", tr("Cancel")):
        ui.local(ToolControls).form = None
    return actions


def read_form(form: ServerForm, state: AppState) -> tuple[ServerSpec | None, str]:
    """Return the server that is typed, or why it is none yet."""
    name, command = form.name.strip(), form.command.strip()
    if not NAME.fullmatch(name):
        return None, tr("A name has letters, digits, _, . or -.")
    if name != form.old and state.tools.server(name) is not None:
        return None, tr("There is a server of this name.")
    if not form.old and len(state.tools.servers) >= MOST_SERVERS:
        return None, tr("There are {most} servers already.").format(most=MOST_SERVERS)
    try:
        split_command(command)
    except RequestError as error:
        return None, str(error)
    variables = []
    for number, line in enumerate(form.environment.splitlines(), 1):
        variable, mark_, value = line.partition("=")
        if not line.strip():
            continue
        if not mark_ or not variable.strip() or "\0" in line:
            problem = tr("Environment, line {n}: expected NAME=value.")
            return None, problem.format(n=number)
        variables.append((variable.strip(), value))
    if len(variables) > MOST_VARIABLES:
        problem = tr("The environment has {n} variables, at most {most}.")
        return None, problem.format(n=len(variables), most=MOST_VARIABLES)
    return ServerSpec(name, command, tuple(variables), form.start, form.call), ""


def _input_line(ui: Ui, name: str, label: str, typed: str, width: float) -> str:
    imgui.set_next_item_width(width)
    _, typed = imgui.input_text_with_hint(f"##{name}", label, typed)
    ui.mark(name)
    return typed[:LONGEST]
