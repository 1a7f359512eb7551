"""Functions as a person or a server declares them: read as untrusted, with a sentence for what is
wrong.

A list of `{"type": "function", "function": {"name", "description", "parameters"}}`, or of bare
`{"name", "description", "parameters"}`; one alone needs no list, and `{"tools": [...]}` is one too.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.messages import ToolSpec
from llm_lite.core.plain_text import lines, quote
from llm_lite.core.tools.json_values import JsonProblem, kind_of, levels_of, read_json, written

MOST_FUNCTIONS = 64  # in a list
MOST_SCHEMA = 32 << 10  # characters
MOST_DESCRIPTION = 4_000  # characters
DEEPEST_SCHEMA = 24  # objects and lists within each other
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
NAME_RULE = "1 to 64 letters, digits, _, . or -"
_Type = Literal["string", "number", "integer", "boolean", "object", "array", "null"]
_NOTHING = {"type": "object", "properties": {}}


def read_functions(text: str) -> tuple[ToolSpec, ...]:
    """Read functions from a text that a person writes; () for an empty one. JsonProblem names line
    or field."""
    if not text.strip():
        return ()
    value = read_json(text)
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    items = value if isinstance(value, list) else [value]
    if len(items) > MOST_FUNCTIONS:
        raise JsonProblem(f"{len(items)} functions are declared, at most {MOST_FUNCTIONS} are read")
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
    if len(description) > MOST_DESCRIPTION:
        problem = f"{len(description):,} characters, at most {MOST_DESCRIPTION:,}"
        raise JsonProblem(f"{where}, description: {problem}")
    schema = _NOTHING if parameters is None else parameters
    where = f"{where}, parameters"
    _check_schema(schema, where)
    return ToolSpec(name, lines(description), _schema_text(schema, where))


def _schema_text(schema: dict[str, Any], where: str) -> str:
    """Return the schema as text, checked for its size, and that it can be read again: a value that
    a server's JSON reader has let through, such as NaN, would fail every prompt that offers the
    function."""
    try:
        text = written(schema)
        if len(text) > MOST_SCHEMA:
            raise JsonProblem(f"{len(text):,} characters, at most {MOST_SCHEMA:,}")
        read_json(text)
    except ValueError as problem:  # of a whole number of thousands of digits, too
        raise JsonProblem(f"{where}: {str(problem)[:200]}") from None
    return text


def offered(spec: ToolSpec) -> dict[str, Any]:
    """Return a function in the form that chat templates take."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": read_json(spec.parameters),
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

    type: _Type | list[_Type] | None = None
    properties: dict[str, _Part] = {}
    items: _Part | bool | int | float | str | list[Any] | None = None
    required: list[str] = []
    enum: list[Any] = []


class _Whole(_Part, frozen=True):
    type: Literal["object"] = "object"


def _check_schema(schema: Any, where: str) -> None:
    if levels_of(schema) > DEEPEST_SCHEMA:
        raise JsonProblem(f"{where}: nests deeper than {DEEPEST_SCHEMA} levels")
    try:
        convert(schema, _Whole, where)
    except CheckError as error:
        raise JsonProblem(str(error)) from None
