"""Objects of a JSON schema that does not say whether they have other properties."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from llm_lite.core.tools.closed_schema import close_objects

FRUIT = {"type": "object", "properties": {"fruit": {"type": "string"}}, "required": ["fruit"]}


def closed(schema: Any) -> Any:
    found = copy.deepcopy(schema)
    close_objects(found)
    return found


def test_an_object_with_properties_has_no_others() -> None:
    assert closed(FRUIT) == {**FRUIT, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        {"items": FRUIT},
        {"prefixItems": [FRUIT]},
        {"anyOf": [{"type": "null"}, FRUIT]},
        {"properties": {"a": FRUIT}, "additionalProperties": True},
        {"$ref": "#/$defs/a", "$defs": {"a": FRUIT}},
        {"additionalProperties": FRUIT},
        {"allOf": [FRUIT]},
    ],
)
def test_objects_inside_too(schema: Any) -> None:
    told = json.dumps(closed(schema))
    assert told.count('"additionalProperties": false') == 1


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "object"},
        {**FRUIT, "additionalProperties": True},
        {**FRUIT, "additionalProperties": {"type": "integer"}},
        {**FRUIT, "patternProperties": {"^x": {}}},
        {"enum": [{"properties": {}}], "default": {"properties": {}}},
        {"allOf": [FRUIT, {"properties": {"color": {}}}]},
        {"properties": {"a": {}}, "anyOf": [FRUIT, {"properties": {"color": {}}}]},
        {"allOf": [{"$ref": "#/$defs/a"}, {"properties": {}}], "$defs": {"a": FRUIT}},
        {"properties": 3, "items": 4, "anyOf": 5},
    ],
)
def test_what_says_it_or_is_put_together_stays(schema: Any) -> None:
    assert closed(schema) == schema
