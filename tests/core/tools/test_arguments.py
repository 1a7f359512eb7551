"""Arguments beside their schema; `jsonschema` is the reference of what we check."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.messages import ToolCall, ToolSpec
from llm_lite.core.tools.arguments import coerced, problems_of

PARTS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "minLength": 2, "maxLength": 3},
        {"type": "integer", "minimum": 0, "maximum": 5},
        {"type": "number"},
        {"type": ["string", "null"]},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        {},
    ]
)
SCHEMAS = st.builds(
    lambda parts, required, closed: {
        "type": "object",
        "properties": dict(zip("abc", parts, strict=False)),
        "required": required,
        **({"additionalProperties": False} if closed else {}),
    },
    st.lists(PARTS, max_size=3),
    st.lists(st.sampled_from("abc"), unique=True),
    st.booleans(),
)
LEAVES = st.sampled_from(
    ["a", "b", "abcd", "", 0, 3, 9, -1, 2.0, 2.5, True, None, [], [1], [1, 2, 3]]
)
VALUES = st.dictionaries(st.sampled_from("abcd"), LEAVES | st.just({"x": "y"}) | st.just({}))


def problems(value, schema):
    return problems_of(ToolCall("f", json.dumps(value)), ToolSpec("f", "", json.dumps(schema)))


@given(SCHEMAS, VALUES)
@settings(max_examples=400, deadline=None)
def test_it_agrees_with_the_reference(schema, value):
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (problems(value, schema) == ()) == valid


SAID = [
    ({"city": 5}, "city: expected a text, found a number"),
    ({}, "city: is required and missing"),
    ({"city": "a", "x": 1}, "x: is not known to this function"),
    ({"city": "a", "unit": "K"}, 'unit: expected one of "C", "F", found "K"'),
    ({"city": "a", "days": [1, "b"]}, "days[1]: expected a whole number, found a text"),
    ({"city": "a", "days": [99]}, "days[0]: expected at most 9, found 99"),
    ({"city": "a", "days": [10**400]}, f"days[0]: expected at most 9, found 1{'0' * 39}"),
]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["C", "F"]},
        "days": {"type": "array", "items": {"type": "integer", "maximum": 9}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(("value", "sentence"), SAID)
def test_a_problem_names_the_field(value, sentence):
    assert problems(value, SCHEMA) == (sentence,)


def test_a_pattern_is_never_run():
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    assert problems({"a": "a" * 40 + "!"}, schema) == ()


def test_texts_become_what_the_schema_wants():
    spec = ToolSpec("f", "", json.dumps(SCHEMA))
    call = ToolCall("f", '{"city": "5", "days": "[1, 2]", "unit": "C"}')
    assert json.loads(coerced(call, spec).arguments) == {"city": "5", "days": [1, 2], "unit": "C"}
    wrong = ToolCall("f", '{"city": "a", "days": "many"}')
    assert coerced(wrong, spec) == wrong
