"""Actions on functions, tool servers, and the calls of an answer.

Files and processes belong to the host, which reports on them by actions too. Each call of an answer
asks the person. Once all of them have a result, these become messages, and the model goes on; after
some rounds only when a person says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import ServerSpec, ToolSpec
from llm_lite.core.records import replace
from llm_lite.core.tools.arguments import problems_of
from llm_lite.core.tools.declared import read_functions
from llm_lite.core.tools.json_values import JsonProblem
from llm_lite.desktop.features.chat.reading import (
    calls_of,
    is_allowed,
    may_go_on,
    round_of,
    source_of,
    waiting,
)
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    obstacle,
    request_answer,
    with_message,
)
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tools.state import (
    DECLARED,
    LONGEST_DECLARED,
    MOST_OFFERED,
    AnsweredCall,
    Approval,
    CallRound,
    RunningCall,
    ServerStatus,
    ToolReply,
    ToolServer,
    ToolsState,
    chosen,
    size_of,
    sources,
    without_approvals,
)
from llm_lite.desktop.language.incoming import fit_line, typed
from llm_lite.desktop.language.translate import tr

# The model reads this: it is in the language of its template, not of the window.
REFUSED = "The user refused this call."


class SetFunctions(Action, frozen=True):
    """Set the text of the functions that a person declares."""

    text: str


class ImportFunctions(HostAction, frozen=True):
    path: str


class OfferTool(Action, frozen=True):
    """Offer a function to the model, or do not."""

    source: str
    name: str
    on: bool


class SetServer(Action, frozen=True):
    """Add a tool server, or replace the one of its name."""

    spec: ServerSpec


class RemoveServer(Action, frozen=True):
    name: str


class StartServer(Action, frozen=True):
    """Run a server's program: a person has seen the command and confirmed it."""

    name: str


class StopServer(HostAction, frozen=True):
    name: str


class SetServerStatus(Action, frozen=True):
    """Report a change of a server's status."""

    name: str
    status: ServerStatus
    tools: tuple[ToolSpec, ...] = ()
    problem: str = ""


class RestoreTools(Action, frozen=True):
    """Restore what is kept on disk."""

    text: str
    servers: tuple[ServerSpec, ...]


ToolHostAction = StartServer | StopServer | RemoveServer | ImportFunctions


class RunCall(Action, frozen=True):
    """Have a server run a call of the last answer."""

    number: int


class StopCall(Action, frozen=True):
    number: int


class AnswerCall(Action, frozen=True):
    """Answer a call by hand, with what its function returns."""

    number: int
    text: str


class RefuseCall(Action, frozen=True):
    number: int


class AllowTool(Action, frozen=True):
    """Run further calls of a server's function without asking, in this conversation, as long as it
    is what the person saw."""

    approval: Approval
    allowed: bool


class CallAnswered(Action, frozen=True):
    """Report that a server has run a call."""

    key: int  # of the message
    number: int
    text: str
    seconds: float
    failed: bool


class GoOn(Action, frozen=True):
    """Give the results to the model: all calls are answered, and it did not go on by itself."""


class UnfoldResult(Action, frozen=True):
    index: int
    unfolded: bool


CallHostAction = RunCall | StopCall


def _set_functions(action: SetFunctions, state: AppState, now: float) -> Result:
    return replace(state, tools=with_text(state.tools, action.text)), ()


def with_text(tools: ToolsState, text: str) -> ToolsState:
    """Read the declared functions of a text. While it cannot be read, the functions stay as they
    were. New ones are switched on, as a person has just written them."""
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
    """Switch on as many of the fresh functions as there is room for."""
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


def _set_server_status(action: SetServerStatus, state: AppState, now: float) -> Result:
    tools = state.tools
    server = tools.server(action.name)
    if server is None:
        return state, ()
    # A server that runs may list its tools again: a person's switches hold.
    before = {spec.name for spec in server.tools} if server.status == "on" else set()
    tools = tools.with_server(
        action.name, status=action.status, tools=action.tools, problem=action.problem
    )
    if action.status == "on":
        fresh = {(action.name, spec.name) for spec in action.tools if spec.name not in before}
        tools = _with_on(tools, set(tools.on), fresh)
    state = replace(state, tools=tools)
    if action.status == "ended" and action.problem:
        problem = f"{action.name}: {action.problem}"
        return notify(state, "warning", fit_line(problem), now), ()
    return state, ()


def _restore_tools(action: RestoreTools, state: AppState, now: float) -> Result:
    tools = with_text(replace(state.tools, on=frozenset()), action.text)
    servers = tuple(ToolServer(spec) for spec in action.servers)
    # What was kept is offered when a person switches it on.
    return replace(state, tools=replace(tools, servers=servers, on=frozenset())), ()


def may_run(state: AppState, number: int) -> str:
    """Return the server that can run a call now; "" if none can."""
    message = waiting(state)
    if message is None or not 0 <= number < len(calls_of(message)):
        return ""
    known = round_of(state, message)
    if known.answer_of(number) or known.running_of(number):
        return ""
    call = calls_of(message)[number]
    found = source_of(state, call.name)
    if found is None or call.problem or problems_of(call, found[1]):
        return ""
    server = state.tools.server(found[0])
    return found[0] if server is not None and server.status == "on" else ""


def why_not(state: AppState, number: int) -> str:
    """Return a sentence that says why no server can run a call; "" if one can."""
    message = waiting(state)
    if message is None:
        return ""
    call = calls_of(message)[number]
    if call.problem:
        return tr("It cannot be run: {problem}.").format(problem=call.problem)
    found = source_of(state, call.name)
    if found is None:
        return tr("No function of this name is switched on.")
    problems = problems_of(call, found[1])
    if problems:
        return tr("The arguments do not fit: {problems}.").format(problems="; ".join(problems))
    server = state.tools.server(found[0])
    if server is None:
        return tr("You declared this function: say what it returns.")
    if server.status != "on":
        return tr("Its server {name} is not running.").format(name=found[0])
    return ""


def allowed_calls(state: AppState) -> list[RunCall]:
    """Return the calls that run without asking, and have not begun: none of a stopped answer."""
    message = waiting(state)
    if message is None or not state.tools.allowed or not may_go_on(state):
        return []
    if message.stop_reason == "stopped":
        return []
    found = []
    for number, call in enumerate(calls_of(message)):
        server = may_run(state, number)
        if server and is_allowed(state, call):
            found.append(RunCall(number))
    return found


def _run(action: RunCall, state: AppState, now: float) -> Result:
    message = waiting(state)
    if message is None or not may_run(state, action.number):
        return state, ()
    known = round_of(state, message)
    running = (*known.running, (action.number, RunningCall(now)))
    return _with_round(state, replace(known, running=running)), ()


def _stop(action: StopCall, state: AppState, now: float) -> Result:
    known = state.tools.round
    running = tuple(
        (number, replace(one, stopping=True) if number == action.number else one)
        for number, one in known.running
    )
    return _with_round(state, replace(known, running=running)), ()


def _answer(action: AnswerCall, state: AppState, now: float) -> Result:
    return _answered(state, action.number, typed(action.text), "hand", now)


def _refuse(action: RefuseCall, state: AppState, now: float) -> Result:
    return _answered(state, action.number, REFUSED, "refused", now)


def _call_answered(action: CallAnswered, state: AppState, now: float) -> Result:
    message = waiting(state)
    if message is None or message.id != action.key:
        return state, ()
    call = calls_of(message)[action.number]
    found = source_of(state, call.name)
    server = found[0] if found else ""
    how: Any = "failed" if action.failed else "server"
    reply = ToolReply(call.name, how, server, action.seconds)
    return _keep(state, message, action.number, AnsweredCall(typed(action.text), reply), now)


def _answered(state: AppState, number: int, text: str, how: Any, now: float) -> Result:
    message = waiting(state)
    if message is None or not 0 <= number < len(calls_of(message)):
        return state, ()
    reply = ToolReply(calls_of(message)[number].name, how)
    return _keep(state, message, number, AnsweredCall(text, reply), now)


def _keep(
    state: AppState, message: Message, number: int, answer: AnsweredCall, now: float
) -> Result:
    known = round_of(state, message)
    if known.answer_of(number):
        return state, ()
    running = tuple(one for one in known.running if one[0] != number)
    answered = (*known.answered, (number, answer))
    state = _with_round(state, replace(known, answered=answered, running=running))
    if len(answered) < len(calls_of(message)) or not may_go_on(state):
        return state, ()
    return _go_on(state, now)


def _go_on_asked(action: GoOn, state: AppState, now: float) -> Result:
    message = waiting(state)
    if message is None or len(round_of(state, message).answered) < len(calls_of(message)):
        return state, ()
    if not may_go_on(state):
        state = replace(state, tools=replace(state.tools, granted=state.tools.granted + 1))
    return _go_on(state, now)


def _go_on(state: AppState, now: float) -> Result:
    """Add the results as messages, in the calls' order, and have the model answer."""
    message = waiting(state)
    assert message is not None
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    messages = (*state.messages, *results(state, message))
    state = replace(state, tools=replace(state.tools, round=CallRound()))
    return request_answer(state, messages, now)


def without_grants(state: AppState) -> AppState:
    """Return the state behind a new question: what was allowed of rounds of calls was for the one
    before."""
    return replace(state, tools=replace(state.tools, granted=0))


def results(state: AppState, message: Message) -> tuple[Message, ...]:
    """Return the results of all calls of an answer; a call without one counts as refused."""
    known, made = round_of(state, message), []
    for number, call in enumerate(calls_of(message)):
        answer = known.answer_of(number)
        answer = answer or AnsweredCall(REFUSED, ToolReply(call.name, "refused"))
        made.append(Message("tool", answer.text, reply=answer.reply))
    return tuple(made)


def _allow(action: AllowTool, state: AppState, now: float) -> Result:
    tools, one = state.tools, action.approval
    allowed = tools.allowed | {one} if action.allowed else tools.allowed - {one}
    return replace(state, tools=replace(tools, allowed=allowed)), ()


def _unfold(action: UnfoldResult, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    if message.reply is None or message.reply.unfolded == action.unfolded:
        return state, ()
    changed = replace(message, reply=replace(message.reply, unfolded=action.unfolded))
    return with_message(state, action.index, changed), ()


def _with_round(state: AppState, known: CallRound) -> AppState:
    return replace(state, tools=replace(state.tools, round=known))


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetFunctions: _set_functions,
    OfferTool: _offer,
    SetServer: _set_server,
    RemoveServer: _remove_server,
    StartServer: _start_server,
    SetServerStatus: _set_server_status,
    RestoreTools: _restore_tools,
    RunCall: _run,
    StopCall: _stop,
    AnswerCall: _answer,
    RefuseCall: _refuse,
    AllowTool: _allow,
    CallAnswered: _call_answered,
    GoOn: _go_on_asked,
    UnfoldResult: _unfold,
}
