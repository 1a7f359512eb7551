"""What a person does with functions and tool servers. Files and processes are the program's part
(`desktop.app.tools`), which tells of them in actions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import ServerSpec, ToolSpec
from llm_lite.core.records import replace
from llm_lite.core.tools.declared import read_functions
from llm_lite.core.tools.json_values import JsonProblem
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tools.state import (
    DECLARED,
    LONGEST_DECLARED,
    MOST_OFFERED,
    ServerStatus,
    ToolServer,
    ToolsState,
    chosen,
    size_of,
    sources,
    without_approvals,
)
from llm_lite.desktop.language.incoming import fit_line, typed
from llm_lite.desktop.language.translate import tr


class SetFunctions(Action, frozen=True):
    """The text of the functions that a person declares."""

    text: str


class ImportFunctions(Action, frozen=True):
    path: str


class OfferTool(Action, frozen=True):
    """Whether the model is told of a function."""

    source: str
    name: str
    on: bool


class SetServer(Action, frozen=True):
    """A tool server, in the place of one of its name."""

    spec: ServerSpec


class RemoveServer(Action, frozen=True):
    name: str


class StartServer(Action, frozen=True):
    """Run its program: a person has seen the command and wants it."""

    name: str


class StopServer(Action, frozen=True):
    name: str


class TellServer(Action, frozen=True):
    """What became of a server."""

    name: str
    status: ServerStatus
    tools: tuple[ToolSpec, ...] = ()
    problem: str = ""


class TellTools(Action, frozen=True):
    """What is kept on the disk."""

    text: str
    servers: tuple[ServerSpec, ...]


ToolHostAction = StartServer | StopServer | RemoveServer | ImportFunctions


def _set_functions(action: SetFunctions, state: AppState, now: float) -> Result:
    return replace(state, tools=with_text(state.tools, action.text)), ()


def with_text(tools: ToolsState, text: str) -> ToolsState:
    """While the text cannot be read, the functions are those of before. New ones are switched on:
    a person has just written them."""
    text = typed(text)[:LONGEST_DECLARED]
    try:
        functions = read_functions(text)
    except JsonProblem as problem:
        return replace(tools, text=text, problem=fit_line(str(problem), 300))
    before = {spec.name for spec in tools.functions}
    fresh = {(DECLARED, spec.name) for spec in functions if spec.name not in before}
    names = {spec.name for spec in functions}
    kept = {one for one in tools.on if one[0] != DECLARED or one[1] in names}
    changed = replace(tools, text=text, functions=functions, problem="")
    return _with_on(changed, kept, fresh)


def _with_on(
    tools: ToolsState, kept: set[tuple[str, str]], fresh: set[tuple[str, str]]
) -> ToolsState:
    """With as many of the fresh ones switched on as there is room for."""
    on = replace(tools, on=frozenset(kept))
    for source, spec in sources(tools):
        if (source, spec.name) in fresh:
            more = replace(on, on=on.on | {(source, spec.name)})
            on = more if _size(more) <= MOST_OFFERED else on
    return on


def _size(tools: ToolsState) -> int:
    return size_of(tuple(spec for _, spec in chosen(tools)))


def _offer(action: OfferTool, state: AppState, now: float) -> Result:
    one, tools = (action.source, action.name), state.tools
    changed = replace(tools, on=tools.on | {one} if action.on else tools.on - {one})
    if action.on and _size(changed) > MOST_OFFERED:
        problem = tr("All functions together have more than {most} characters.")
        return notify(state, "warning", problem.format(most=f"{MOST_OFFERED:,}"), now), ()
    return replace(state, tools=changed), ()


def _set_server(action: SetServer, state: AppState, now: float) -> Result:
    tools, name = state.tools, action.spec.name
    if tools.server(name) is None:
        servers = (*tools.servers, ToolServer(action.spec))
        return replace(state, tools=replace(tools, servers=servers)), ()
    tools = without_approvals(tools, name).with_server(name, spec=action.spec)
    return replace(state, tools=tools), ()


def _remove_server(action: RemoveServer, state: AppState, now: float) -> Result:
    left = tuple(s for s in state.tools.servers if s.spec.name != action.name)
    on = frozenset(one for one in state.tools.on if one[0] != action.name)
    tools = without_approvals(state.tools, action.name)
    return replace(state, tools=replace(tools, servers=left, on=on)), ()


def _start_server(action: StartServer, state: AppState, now: float) -> Result:
    tools = without_approvals(state.tools, action.name)
    tools = tools.with_server(action.name, status="starting", problem="", tools=())
    return replace(state, tools=tools), ()


def _stop_server(action: StopServer, state: AppState, now: float) -> Result:
    return state, ()  # it tells when it has ended


def _tell_server(action: TellServer, state: AppState, now: float) -> Result:
    tools = state.tools
    if tools.server(action.name) is None:
        return state, ()
    tools = tools.with_server(
        action.name, status=action.status, tools=action.tools, problem=action.problem
    )
    if action.status == "on":
        fresh = {(action.name, spec.name) for spec in action.tools}
        tools = _with_on(tools, set(tools.on), fresh)
    state = replace(state, tools=tools)
    if action.status == "ended" and action.problem:
        problem = f"{action.name}: {action.problem}"
        return notify(state, "warning", fit_line(problem), now), ()
    return state, ()


def _tell_tools(action: TellTools, state: AppState, now: float) -> Result:
    tools = with_text(replace(state.tools, on=frozenset()), action.text)
    servers = tuple(ToolServer(spec) for spec in action.servers)
    # What was kept is offered when a person switches it on.
    return replace(state, tools=replace(tools, servers=servers, on=frozenset())), ()


def _leave_to_the_program(action: ImportFunctions, state: AppState, now: float) -> Result:
    return state, ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetFunctions: _set_functions,
    ImportFunctions: _leave_to_the_program,
    OfferTool: _offer,
    SetServer: _set_server,
    RemoveServer: _remove_server,
    StartServer: _start_server,
    StopServer: _stop_server,
    TellServer: _tell_server,
    TellTools: _tell_tools,
}
