"""Schemas as programs write them, as JSON Schema has them.

Programs in Go write null for an empty list, older drafts say of a property itself that it is
required, and Gemini's declarations have the names of types in capitals. What templates and grammars
read then is the schema that was meant.
"""

from __future__ import annotations

from typing import Any

_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_ABSENT = ("type", "properties", "items", "required", "enum", "description")  # where they are null
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")


def mended(schema: Any) -> Any:
    """Return the schema that a program meant. What is no schema is unchanged."""
    if not isinstance(schema, dict):
        return schema
    made = {name: one for name, one in schema.items() if not (one is None and name in _ABSENT)}
    if "type" in made:
        made["type"] = _type(made["type"])
    _require(made)
    for name in _NAMED:
        if isinstance(made.get(name), dict):
            made[name] = {key: _part(one) for key, one in made[name].items()}
    for name in _SEVERAL:
        if isinstance(made.get(name), list):
            made[name] = [mended(one) for one in made[name]]
    for name in ("items", "additionalProperties", "not"):
        if isinstance(made.get(name), dict):
            made[name] = mended(made[name])
    return made


def _part(schema: Any) -> Any:
    """Return the schema of a property: true and false are schemas too, which templates do not
    know."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return mended(schema)


def _type(given: Any) -> Any:
    if isinstance(given, list):
        return [_type(one) for one in given]
    known = isinstance(given, str) and given.lower() in _TYPES
    return given.lower() if known else given


def _require(schema: dict[str, Any]) -> None:
    """Let an object say which of its properties are required, where these say it themselves."""
    if isinstance(schema.get("required"), bool):  # said of a property, which its object has read
        del schema["required"]
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    claimed = [
        name
        for name, one in properties.items()
        if isinstance(one, dict) and one.get("required") is True
    ]
    if claimed and isinstance(schema.get("required", []), list):
        schema["required"] = list(dict.fromkeys([*schema.get("required", ()), *claimed]))
