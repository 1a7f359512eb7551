"""Answers keep to what of a JSON schema can be kept to; the rest is named. `jsonschema` says which
values are of a schema."""

import copy
import json

import jsonschema
import pytest
from llguidance import LLMatcher, LLTokenizer

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.forms import check_form, form_of
from llm_lite.core.tools.disjoint_schemas import DisjointSchemas
from llm_lite.core.tools.kept_schema import left_to_the_model

BYTES = LLTokenizer("byte")
KNOWN = jsonschema.Draft202012Validator
NUMBERS = {"type": "array", "items": {"type": "integer"}}
CAT = {
    "type": "object",
    "properties": {"is": {"const": "cat"}, "age": {"type": "integer"}},
    "required": ["is"],
}
DOG = {"type": "object", "properties": {"is": {"enum": ["dog", "hound"]}}, "required": ["is"]}
CLOSED = {
    "type": "object",
    "properties": {"a": {}},
    "required": ["a"],
    "additionalProperties": False,
}
AB = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def read(schema, values):
    """Whether an answer of the schema may be each of the values."""
    text = json.dumps(schema)
    form = form_of("JSON schema", text)
    check_form("JSON schema", text, form)
    found = []
    for value in values:
        matcher = LLMatcher(BYTES, form, log_level=0)
        tokens = BYTES.tokenize_bytes(json.dumps(value, ensure_ascii=False).encode())
        found.append(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())
    return found


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "string", "format": "phone"}, ["+44 20", "x", 1]),
        ({"type": "string", "format": "binary"}, ["x"]),
        ({"type": "string", "format": "regex"}, ["a+"]),
        ({"type": "integer", "format": "int64"}, [1, "1"]),
        ({"type": "string", "format": "date"}, ["2024-02-03", "today"]),
        ({**NUMBERS, "uniqueItems": False}, [[1, 1], ["a"]]),
        ({"type": "string", "not": False}, ["a"]),
        ({"type": "integer", "if": {}}, [1]),
        ({"type": "array", "minContains": 2, "items": {"type": "integer"}}, [[], [1]]),
        ({"type": "object", "propertyNames": {"pattern": "^a"}}, [{}, {"a1": 1}, {"b": 1}]),
        (
            {
                "type": "object",
                "propertyNames": {"enum": ["a", "b"], "type": "string"},
                "additionalProperties": {"type": "integer"},
            },
            [{"a": 1}, {"a": 1, "b": 2}, {"a": "x"}, {"c": 1}],
        ),
        ({"type": "object", "propertyNames": {"const": "a"}}, [{"a": 1}, {"b": 1}]),
        ({**AB, "unevaluatedProperties": False}, [{"a": 1}, {"c": 1}]),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": False},
            [[1], [1, 2], ["a"]],
        ),
        ({**AB, "required": ["z"]}, [{"z": 1}, {"a": 1, "z": "x"}, {"a": 1}]),
        ({"type": "string", "$schema": "http://json-schema.org/schema#"}, ["a", 1]),
        (
            {
                "type": "object",
                "properties": {"next": {"$dynamicRef": "#node"}},
                "$dynamicAnchor": "node",
                "additionalProperties": False,
            },
            [{}, {"next": {"next": {}}}, {"next": 1}],
        ),
        (
            {
                "$ref": "#/$defs/tree",
                "$defs": {
                    "tree": {
                        "type": "object",
                        "properties": {"in": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                        "additionalProperties": False,
                    }
                },
            },
            [{"in": [{"in": []}, {}]}, {"in": [1]}],
        ),
        ({"enum": ["a", 1, None, {"b": [2]}]}, ["a", 1, None, {"b": [2]}, "b", {"b": []}]),
        ({"const": 1, "enum": [1, 2]}, [1, 2]),
        ({"type": "string", "enum": ["a", 1]}, ["a", 1]),
        ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]}, [3, 5, 2, 6]),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 1, None]),
        ({"oneOf": [{"const": 1}, {"enum": ["a", True]}, {"type": "null"}]}, [1, True, None, 2]),
        ({"oneOf": [CAT, DOG]}, [{"is": "cat", "age": 1}, {"is": "dog"}, {"is": "cow"}]),
        (
            {
                "oneOf": [{"$ref": "#/$defs/cat"}, {"allOf": [{"$ref": "#/$defs/dog"}]}],
                "$defs": {"cat": CAT, "dog": DOG},
            },
            [{"is": "cat", "age": 1}, {"is": "dog"}, {"is": "cow"}],
        ),
        (
            {"oneOf": [CLOSED, {**CLOSED, "properties": {"b": {}}, "required": ["b"]}]},
            [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        ),
        (
            {"oneOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "integer"}]},
            ["a", None, 1, 1.5],
        ),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, [{"x": 1}]),
        ({**AB, "required": ["a", "b"], "minProperties": 1}, [{"a": 1, "b": 2}, {"a": 1}]),
        ({"type": "string", "pattern": "^\\\\1$"}, ["\\1", "1"]),
        ({"type": "string", "pattern": "^oh\\!$"}, ["oh!", "oh"]),
        ({"type": "string", "pattern": "^[a-z]+$", "minLength": 3}, ["ab", "abc", "ABC"]),
        ({"type": "string", "minLength": 1, "maxLength": 65536}, ["", "a"]),
        (
            {"type": "array", "items": {"type": "string", "pattern": "^(\\d+|m:[A-Z_-]+)$"}},
            [["12", "m:A-B"], ["x"], []],
        ),
        ({"type": "array", "minItems": 2, "maxItems": 2}, [[1, "a"], [1], [1, 2, 3]]),
        (
            {
                "type": "object",
                "properties": {
                    "left": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]},
                    "right": {"$ref": "#/properties/left/anyOf/0"},
                },
                "required": ["left", "right"],
            },
            [{"left": {"left": 1, "right": 2}, "right": 3}, {"left": 1, "right": "a"}],
        ),
    ],
)
def test_what_is_kept_to_is_what_the_schema_says(schema, values):
    assert left_to_the_model(schema) == []
    assert read(schema, values) == [
        KNOWN(schema, format_checker=jsonschema.FormatChecker()).is_valid(value) for value in values
    ]


@pytest.mark.parametrize(
    ("schema", "names", "fits", "others"),
    [
        ({**NUMBERS, "uniqueItems": True}, ["uniqueItems"], [[1], [1, 1]], [["a"]]),
        ({"type": "string", "format": ["odd"]}, [], ["a"], [1]),
        ({"type": "object", "propertyNames": {"pattern": {}}}, ["propertyNames"], [{"a": 1}], [1]),
        ({"type": "string", "not": {"const": "a"}}, ["not"], ["a", "b"], [1]),
        (
            {**AB, "if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {}},
            ["if"],
            [{"a": 1}, {"a": 1, "b": 2}],
            [{"a": "x"}],
        ),
        ({**NUMBERS, "contains": {"const": 1}, "minContains": 2}, ["contains"], [[1]], [["a"]]),
        ({**AB, "dependentRequired": {"a": ["b"]}}, ["dependentRequired"], [{"a": 1}], [1]),
        ({**AB, "dependencies": {"a": ["b"]}}, ["dependencies"], [{"a": 1}], [{"a": "x"}]),
        ({**AB, "dependentSchemas": {"a": {}}}, ["dependentSchemas"], [{"a": 1}], [1]),
        ({"type": "object", "propertyNames": {"minLength": 2}}, ["propertyNames"], [{"a": 1}], [1]),
        (
            {"allOf": [AB], "unevaluatedProperties": False},
            ["unevaluatedProperties"],
            [{"a": 1}],
            [{"a": "x"}],
        ),
        ({**AB, "minProperties": 1}, ["minProperties"], [{}, {"a": 1}], [{"c": 1}]),
        ({**AB, "maxProperties": 1}, ["maxProperties"], [{"a": 1, "b": 1}], [{"c": 1}]),
        ({"type": "string", "pattern": "^(?!b)a"}, ["pattern"], ["a", "b"], [1]),
        ({"type": "string", "pattern": "^(a)\\1"}, ["pattern"], ["aa"], [1]),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, ["oneOf"], [1, 1.5], ["a"]),
        ({"oneOf": [{"type": "string"}, {"enum": ["a", 1]}]}, ["oneOf"], ["a", 1], [2]),
        (
            {"oneOf": [{**AB, "required": ["a"]}, {**AB, "required": ["b"]}]},
            ["oneOf"],
            [{"a": 1}, {"b": 1}],
            [{"a": "x"}],
        ),
        (
            {"properties": {"uniqueItems": {**NUMBERS, "uniqueItems": True}}, "required": ["not"]},
            ["uniqueItems"],
            [{"uniqueItems": [1, 1], "not": 1}],
            [{"uniqueItems": [1, 1]}],
        ),
    ],
)
def test_what_cannot_be_kept_to_is_left_to_the_model_and_named(schema, names, fits, others):
    before = copy.deepcopy(schema)
    assert left_to_the_model(schema) == names
    assert schema == before
    assert read(schema, [*fits, *others]) == [True] * len(fits) + [False] * len(others)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{\n"not": {}}', 'broken in line 2: "not" of everything leaves nothing'),
        ('{"a": {"not": true}, \n"items": {"not": true}}', '"not" of everything leaves nothing'),
        ('{\n\n"$ref": "https://example.com/a.json"}', 'line 3: the "$ref" \'https://example'),
        ('{"items":\n{"$ref": "other.json#/a"}}', "line 2"),
        ("false", "expected an object"),
    ],
)
def test_what_nothing_can_be_of_is_a_sentence(text, sentence):
    with pytest.raises(RequestError) as error:
        form_of("JSON schema", text)
    assert sentence in str(error.value)


class Looked(str):
    """A text that counts how often it is compared."""

    times = 0

    def __eq__(self, other):
        Looked.times += 1
        return str(self) == other

    def __hash__(self):
        Looked.times += 1
        return str.__hash__(self)


def test_long_alternatives_are_compared_in_time_that_rises_with_their_length(monkeypatch):
    """A schema is anybody's, and is read where streams wait for it."""
    monkeypatch.setattr(Looked, "times", 0)
    listed = [{"enum": [Looked(f"{n}-{m}") for m in range(256)]} for n in range(12)]
    assert DisjointSchemas({}).are_disjoint(listed)
    pairs = 12 * 11 // 2
    assert Looked.times <= pairs * 3 * 512, "not each value with each"
    many = [{"enum": [f"{n}-{m}" for m in range(256)]} for n in range(60)]
    assert left_to_the_model({"oneOf": many}) == ["oneOf"]
    long, cat = "n" * 2000, {"$ref": "#/$defs/cat"}
    defined = {"$defs": {long: DOG, "cat": CAT, "dog": DOG}}
    for name, left in ((long, ["oneOf"]), ("dog", [])):
        assert left_to_the_model({"oneOf": [cat, {"$ref": f"#/$defs/{name}"}], **defined}) == left


def test_alternatives_that_are_too_many_or_lead_to_themselves_are_named():
    """What is compared is bounded, whatever a schema has."""
    objects = [
        {"type": "object", "properties": {"n": {"const": n}}, "required": ["n"]} for n in range(400)
    ]
    assert left_to_the_model({"oneOf": objects[:60]}) == []
    assert left_to_the_model({"oneOf": objects}) == ["oneOf"]
    around = {"oneOf": [{"$ref": "#"}, {"$ref": "#/oneOf/0"}]}
    assert left_to_the_model(around) == ["oneOf"]
    named = {"$id": "https://example.com/a", **CAT}
    apart = {"oneOf": [{"$ref": "#/$defs/cat"}, DOG], "$defs": {"cat": CAT, "b": named}}
    assert left_to_the_model(apart) == ["oneOf"]
    many = [{"enum": [f"{n} {place}" for n in range(257)]} for place in range(2)]
    assert left_to_the_model({"oneOf": many}) == ["oneOf"]
