"""Tool servers in the panel of tools: a list, what starting one would run, and a form."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ServerSpec
from llm_lite.core.tools.commands import split_command
from llm_lite.core.tools.declared import NAME
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tools.model import (
    RemoveServer,
    SetServer,
    StartServer,
    StopServer,
)
from llm_lite.desktop.features.tools.state import MOST_SERVERS, MOST_VARIABLES, ToolServer
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.controls import slider
from llm_lite.desktop.widgets.icons import ICON_EDIT, ICON_NEW, ICON_TRASH, ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    icon_button,
    primary_button,
    text,
    wrapped,
)

NOTE = mark(
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
ASKED, FORM = "tools.asked", "tools.form"  # in the memory


def draw_servers(state: AppState, ui: Ui) -> list[Action]:
    if FORM in ui.memory:
        return _draw_form(state, ui)
    wrapped(ui, tr(NOTE))
    actions: list[Action] = []
    for server in state.tools.servers:
        actions += _draw_server(server, ui)
    if button(ui, "tools.new", tr("Add a server"), ICON_NEW):
        ui.memory[FORM] = {"environment": ""}
    return actions


def _draw_server(server: ToolServer, ui: Ui) -> list[Action]:
    actions: list[Action] = []
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
            ui.memory[ASKED] = spec.name
    imgui.same_line(0, ui.u(1))
    hint = tr("Change the command")
    if not running and icon_button(ui, f"{name}.edit", ICON_EDIT, hint, side=side):
        ui.memory[FORM] = _form_of(spec)
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
    if ui.memory.get(ASKED) == spec.name and not running:
        actions += _draw_asked(spec, ui)
    return actions


def _status(server: ToolServer) -> str:
    words = tr(STATES[server.status])
    if server.status != "on":
        return words
    count = len(server.tools)
    functions = trn("{n} function", "{n} functions", count).format(n=count)
    return f"{words}, {functions}"


def _draw_asked(spec: ServerSpec, ui: Ui) -> list[Action]:
    """The command, argument by argument: what a line looks like may mislead."""
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
        ui.memory.pop(ASKED, None)
    imgui.same_line()
    if button(ui, "tools.start_not", tr("Do not start")):
        ui.memory.pop(ASKED, None)
    imgui.dummy(ImVec2(0, ui.u(1)))
    return actions


def _form_of(spec: ServerSpec) -> dict[str, object]:
    return {
        "old": spec.name,
        "name": spec.name,
        "command": spec.command,
        "environment": "\n".join(f"{name}={value}" for name, value in spec.environment),
        "start": spec.start_seconds,
        "call": spec.call_seconds,
    }


def _draw_form(state: AppState, ui: Ui) -> list[Action]:
    form = ui.memory[FORM]
    width = imgui.get_content_region_avail().x
    for field, label in (("name", tr("Name")), ("command", tr("Command, with its arguments"))):
        key = f"tools.form.{field}"
        ui.memory.setdefault(key, form.get(field, ""))
        form[field] = input_line(ui, key, label, width)
    wrapped(ui, tr("Environment, a line for each variable"))
    size = ImVec2(width, ui.u(12))
    with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font("mono", "small"):
        words = str(form["environment"])
        _, words = imgui.input_text_multiline("##tools.form.environment", words, size)
    form["environment"] = words[:LONGEST_LINES]
    ui.mark("tools.form.environment")
    bounds = (1.0, 300.0)
    for field, label, usual in (
        ("start", tr("Time to start, at most"), 10.0),
        ("call", tr("Time of a call, at most"), 30.0),
    ):
        value = float(form.get(field, usual))
        form[field] = slider(
            ui, f"tools.form.{field}", label, value, bounds, fmt="%.0f s", log=True
        )
    spec, problem = read_form(form, state)
    if problem and form["command"]:
        wrapped(ui, f"{ICON_WARNING}  {problem}", "warning")
    actions: list[Action] = []
    label = tr("Save") if form.get("old") else tr("Add")
    if primary_button(ui, "tools.form.save", label, enabled=spec is not None) and spec:
        old = str(form.get("old") or spec.name)
        actions += [RemoveServer(old)] if old != spec.name else []
        actions.append(SetServer(spec))
        _close_form(ui)
    imgui.same_line()
    if button(ui, "tools.form.cancel", tr("Cancel")):
        _close_form(ui)
    return actions


def _close_form(ui: Ui) -> None:
    for key in [key for key in ui.memory if key.startswith(FORM)]:
        del ui.memory[key]


def read_form(form: dict[str, object], state: AppState) -> tuple[ServerSpec | None, str]:
    """What is typed as a server, or why it is none yet."""
    name, command = str(form.get("name", "")), str(form.get("command", ""))
    if not NAME.fullmatch(name):
        return None, tr("A name has 1 to 64 letters, digits, _, . or -.")
    if name != form.get("old") and state.tools.server(name) is not None:
        return None, tr("There is a server of this name.")
    if not form.get("old") and len(state.tools.servers) >= MOST_SERVERS:
        return None, tr("There are {most} servers already.").format(most=MOST_SERVERS)
    try:
        split_command(command)
    except RequestError as error:
        return None, str(error)
    variables = []
    for number, line in enumerate(str(form.get("environment", "")).splitlines(), 1):
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
    start, call = float(str(form.get("start", 10.0))), float(str(form.get("call", 30.0)))
    return ServerSpec(name, command, tuple(variables), start, call), ""


def input_line(ui: Ui, name: str, label: str, width: float) -> str:
    """A line to type in, which stays in the memory; without whitespace around."""
    imgui.set_next_item_width(width)
    _, typed = imgui.input_text_with_hint(f"##{name}", label, ui.memory.get(name, ""))
    ui.mark(name)
    ui.memory[name] = typed = typed[:LONGEST]
    return typed.strip()
