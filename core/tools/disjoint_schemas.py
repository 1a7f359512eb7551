"""Tells where no value is of two JSON schemas, so that `oneOf` of them says what `anyOf` does.

What cannot be shown with little work is taken for not so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

_KINDS = ("null", "boolean", "string", "array", "object", "integer", "fraction")
_OF_TYPE = {"number": frozenset(("integer", "fraction"))} | {
    kind: frozenset((kind,)) for kind in _KINDS[:-1]
}
_MOST_STEPS = 10_000  # pairs of schemas; some names and values of a pair count as one more
_A_STEP = 8  # names and values
_MOST_LEVELS = 16
_MOST_VALUES = 256  # of an enum
_LONGEST_REFERENCE = 1000  # characters


class DisjointSchemas:
    """Compares schemas within `root`, where "$ref" leads."""

    def __init__(self, root: Any) -> None:
        self._root, self._steps = root, _MOST_STEPS

    def are_disjoint(self, schemas: Sequence[Any]) -> bool:
        """Return True where certainly no value is of two of the schemas."""
        return all(self._differ(a, b, 0) for a, b in combinations(schemas, 2))

    def _differ(self, one: Any, other: Any, level: int) -> bool:
        self._steps -= 1 + (_size(one) + _size(other)) // _A_STEP
        if self._steps < 0 or level > _MOST_LEVELS:
            return False
        if one is False or other is False:
            return True
        if not (isinstance(one, dict) and isinstance(other, dict)):
            return False
        return (
            self._values_differ(one, other)
            or self._objects_differ(one, other, level)
            or self._a_part_differs(one, other, level)
            or self._a_part_differs(other, one, level)
        )

    def _values_differ(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        if not _kinds(one) & _kinds(other):
            return True
        values, others = _values(one), _values(other)
        return (
            values is not None
            and others is not None
            and not {_key(value) for value in values} & {_key(value) for value in others}
        )

    def _objects_differ(self, one: dict[str, Any], other: dict[str, Any], level: int) -> bool:
        """Return whether a property that one demands is another one, or none, of the other."""
        if _kinds(one) & _kinds(other) != {"object"}:
            return False
        properties, others = _table(one, "properties"), _table(other, "properties")
        required, demanded = _names(one), _names(other)
        if _is_closed(other) and required - others.keys():
            return True
        if _is_closed(one) and demanded - properties.keys():
            return True
        both = sorted(required & demanded & properties.keys() & others.keys())
        return any(self._differ(properties[name], others[name], level + 1) for name in both)

    def _a_part_differs(self, one: dict[str, Any], other: dict[str, Any], level: int) -> bool:
        """Return whether a part that every value of `one` is of differs from the other schema."""
        whole = one.get("allOf")
        parts = [*whole] if isinstance(whole, list) else []
        if (target := self._target(one.get("$ref"))) is not None:
            parts.append(target)
        if any(self._differ(part, other, level + 1) for part in parts):
            return True
        choices = (one.get(name) for name in ("anyOf", "oneOf"))
        return any(
            isinstance(several, list) and all(self._differ(s, other, level + 1) for s in several)
            for several in choices
        )

    def _target(self, reference: Any) -> Any:
        """Return the schema that a "$ref" within the root leads to; None where it is not there."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if len(reference) > _LONGEST_REFERENCE:
            return None
        found = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isascii() and name.isdigit():
                found = found[int(name[:9])] if int(name[:9]) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found if reference == "#" or reference.startswith("#/") else None


def _kinds(schema: dict[str, Any]) -> frozenset[str]:
    """Return the kinds of values that a schema may allow."""
    types = schema.get("type")
    several = [types] if isinstance(types, str) else types
    found = frozenset(_KINDS)
    if isinstance(several, list):
        known = (_OF_TYPE.get(t, found) if isinstance(t, str) else found for t in several)
        found = frozenset().union(*known)
    if (values := _values(schema)) is not None:
        found &= {_kind(value) for value in values}
    return found


def _values(schema: dict[str, Any]) -> list[Any] | None:
    """Return the only values that a schema allows; None where they are not listed."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) and len(listed) <= _MOST_VALUES else None


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case float() if not value.is_integer():
            return "fraction"
    return "integer"


def _key(value: Any) -> tuple[str, Any]:
    """Return what equal values have in common; lists count as equal, and so do objects."""
    kind = _kind(value)
    if kind in ("array", "object"):
        return kind, None
    return ("number" if kind in ("integer", "fraction") else kind), value


def _size(schema: Any) -> int:
    """Return how many names and values of a schema are looked at beside its parts."""
    if not isinstance(schema, dict):
        return 0
    several = (schema.get(name) for name in ("type", "enum", "required", "properties"))
    return sum(len(found) for found in several if isinstance(found, list | dict))


def _table(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found = schema.get(name)
    return found if isinstance(found, dict) else {}


def _names(schema: dict[str, Any]) -> set[str]:
    required = schema.get("required")
    several = required if isinstance(required, list) else ()
    return {name for name in several if isinstance(name, str)}


def _is_closed(schema: dict[str, Any]) -> bool:
    """Return whether an object has the properties that are said here and no others."""
    is_said = isinstance(schema.get("properties"), dict) and "patternProperties" not in schema
    return is_said and schema.get("additionalProperties") is False
