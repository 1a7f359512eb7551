"""Functions as people and servers declare them: read, or one sentence with line or field."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.messages import ToolSpec
from llm_lite.core.tools.declared import (
    MOST_FUNCTIONS,
    MOST_SCHEMA,
    checked,
    offered,
    read_functions,
)
from llm_lite.core.tools.json_values import JsonProblem

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
BARE = {"name": "weather", "description": "Of a city.", "parameters": SCHEMA}
SPEC = ToolSpec("weather", "Of a city.", json.dumps(SCHEMA))
WHOLE = {"type": "function", "function": BARE}


@pytest.mark.parametrize("value", [BARE, [BARE], WHOLE, [WHOLE], {"tools": [WHOLE]}])
def test_all_usual_forms_are_read(value):
    assert read_functions(json.dumps(value)) == (SPEC,)
    assert offered(SPEC) == WHOLE


def test_nothing_is_nothing():
    assert read_functions(" \n") == ()
    assert read_functions("[]") == ()


def of(**changes):
    return json.dumps([BARE | changes])


def schema(**changes):
    return of(parameters=SCHEMA | changes)


BROKEN = {
    '[\n  {"name": "a",}\n]': "line 2, column ",
    "[1]": "expected an object, found a number",
    '{"type": "tool", "name": "a"}': 'the function, type: expected "function"',
    '[{"name": "a"}, {}]': "function 2: has no name",
    of(name="a b"): "name: expected 1 to 64 letters",
    of(name="x" * 65): "name: expected 1 to 64 letters",
    of(name=5): "found a number",
    of(description=5): "(weather), description: expected a text",
    of(description="x" * 5000): "description: 5,000 characters",
    of(parameters=[]): "parameters: expected an object, found a list of 0",
    schema(type="string"): "parameters.type: expected object, found 'string'",
    schema(properties=[]): "parameters.properties: expected an object",
    schema(properties={"a": 5}): "parameters.properties.a: expected an object, found 5",
    schema(properties={"a": {"type": "text"}}): "properties.a.type: expected one of string,",
    schema(required="city"): "parameters.required: expected a list, found 'city'",
    schema(required=[5]): "parameters.required[0]: expected a text, found 5",
    schema(properties={"a": {"enum": 5}}): "properties.a.enum: expected a list, found 5",
    schema(
        properties={"a": {"items": {"type": 5}}}
    ): "properties.a.items.type: expected one of string,",
    schema(description="x" * MOST_SCHEMA): "parameters: 32,",
    json.dumps([BARE, BARE]): "function 2: the name 'weather' is there already",
    json.dumps([BARE] * (MOST_FUNCTIONS + 1)): "65 functions are declared, at most 64",
    "[" * 100_000: "nests too deep",
    "[" * 40 + "]" * 40: "nests deeper than 32 levels",
    " " * 300_000 + "1": "has 300,001 characters",
}


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_what_is_wrong_is_said_with_its_place(text):
    with pytest.raises(JsonProblem) as told:
        read_functions(text)
    assert BROKEN[text] in str(told.value) and "\n" not in str(told.value)


def test_a_schema_that_is_no_json_is_refused():
    """A server's JSON may hold what Python reads and a template's process does not."""
    for value in (math.nan, math.inf, 10**5000, "\ud800"):
        broken = {"type": "object", "properties": {"a": {"type": "number", "minimum": value}}}
        with pytest.raises(JsonProblem, match=r"^tool 3 \(a\), parameters: "):
            checked("a", "", broken, "tool 3")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "function",
                    "name",
                    "parameters",
                    "properties",
                    "items",
                    "required",
                    "enum",
                    "description",
                ]
            ),
            inner | st.sampled_from(["object", "string", "function", "x"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_any_json_is_read_or_refused(value):
    try:
        specs = read_functions(json.dumps(value))
    except JsonProblem as problem:
        assert str(problem)
    else:
        for spec in specs:
            assert offered(spec)["function"]["name"] == spec.name
