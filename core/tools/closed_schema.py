"""Objects of a JSON schema have the properties that it names or requires, and no others.

JSON Schema itself allows any others unless `additionalProperties` says something else. A small
model then adds one property after another until its tokens are used up, which hardly anybody means:
for OpenAI's strict mode and llama.cpp, too, an object has no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE = ("items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
# Beside `properties` these add to an object, which its parts must leave open.
_ADDING = ("allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas")
_SAID = ("additionalProperties", "patternProperties", "unevaluatedProperties")


def close_objects(schema: Any) -> None:
    """Set `additionalProperties` to false where a schema has properties and does not say it.

    A schema that puts objects together of parts stays as it is. RecursionError: it is too deep.
    """
    parts = list(parts_of(schema))
    if any(_is_put_together(part) for part in parts):
        return
    for part in parts:
        properties = part.get("properties")
        if isinstance(properties, dict) and not any(name in part for name in _SAID):
            part["additionalProperties"] = False
            required = part.get("required")
            for name in required if isinstance(required, list) else ():  # is named as well
                if isinstance(name, str):
                    properties.setdefault(name, {})


def _is_put_together(part: dict[str, Any]) -> bool:
    whole = part.get("allOf")
    if isinstance(whole, list) and len(whole) > 1:
        return True
    return "properties" in part and any(name in part for name in _ADDING)


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and those in it; values of `enum`, `const` or `default` are none."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in _ONE:
        yield from parts_of(schema.get(name))
    for name in _SEVERAL:
        several = schema.get(name)
        for part in several if isinstance(several, list) else ():
            yield from parts_of(part)
    for name in _NAMED:
        named = schema.get(name)
        for part in named.values() if isinstance(named, dict) else ():
            yield from parts_of(part)
