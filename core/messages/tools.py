"""Functions that a model may call, and its calls of them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

# How a model marks its calls; `core.tools.calls` reads each. "unknown": its template is given
# functions and marks calls in a way that is not read here.
# "": its template knows no tools; "unknown": it takes some, and how it calls them is not known.
ToolStyle = Literal["tags", "bar", "mistral", "llama", "python", "harmony", "gemma", "unknown", ""]


class ToolSpec(Struct, frozen=True):
    """A function as it is offered to a model."""

    name: str
    description: str = ""
    parameters: str = '{"type": "object", "properties": {}}'  # a JSON schema, as text


class ToolCall(Struct, frozen=True):
    """A function that a model wants to call. If it cannot be called, `problem` is a sentence, and
    `arguments` what was written."""

    name: str
    arguments: str = "{}"  # a JSON object, as text
    problem: str = ""


class ServerSpec(Struct, frozen=True):
    """A program that offers functions over MCP on its standard streams."""

    name: str
    command: str  # a line, as a shell splits it; no shell runs it
    environment: tuple[tuple[str, str], ...] = ()  # beside PATH, HOME and the like
    start_seconds: float = 10.0
    call_seconds: float = 30.0
