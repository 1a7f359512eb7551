"""Functions that a model may call: those declared, those of servers, and the calls of an answer
that wait for their results."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Literal

from msgspec import Struct, field

from llm_lite.core.messages import ServerSpec, ToolSpec, ToolStyle
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import CallSplit
from llm_lite.core.tools.declared import MOST_DECLARED

MOST_OFFERED = MOST_DECLARED  # characters of all that is offered together; a context has fewer
LONGEST_DECLARED = MOST_DECLARED + 1  # that are kept, so that a text too long is recognized
MOST_SERVERS = 32
MOST_VARIABLES = 64  # of a server's environment
DECLARED = ""  # the source of functions that a person declared; others are names of servers

How = Literal["server", "hand", "refused", "failed"]
ServerStatus = Literal["off", "starting", "on", "ended"]


class ToolReply(Struct, frozen=True):
    """The way in which a call was answered; the result itself is the message's text."""

    name: str  # of the function
    how: How
    server: str = ""
    seconds: float = 0.0
    unfolded: bool = False


class AnsweredCall(Struct, frozen=True):
    text: str
    reply: ToolReply


class RunningCall(Struct, frozen=True):
    began: float
    stopping: bool = False


class CallRound(Struct, frozen=True):
    """The state of the calls of one answer, by number."""

    key: int = 0  # of the message
    answered: tuple[tuple[int, AnsweredCall], ...] = ()
    running: tuple[tuple[int, RunningCall], ...] = ()

    def answer_of(self, number: int) -> AnsweredCall | None:
        return dict(self.answered).get(number)

    def running_of(self, number: int) -> RunningCall | None:
        return dict(self.running).get(number)


class Approval(Struct, frozen=True):
    """A function that a person allowed to run without asking. It is void for another function or
    server of the same name."""

    server: str  # its name
    digest: str  # of its command and environment, and of the function's name, text and schema


class ToolServer(Struct, frozen=True):
    spec: ServerSpec
    status: ServerStatus = "off"
    tools: tuple[ToolSpec, ...] = ()
    problem: str = ""


class ToolsState(Struct, frozen=True):
    text: str = ""  # of the declared functions, as it is typed
    functions: tuple[ToolSpec, ...] = ()  # the last that could be read
    problem: str = ""  # why the text cannot be read
    servers: tuple[ToolServer, ...] = ()
    on: frozenset[tuple[str, str]] = frozenset()  # source, name
    round: CallRound = field(default_factory=CallRound)
    allowed: frozenset[Approval] = frozenset()  # run without asking, in this conversation
    granted: int = 0  # further rounds that a person has allowed since the last question

    def of_next_conversation(self) -> ToolsState:
        return replace(self, round=CallRound(), allowed=frozenset(), granted=0)

    def of_next_model(self) -> ToolsState:
        return self

    def server(self, name: str) -> ToolServer | None:
        return next((server for server in self.servers if server.spec.name == name), None)

    def with_server(self, name: str, **changes: object) -> ToolsState:
        servers = tuple(
            replace(s, **changes) if s.spec.name == name else s  # type: ignore[arg-type]
            for s in self.servers
        )
        return replace(self, servers=servers)


@lru_cache(maxsize=64)
def approval_of(server: ServerSpec, tool: ToolSpec) -> Approval:
    # It is cached, as each call that waits needs it in every frame.
    parts = (
        *(server.name, server.command, server.environment),
        *(tool.name, tool.description, tool.parameters),
    )
    whole = json.dumps(parts).encode()
    return Approval(server.name, hashlib.sha256(whole).hexdigest())


def without_approvals(tools: ToolsState, server: str) -> ToolsState:
    """A server that is changed, removed or started again has to be approved again."""
    kept = frozenset(one for one in tools.allowed if one.server != server)
    return tools if kept == tools.allowed else replace(tools, allowed=kept)


def sources(tools: ToolsState) -> tuple[tuple[str, ToolSpec], ...]:
    """Return all functions, each with its source."""
    declared = tuple((DECLARED, spec) for spec in tools.functions)
    running = (server for server in tools.servers if server.status == "on")
    return (*declared, *((s.spec.name, spec) for s in running for spec in s.tools))


def chosen(tools: ToolsState) -> tuple[tuple[str, ToolSpec], ...]:
    """Return the functions that are switched on; of one name the first."""
    found: dict[str, tuple[str, ToolSpec]] = {}
    for source, spec in sources(tools):
        if (source, spec.name) in tools.on:
            found.setdefault(spec.name, (source, spec))
    return tuple(found.values())


def size_of(specs: tuple[ToolSpec, ...]) -> int:
    """Estimate how many characters functions take in a prompt."""
    return sum(len(s.name) + len(s.description) + len(s.parameters) for s in specs)


def split_calls(split: CallSplit | None, style: ToolStyle, text: str) -> CallSplit | None:
    """Split the calls from an answer's text so far; None if no functions were offered."""
    if split is None:
        if not style:
            return None
        split = CallSplit(style)
    return split.up_to(text)
