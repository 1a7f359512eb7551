"""`keep_what_can_be` changes a JSON schema to what an answer can be held to while it is written.

Masks say which token may come next, and some keywords speak of what has come long before
(`uniqueItems`), or of what must not come of it (`not`). Such a keyword is left to the model:
it is left out, and its name returned. Where another keyword says the same, it takes its place.
Of `oneOf` it is left to the model that no second alternative holds, where one may. A `format`
that is not known, as the specification has it, is a note.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from llm_lite.core.tools.closed_schema import parts_of
from llm_lite.core.tools.disjoint_schemas import DisjointSchemas

# Keywords that are left out where they say something: their value, where they say nothing.
_LEFT_OUT: dict[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    "not": (False,),
    "if": (True, {}),
    "contains": (),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    "propertyNames": (True, {}),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
}
_WITHOUT_IT = {"if": ("then", "else"), "contains": ("minContains", "maxContains")}
_FORMATS = frozenset(
    (
        *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uri"),
        *("uuid", "unknown"),
    )
)
_DRAFTS = re.compile(r"https?://json-schema\.org/draft(-0[4-7]|/2019-09|/2020-12)/schema#?")
_OTHER_NAMES = {
    "$dynamicRef": "$ref",
    "$recursiveRef": "$ref",
    "$dynamicAnchor": "$anchor",
}
_PUTS_TOGETHER = ("allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "patternProperties")
# What regular expressions have elsewhere that no mask can be found for: a look around, or back.
_LOOKS = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?<?[=!]|\\(?:[1-9]|k[<{']))")


class UnkeptError(ValueError):
    """No answer is of this schema: a sentence says why."""


def left_to_the_model(schema: Any) -> list[str]:
    """Return the names of keywords that an answer of this schema is not held to."""
    try:
        return keep_what_can_be(copy.deepcopy(schema))
    except (RecursionError, UnkeptError):  # what compiles it says what is wrong
        return []


@lru_cache(16)
def left_in(text: str) -> tuple[str, ...]:
    """Return the same of a schema's text; () for what is none."""
    try:
        return tuple(left_to_the_model(json.loads(text)))
    except (RecursionError, ValueError):
        return ()


def keep_what_can_be(schema: Any) -> list[str]:
    """Leave out what an answer cannot be held to; return the keywords' names. RecursionError: it
    is too deep; UnkeptError for what allows nothing or is not there."""
    found: dict[str, None] = {}
    parts = list(parts_of(schema))
    has_names = any("$id" in part for part in parts)  # what a $ref leads to may be one of them
    within = any("$id" in part for part in parts[1:])  # a $ref may lead into that part
    disjoint = DisjointSchemas(None if within else schema)
    for part in parts:
        several = part.get("oneOf")
        if isinstance(several, list) and not disjoint.are_disjoint(several):
            found["oneOf"] = None  # an answer is held to anyOf of them
        found.update(dict.fromkeys(_kept(part)))
        target = part.get("$ref")
        if isinstance(target, str) and not target.startswith("#") and not has_names:
            raise UnkeptError(f'the "$ref" {target[:80]!r} leads out of the schema')
    return list(found)


def _kept(part: dict[str, Any]) -> Iterator[str]:
    """Change a part of a schema; yield the names of what is left out."""
    for other, name in _OTHER_NAMES.items():
        if isinstance(part.get(other), str):
            part.setdefault(name, part[other])
        part.pop(other, None)
    if not _DRAFTS.fullmatch(str(part.get("$schema", ""))):
        part.pop("$schema", None)
    form = part.get("format")
    if not isinstance(form, str) or form not in _FORMATS:
        part.pop("format", None)
    if _is_everything(part.get("not")):
        raise UnkeptError('"not" of everything leaves nothing')
    _name_properties(part)
    _close(part)
    for name, empty in _LEFT_OUT.items():
        if name in part:
            value = part.pop(name)
            if not any(value == one and type(value) is type(one) for one in empty):
                yield name
            for other in _WITHOUT_IT.get(name, ()):
                part.pop(other, None)
    for others in _WITHOUT_IT.values():  # these say nothing alone
        for other in others:
            part.pop(other, None)
    if isinstance(part.get("pattern"), str) and _LOOKS.search(part["pattern"]):
        del part["pattern"]
        yield "pattern"
    properties, required = part.get("properties"), part.get("required", [])
    if isinstance(properties, dict) and isinstance(required, list):
        is_open = any(name not in required for name in properties)
        for name in ("minProperties", "maxProperties"):
            if is_open and part.pop(name, 0):
                yield name


def _is_everything(value: Any) -> bool:
    return value is True or value == {}


def _is_kept_pattern(pattern: Any) -> bool:
    return isinstance(pattern, str) and not _LOOKS.search(pattern)


def _name_properties(part: dict[str, Any]) -> None:
    """Put the names or the pattern that names of properties keep to where properties are said."""
    names = part.get("propertyNames")
    if not isinstance(names, dict) or "properties" in part or "patternProperties" in part:
        return
    used = {name for name in names if name not in ("type", "title", "description")}
    value = part.get("additionalProperties", True)
    several = names.get("enum", [names["const"]] if "const" in names else None)
    if used <= {"enum", "const"} and isinstance(several, list):
        part["properties"] = {one: value for one in several if isinstance(one, str)}
    elif used == {"pattern"} and _is_kept_pattern(names["pattern"]):
        part["patternProperties"] = {names["pattern"]: value}
    else:
        return
    part["additionalProperties"] = False
    del part["propertyNames"]


def _close(part: dict[str, Any]) -> None:
    """Forbid properties and items that nothing speaks of, where no other part could."""
    for name, other in (
        ("unevaluatedProperties", "additionalProperties"),
        ("unevaluatedItems", "items"),
    ):
        if part.get(name) is False and not any(one in part for one in (*_PUTS_TOGETHER, other)):
            part[other] = part.pop(name)
