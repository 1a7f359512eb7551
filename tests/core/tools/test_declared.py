"""Functions as people and servers declare them: read, or one sentence with line or field."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.messages import ToolSpec
from llm_lite.core.tools.declared import (
    MOST_DECLARED,
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
    of(name="a b"): "name: expected letters, digits",
    of(name=""): "name: expected letters, digits",
    of(name=5): "found a number",
    of(description=5): "(weather), description: expected a text",
    of(parameters=[]): "parameters: expected an object, found a list of 0",
    schema(type="string"): "parameters.type: expected object, found 'string'",
    schema(properties=[]): "parameters.properties: expected an object",
    schema(properties={"a": 5}): "parameters.properties.a: expected an object, found 5",
    schema(type=["string", "null"]): "parameters.type: expected object, found 'string', 'null'",
    schema(required="city"): "parameters.required: expected a list, found 'city'",
    schema(required=[5]): "parameters.required[0]: expected a text, found 5",
    schema(properties={"a": {"enum": 5}}): "properties.a.enum: expected a list, found 5",
    schema(
        properties={"a": {"items": {"type": 5}}}
    ): "properties.a.items.type: expected a text or a list or null, found 5",
    json.dumps([BARE, BARE]): "function 2: the name 'weather' is there already",
    "[" * 100_000: "nests too deep",
    "[" * 200 + "]" * 200: "nests deeper than 128 levels",
    " " * MOST_DECLARED + "1": "has 1,000,001 characters",
}


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_what_is_wrong_is_said_with_its_place(text):
    with pytest.raises(JsonProblem) as told:
        read_functions(text)
    assert BROKEN[text] in str(told.value) and "\n" not in str(told.value)


def nested(levels):
    inner = {"type": "string"}
    for _ in range(levels // 2 - 1):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner


LARGE = {  # each more than agents send, and than other servers refuse
    "a description": [BARE | {"description": "Say it. " * 10_000}],
    "functions": [BARE | {"name": f"f{number}"} for number in range(600)],
    "a name": [BARE | {"name": "mcp__" + "server.tool-name_" * 20}],
    "a schema": [BARE | {"parameters": {"properties": {f"p{n}": {} for n in range(30_000)}}}],
    "levels": [BARE | {"parameters": nested(100)}],
}


@pytest.mark.parametrize("what", LARGE)
def test_what_an_agent_declares_is_not_limited_here(what):
    specs = read_functions(json.dumps(LARGE[what]))
    assert len(specs) == len(LARGE[what])
    for spec, row in zip(specs, LARGE[what], strict=True):
        assert offered(spec)["function"] == {
            **row,
            "parameters": {**row["parameters"], "type": "object"},
        }


@pytest.mark.parametrize(
    ("written", "meant"),
    [  # what follows `:` is what JSON Schema, which OpenAI's own server demands, has for it
        ({"properties": None, "required": None}, {}),
        (
            {"properties": {"a": {"type": "STRING", "description": None}}, "type": "OBJECT"},
            {"properties": {"a": {"type": "string"}}},
        ),
        ({"properties": {"a": True, "b": False}}, {"properties": {"a": {}, "b": {"not": {}}}}),
        (
            {"properties": {"a": {"required": True}, "b": {"required": False}}},
            {"properties": {"a": {}, "b": {}}, "required": ["a"]},
        ),
        (
            {"properties": {"a": {"items": {"properties": None, "enum": None}}}},
            {"properties": {"a": {"items": {}}}},
        ),
        (
            {"properties": {"a": {"anyOf": [{"type": ["String", "NULL"]}], "default": None}}},
            {"properties": {"a": {"anyOf": [{"type": ["string", "null"]}], "default": None}}},
        ),
        ({"properties": {"a": {"type": "file"}}}, {"properties": {"a": {"type": "file"}}}),
        ({"properties": {"type": {"enum": ["A", None]}}}, None),
    ],
)
def test_schemas_are_read_as_they_were_meant(written, meant):
    (spec,) = read_functions(of(parameters=written))
    expected = written if meant is None else meant
    assert json.loads(spec.parameters) == {**expected, "type": "object"}


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
