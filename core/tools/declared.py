"""Functions as a person or a server declares them: read as untrusted, with a sentence for what is
wrong.

A list of `{"type": "function", "function": {"name", "description", "parameters"}}`, or of bare
`{"name", "description", "parameters"}`; one alone needs no list, and `{"tools": [...]}` is one too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from llm_lite.core.messages import ToolSpec
from llm_lite.core.plain_text import lines, quote
from llm_lite.core.tools.json_values import JsonProblem, kind_of, levels_of, read_json, written

MOST_FUNCTIONS = 64  # in a list
MOST_SCHEMA = 32 << 10  # characters
MOST_DESCRIPTION = 4_000  # characters
DEEPEST_SCHEMA = 24  # objects and lists within each other
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
NAME_RULE = "1 to 64 letters, digits, _, . or -"
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


def _check_schema(schema: Any, where: str) -> None:
    """Check what templates and argument checks rely on: objects where they belong, and bounds."""
    if not isinstance(schema, dict):
        raise JsonProblem(f"{where}: expected an object, found {kind_of(schema)}")
    if schema.get("type", "object") != "object":
        raise JsonProblem(f'{where}.type: expected "object", found {written(schema["type"])[:40]}')
    if levels_of(schema) > DEEPEST_SCHEMA:
        raise JsonProblem(f"{where}: nests deeper than {DEEPEST_SCHEMA} levels")
    for path, part in _parts(schema, where):
        _check_part(part, path)


def _parts(schema: dict[str, Any], where: str) -> Iterable[tuple[str, Any]]:
    """Return a schema and those of its properties and items, each with its path."""
    waiting: list[tuple[str, Any]] = [(where, schema)]
    while waiting:
        path, part = waiting.pop()
        yield path, part
        properties = part.get("properties")
        if isinstance(properties, dict):
            waiting += ((f"{path}.properties.{quote(name)}", p) for name, p in properties.items())
        if isinstance(part.get("items"), dict):
            waiting.append((f"{path}.items", part["items"]))


def _check_part(part: Any, path: str) -> None:
    if not isinstance(part, dict):
        raise JsonProblem(f"{path}: expected an object, found {kind_of(part)}")
    for name, kind, words in (
        ("properties", dict, "an object"),
        ("required", list, "a list of names"),
        ("enum", list, "a list"),
    ):
        if name in part and not isinstance(part[name], kind):
            raise JsonProblem(f"{path}.{name}: expected {words}, found {kind_of(part[name])}")
    kind_named = part.get("type")
    names = kind_named if isinstance(kind_named, list) else [kind_named]
    for one in names:
        if one is not None and one not in _TYPES:
            expected = ", ".join(_TYPES)
            raise JsonProblem(f"{path}.type: expected one of {expected}, found {written(one)[:40]}")
    if any(not isinstance(name, str) for name in part.get("required", ())):
        raise JsonProblem(f"{path}.required: expected a list of names")


_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
