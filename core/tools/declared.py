"""Functions as a person or a server declares them: read as untrusted, with a sentence for what is
wrong.

A list of `{"type": "function", "function": {"name", "description", "parameters"}}`, or of bare
`{"name", "description", "parameters"}`; one alone needs no list, and `{"tools": [...]}` is one too.

How long a description or a schema is, and how many functions there are, the context limits: what
carries a declaration here (a body, a file, a message of a server) has its own limit of bytes.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.messages import ToolSpec
from llm_lite.core.plain_text import lines, quote
from llm_lite.core.tools.json_values import (
    MOST_LEVELS,
    JsonProblem,
    kind_of,
    levels_of,
    read_json,
    written,
)
from llm_lite.core.tools.lenient_schema import mended

MOST_FUNCTIONS = 4096  # of a tool server, which may list them without an end
MOST_DECLARED = 1_000_000  # characters of a text that a person writes; a context has fewer
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
NAME_RULE = "letters, digits, _, . or -"
_NOTHING = {"type": "object", "properties": {}}


def read_functions(text: str) -> tuple[ToolSpec, ...]:
    """Read functions from a text that a person writes; () for an empty one. JsonProblem names line
    or field."""
    if not text.strip():
        return ()
    value = read_json(text, MOST_DECLARED)
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    items = value if isinstance(value, list) else [value]
    found: dict[str, ToolSpec] = {}
    for number, item in enumerate(items, 1):
        spec = _read(item, f"function {number}" if len(items) > 1 else "the function")
        if spec.name in found:
            raise JsonProblem(f"function {number}: the name {spec.name!r} is there already")
        found[spec.name] = spec
    return tuple(found.values())


def checked(name: Any, description: Any, parameters: Any, where: str) -> ToolSpec:
    """Return a function of these parts. JsonProblem that begins with `where`."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        shown = quote(name) if isinstance(name, str) else kind_of(name)
        raise JsonProblem(f"{where}, name: expected {NAME_RULE}, found {shown}")
    where = f"{where} ({name})"
    if description is None:
        description = ""
    if not isinstance(description, str):
        raise JsonProblem(f"{where}, description: expected a text, found {kind_of(description)}")
    where = f"{where}, parameters"
    schema = _checked_schema(_NOTHING if parameters is None else parameters, where)
    return ToolSpec(name, lines(description), _schema_text(schema, where))


def _schema_text(schema: dict[str, Any], where: str) -> str:
    """Return the schema as text, checked that it can be read again: a value that a server's JSON
    reader has let through, such as NaN, would fail every prompt that offers the function."""
    try:
        text = written(schema)
        read_json(text, len(text))
    except ValueError as problem:  # of a whole number of thousands of digits, too
        raise JsonProblem(f"{where}: {str(problem)[:200]}") from None
    return text


def schema_of(spec: ToolSpec) -> Any:
    """Return the schema of a function's arguments."""
    return read_json(spec.parameters, len(spec.parameters))


def offered(spec: ToolSpec) -> dict[str, Any]:
    """Return a function in the form that chat templates take."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": schema_of(spec),
    }
    return {"type": "function", "function": function}


def _read(item: Any, where: str) -> ToolSpec:
    if not isinstance(item, dict):
        raise JsonProblem(f"{where}: expected an object, found {kind_of(item)}")
    body = item.get("function", item)
    if not isinstance(body, dict):
        raise JsonProblem(f"{where}, function: expected an object, found {kind_of(body)}")
    if item.get("type", "function") != "function":
        raise JsonProblem(f'{where}, type: expected "function", found {kind_of(item["type"])}')
    if "name" not in body:
        raise JsonProblem(f"{where}: has no name")
    parameters = body.get("parameters", body.get("input_schema", body.get("inputSchema")))
    return checked(body["name"], body.get("description"), parameters, where)


class _Part(Struct, frozen=True):
    """The parts of a schema, and of those of its properties and items, that templates rely on."""

    type: str | list[str] | None = None
    properties: dict[str, _Part] = {}
    items: _Part | bool | int | float | str | list[Any] | None = None
    required: list[str] = []
    enum: list[Any] = []


def _checked_schema(schema: Any, where: str) -> dict[str, Any]:
    """Return the schema of an object, as JSON Schema has it."""
    if levels_of(schema) > MOST_LEVELS:
        raise JsonProblem(f"{where}: nests deeper than {MOST_LEVELS} levels")
    schema = mended(schema)
    try:
        whole = convert(schema, _Part, where)
    except CheckError as error:
        raise JsonProblem(str(error)) from None
    kinds = [whole.type] if isinstance(whole.type, str) else whole.type
    if kinds and "object" not in kinds:
        raise JsonProblem(f"{where}.type: expected object, found {', '.join(map(quote, kinds))}")
    return {**schema, "type": "object"}
