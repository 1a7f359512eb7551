"""JSON schemas and grammars: mutated, nested, repeated without measure; compiled and followed."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.generation.grammars.grammar import Grammar
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.text.tokenizer import Tokenizer
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import change_json, mutate_bytes, to_json
from tests.make_gguf import tokenizer_metadata

STEPS = 30
_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "maxLength": 9, "pattern": "^[a-z]*$"},
        "b": {"type": "integer", "minimum": -5, "maximum": 70},
        "c": {"type": "array", "items": {"$ref": "#/$defs/d"}, "minItems": 1, "maxItems": 3},
        "e": {"anyOf": [{"const": 1}, {"enum": ["x", None]}], "format": "date"},
    },
    "required": ["a", "c"],
    "$defs": {"d": {"type": "number"}},
    "additionalProperties": False,
}
# Keywords that are said otherwise, or left to the model.
_LEFT: dict[str, Any] = {
    "uniqueItems": True,
    "not": {"const": 1},
    "if": {"required": ["a"]},
    "then": {"required": ["b"]},
    "propertyNames": {"pattern": "^[a-z]"},
    "unevaluatedProperties": False,
    "contains": {"type": "integer"},
    "dependentRequired": {"a": ["b"]},
    "$dynamicRef": "#d",
    "$dynamicAnchor": "d",
    "minProperties": 1,
    "pattern": "^(?!a)(b)\\1",
    "format": "phone",
}
_GRAMMARS = (
    'root ::= item+ ("," item)*\nitem ::= [a-z]{1,3} | "\\x41" | num # a comment\nnum ::= [0-9]+',
    'root ::= start "\\u00e9"? | ([^a-c\\n] . {0,2}){1,3} "ing"\n  | <[7]> !<[9]>*\n'
    'start ::= Ab a-b\nAb ::= [&&~~--]+\na-b ::= ("x"+)? a_b\na_b ::= "\\U0001F600" | "" ',
    'root ::= "(" root ")" | w w\nw ::= [a-z]+ ("ab" | "a") | "b" w',
    'start: a{2,5} ("x" | /y+[^z]/)*\na: "q" | "(" a ")"\n%ignore /[ \\n]/',
    "start: /(a|b)*a(a|b){30}c/",
)
_PIECES = (
    "(",
    ")*",
    "{0,99999}",
    "+",
    "/(.*x){9}/",
    "|",
    '"a"',
    "::=",
    "[^",
    "\\u{110000}",
    "a a",
    "\\uD83D",
    "[z-a]",
)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_gguf(tokenizer_metadata(300), Path("tiny"))


def use(case: Case) -> None:
    follow(options(case.rng), case.rng)


def follow(sampling: SamplingOptions, rng: random.Random) -> None:
    """Some tokens that a schema or grammar allows."""
    grammar = Grammar(sampling, tokenizer())
    try:
        for _ in range(STEPS):
            bits = np.unpackbits(grammar.mask().view(np.uint8), bitorder="little")
            token = rng.choice(np.flatnonzero(bits).tolist())
            if token in tokenizer().end_ids:
                return
            grammar.take(token)
    finally:
        grammar.close()


def options(rng: random.Random) -> SamplingOptions:
    if rng.random() < 0.5:
        value = json.loads(json.dumps(_SCHEMA))
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            change_json(value, rng)
        if isinstance(value, dict):
            value.update(rng.sample(sorted(_LEFT.items()), rng.choice((0, 1, 3))))
        raw = to_json(value) if rng.random() < 0.8 else mutate_bytes(to_json(value), rng)
        return SamplingOptions(json_schema=raw.decode(errors="replace") or " ")
    text = rng.choice(_GRAMMARS)
    for _ in range(rng.choice((0, 1, 2, 6))):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(_PIECES) * rng.choice((1, 1, 3, 300)) + text[at:]
    if rng.random() < 0.3:
        text = mutate_bytes(text.encode(), rng).decode(errors="replace")
    return SamplingOptions(grammar=text or " ")


def prepare() -> None:
    follow(SamplingOptions(grammar='root ::= "a"'), random.Random(0))


DOOR = Door("grammar", use, prepare)
