"""A call's arguments beside the schema of its function.

Of a JSON schema the part is checked that small models get wrong: types, required and unknown
members, choices, bounds. No pattern is run: a regular expression of a server may take for ever.
What is not known here is not checked; the tool itself sees the arguments next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from llm_lite.core.messages import ToolCall, ToolSpec
from llm_lite.core.plain_text import one_line
from llm_lite.core.records import replace
from llm_lite.core.tools.declared import schema_of
from llm_lite.core.tools.json_values import JsonProblem, kind_of, read_json, written

MOST_PROBLEMS = 4
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
_SHOWN = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


@lru_cache(maxsize=64)
def problems_of(call: ToolCall, spec: ToolSpec) -> tuple[str, ...]:
    """Return sentences on what is wrong with the arguments, as the function is given them; the
    first few. Called in every frame, and computed once."""
    try:
        value, schema = read_json(coerced(call, spec).arguments), schema_of(spec)
    except JsonProblem as problem:
        return (str(problem),)
    found: list[str] = []
    for sentence in _problems(value, schema, ""):
        found.append(one_line(sentence))  # a model has written the names in it
        if len(found) == MOST_PROBLEMS:
            break
    return tuple(found)


def coerced(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """Return the call with texts converted to the types of the schema, for a style of marks that
    has texts only."""
    try:
        values, schema = read_json(call.arguments), schema_of(spec)
    except JsonProblem:
        return call
    properties = schema.get("properties", {})
    if not isinstance(values, dict) or not isinstance(properties, dict):
        return call
    changed = {name: _coerced(v, properties.get(name)) for name, v in values.items()}
    return call if changed == values else replace(call, arguments=written(changed))


def _coerced(value: Any, schema: Any) -> Any:
    kinds = _kinds_of(schema) if isinstance(schema, dict) else ()
    if not isinstance(value, str) or not kinds or "string" in kinds:
        return value
    try:
        read = read_json(value)
    except JsonProblem:
        return value
    return read if any(_is(read, kind) for kind in kinds) else value


def _problems(value: Any, schema: Any, path: str) -> Iterator[str]:
    """Yield what is wrong with a value by its schema. The depth of schemas is limited where they
    are declared."""
    if not isinstance(schema, dict):
        return
    name = path or "the arguments"
    kinds = _kinds_of(schema)
    if kinds and not any(_is(value, kind) for kind in kinds):
        expected = " or ".join(_SHOWN[kind] for kind in kinds)
        yield f"{name}: expected {expected}, found {kind_of(value)}"
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield f"{name}: expected one of {_list(choices)}, found {written(value)[:60]}"
    yield from _bounds(value, schema, name)
    if isinstance(value, dict):
        yield from _members(value, schema, path)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, schema.get("items"), f"{path}[{number}]")


def _members(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    lead = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{lead}{name[:60]}: is required and missing"
    if schema.get("additionalProperties") is False:
        for name in value:
            if name not in known:
                yield f"{lead}{name[:60]}: is not known to this function"
    for name, inner in value.items():
        if name in known:
            yield from _problems(inner, known[name], f"{lead}{name[:60]}")


def _bounds(value: Any, schema: dict[str, Any], name: str) -> Iterator[str]:
    if isinstance(value, bool):
        return
    size = value if isinstance(value, int | float) else None
    lowest, highest = "minimum", "maximum"
    what = ""
    if isinstance(value, str):
        size, lowest, highest, what = len(value), "minLength", "maxLength", " characters"
    elif isinstance(value, list):
        size, lowest, highest, what = len(value), "minItems", "maxItems", " items"
    least, most = schema.get(lowest), schema.get(highest)
    if size is None:
        return
    if isinstance(least, int | float) and size < least:
        yield f"{name}: expected at least {_number(least)}{what}, found {_number(size)}"
    if isinstance(most, int | float) and size > most:
        yield f"{name}: expected at most {_number(most)}{what}, found {_number(size)}"


def _number(value: float) -> str:
    """Return a number as text; a whole number of JSON may be too large for a float."""
    return f"{value:g}" if abs(value) < 1e15 else str(value)[:40]


def _kinds_of(schema: dict[str, Any]) -> tuple[str, ...]:
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    return tuple(name for name in names if isinstance(name, str) and name in _KINDS)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _list(choices: list[Any]) -> str:
    shown = ", ".join(json.dumps(choice, ensure_ascii=False)[:40] for choice in choices[:8])
    return shown + (", …" if len(choices) > 8 else "")
