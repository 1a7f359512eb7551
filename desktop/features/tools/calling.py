"""What a person does with the calls of an answer: run, answer by hand, refuse, go on.

Each call asks. Once all calls of an answer have a result, these become messages, and the model goes
on; after some rounds only when a person says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.records import replace
from llm_lite.core.tools.arguments import problems_of
from llm_lite.desktop.features.chat.rounds import (
    calls_of,
    is_allowed,
    may_go_on,
    round_of,
    source_of,
    waiting,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, ask, obstacle
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tools.state import (
    AnsweredCall,
    Approval,
    CallRound,
    RunningCall,
    ToolReply,
)
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import tr

# What the model is told: the language of its template, not of the window.
REFUSED = "The user refused this call."


class RunCall(Action, frozen=True):
    """Have a server run a call of the last answer."""

    number: int


class StopCall(Action, frozen=True):
    number: int


class AnswerCall(Action, frozen=True):
    """A person says what a function returns."""

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
    """A server has run a call."""

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


def may_run(state: AppState, number: int) -> str:
    """The server that can run a call now; "" where none can."""
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


def allowed_calls(state: AppState) -> list[RunCall]:
    """Calls that run without asking, and have not begun; none of an answer that was stopped."""
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
    if message is None or message.key != action.key:
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
        tools = state.tools
        granted = tools.granted + 1 if tools.chat == state.chat else 1
        allowed = tools.allowed if tools.chat == state.chat else frozenset()
        tools = replace(tools, chat=state.chat, granted=granted, allowed=allowed)
        state = replace(state, tools=tools)
    return _go_on(state, now)


def _go_on(state: AppState, now: float) -> Result:
    """The results as messages, in the calls' order, and what the model says to them."""
    message = waiting(state)
    assert message is not None
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    messages = (*state.messages, *results(state, message))
    state = replace(state, tools=replace(state.tools, round=CallRound()))
    return ask(state, messages, now)


def results(state: AppState, message: Message) -> tuple[Message, ...]:
    """Of all calls of an answer; one without any counts as refused."""
    known, made = round_of(state, message), []
    for number, call in enumerate(calls_of(message)):
        answer = known.answer_of(number)
        answer = answer or AnsweredCall(REFUSED, ToolReply(call.name, "refused"))
        made.append(Message("tool", answer.text, reply=answer.reply))
    return tuple(made)


def _allow(action: AllowTool, state: AppState, now: float) -> Result:
    tools, one = state.tools, action.approval
    if tools.chat != state.chat:
        tools = replace(tools, chat=state.chat, allowed=frozenset(), granted=0)
    allowed = tools.allowed | {one} if action.allowed else tools.allowed - {one}
    return replace(state, tools=replace(tools, allowed=allowed)), ()


def _unfold(action: UnfoldResult, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    if message.reply is None or message.reply.unfolded == action.unfolded:
        return state, ()
    changed = replace(message, reply=replace(message.reply, unfolded=action.unfolded))
    before, after = state.messages[: action.index], state.messages[action.index + 1 :]
    return replace(state, messages=(*before, changed, *after)), ()


def _with_round(state: AppState, known: CallRound) -> AppState:
    return replace(state, tools=replace(state.tools, round=known))


def why_not(state: AppState, number: int) -> str:
    """Why no server can run a call, as a sentence; "" where one can."""
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


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    RunCall: _run,
    StopCall: _stop,
    AnswerCall: _answer,
    RefuseCall: _refuse,
    AllowTool: _allow,
    CallAnswered: _call_answered,
    GoOn: _go_on_asked,
    UnfoldResult: _unfold,
}
