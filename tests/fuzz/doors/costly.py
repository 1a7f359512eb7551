"""JSON schemas and grammars that are right, and made to cost: chains of references and of rules,
many rules, large divisors, patterns that blow up, deep nesting, huge enums, counts of items."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from llm_lite.core.generation.grammars import matchers
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from tests.fuzz.door import Case, Door
from tests.fuzz.doors.grammar import follow
from tests.fuzz.doors.grammar import prepare as prepare_grammar

MOST = 250_000  # characters: a little below what is read
_SIZES = (1, 3, 10, 100, 1000, 3000, 8000)
_REPEATED = ("a", "[a-z]", "(a|b)", "(a|aa)", "(.*a)", "a*", "(a*)*", "[^b]", "\\w", "(ab|a|b)")
_COUNTS = ("*", "+", "?", "{3}", "{0,100}", "{1000}", "{0,100000}", "{99999,}")


def use(case: Case) -> None:
    rng = case.rng
    make = rng.choice(_SCHEMAS + _GRAMMARS)
    made = make(rng)
    if isinstance(made, str):
        sampling = SamplingOptions(grammar=made[:MOST])
    else:
        sampling = SamplingOptions(json_schema=json.dumps(made))
    follow(sampling, rng)


def prepare() -> None:
    # What only time ends is over sooner: there are many such cases.
    limits = matchers.LIMITS
    matchers.LIMITS = replace(limits, compile_seconds=0.5, mask_seconds=0.3)
    prepare_grammar()


def _references(rng: random.Random) -> Any:
    """A chain, a ring or a tree of schemas that refer to others."""
    count, wrap = rng.choice(_SIZES), rng.choice(_WRAPS)
    named = {f"d{i}": wrap({"$ref": f"#/$defs/d{i + 1}"}) for i in range(count)}
    last: Any = rng.choice(({"type": "integer"}, {"$ref": "#/$defs/d0"}, True, {"const": "a"}))
    if rng.random() < 0.2:
        named = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**named, f"d{count}": last}}


_WRAPS: tuple[Callable[[Any], Any], ...] = (
    lambda schema: schema,
    lambda schema: {"type": "object", "properties": {"a": schema}, "required": ["a"]},
    lambda schema: {"type": "array", "items": schema, "minItems": 1},
    lambda schema: {"allOf": [schema]},
    lambda schema: {"anyOf": [schema, {"type": "null"}]},
    lambda schema: {"oneOf": [schema, {"type": "null"}]},
    lambda schema: {"type": "array", "prefixItems": [schema, schema]},
)


def _divisor(rng: random.Random) -> Any:
    number = rng.choice((rng.randrange(1, 10 ** rng.randrange(1, 13)), 10 ** rng.randrange(20)))
    if rng.random() < 0.3:
        return {"type": "number", "multipleOf": number / 10 ** rng.randrange(12)}
    bounds = {"minimum": rng.randrange(-(10**9), 10**9), "maximum": 10 ** rng.randrange(18)}
    return {"type": "integer", "multipleOf": number, **(bounds if rng.random() < 0.4 else {})}


def _pattern(rng: random.Random) -> str:
    parts = (rng.choice(_REPEATED) + rng.choice(_COUNTS) for _ in range(rng.choice((1, 2, 3, 20))))
    found = "".join(parts)
    if rng.random() < 0.3:
        found = f"({found}){rng.choice(_COUNTS)}"
    return found


def _schema_pattern(rng: random.Random) -> Any:
    text = {"type": "string", "pattern": f"^{_pattern(rng)}$"}
    if rng.random() < 0.3:
        text["maxLength"] = rng.choice((5, 1000, 10**6))  # type: ignore[assignment]
    return text


def _nested(rng: random.Random) -> Any:
    schema: Any = {"type": "integer"}
    wrap = rng.choice(_WRAPS[1:6])
    for _ in range(rng.choice((3, 30, 100, 200))):
        schema = wrap(schema)
    return schema


def _enum(rng: random.Random) -> Any:
    count, length = rng.choice(((10, 9), (1000, 9), (9000, 9), (20, 9000), (200, 900)))
    letters = rng.choice(("ab", "abcdefgh"))
    words = {"".join(rng.choices(letters, k=rng.randrange(1, length))) for _ in range(count)}
    return {"enum": sorted(words)}


def _counts(rng: random.Random) -> Any:
    least = rng.choice((0, 1, 50, 1000, 100_000, 10**9))
    most = least + rng.choice((0, 1, 1000, 10**9))
    kind = rng.choice(("Items", "Length", "Properties"))
    schema = {"Items": "array", "Length": "string", "Properties": "object"}[kind]
    inner = rng.choice(({}, {"items": {"type": "integer"}}, {"items": {"enum": ["a", "b"]}}))
    return {"type": schema, f"min{kind}": least, f"max{kind}": most, **inner}


def _many_properties(rng: random.Random) -> Any:
    names = [f"p{i}" for i in range(rng.choice((10, 300, 3000)))]
    required = rng.sample(names, len(names) // rng.choice((1, 2, 100)))
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": required}
    return {"type": "object", **schema, "additionalProperties": rng.random() < 0.5}


def _lark_rules(rng: random.Random) -> str:
    count, last = rng.choice(_SIZES), rng.choice(('"a"', "/[a-z]+/", "r0", "/a/ | r0"))
    form = rng.choice(("r{}", '"a" r{}', 'r{} "a"', "r{} r{}", "r{} | r{}", "r{}*", "r{}?"))
    rules = (f"r{i}: {form.replace('{}', str(i + 1))}\n" for i in range(count))
    return (
        "start: r0\n" + "".join(rules)[: MOST - 100].rpartition("\n")[0] + f"\nr{count}: {last}\n"
    )


def _gbnf_rules(rng: random.Random) -> str:
    count = rng.choice(_SIZES[:5])
    form = rng.choice(("r{}", '"a" r{}', 'r{} "a"', "r{} | r{}", "r{}*", "(r{} ){{0,9}}"))
    rules = (f"r{i} ::= {form.replace('{}', str(i + 1), 2)}\n" for i in range(count))
    return "root ::= r0\n" + "".join(rules) + f'r{count} ::= "a"\n'


def _gbnf_alike(rng: random.Random) -> str:
    """Rules whose ends are mistaken for each other: many places for each character."""
    count, parts = rng.choice((3, 30, 300)), ("[a-z]", '"ab"', '"a"', "[^a]", ".", "[ab]*", "{}")
    rules = []
    for index in range(count):
        ways = [
            " ".join(
                rng.choice(parts).replace("{}", f"r{rng.randrange(count)}")
                + rng.choice(("", "", "?", "*", "{0,9}"))
                for _ in range(rng.choice((1, 3, 40)))
            )
            for _ in range(rng.choice((1, 2, 9)))
        ]
        rules.append(f"r{index} ::= {' | '.join(ways)}\n")
    return "root ::= r0\n" + "".join(rules)


def _gbnf_words(rng: random.Random) -> str:
    """Long lists of words, or of characters by number, alone or behind each other."""
    count = rng.choice(_SIZES)
    words = " | ".join(f'"{rng.choice("abc") * (i % 7)}{i}"' for i in range(count))
    numbers = "".join(f"\\U{rng.randrange(0x10000, 0x10FFFF):08X}" for _ in range(count))
    return f"root ::= ({words}) root | [{numbers}]{rng.choice(('', '*', '{0,99}'))}"


def _wide(rng: random.Random) -> str:
    """One rule of many others."""
    count = rng.choice(_SIZES)
    names = [f"r{i}" for i in range(count)]
    join = rng.choice((" | ", " ", "? "))
    rules = "".join(f'{name}: "a" x{name}\nx{name}: "{name}"\n' for name in names)
    return f"start: {join.join(names)}\n{rules}"


def _regex(rng: random.Random) -> str:
    return f"start: /{_pattern(rng)}/{rng.choice(('', '*', '{0,1000}'))}\n"


def _parentheses(rng: random.Random) -> str:
    count, opened, closed = rng.choice(_SIZES), *rng.choice(("()", "[]", ("(", ")*")))
    lead = rng.choice(("root ::= ", "start: "))
    return lead + opened * count + '"a"' + closed * count


def _ambiguous(rng: random.Random) -> str:
    options = " | ".join(rng.sample(("start start", "/a/", "/aa/", "/a*/", "a b", '""'), 4))
    return f'start: {options}\na: "a" | a a\nb: a | "b" start'


_SCHEMAS: tuple[Callable[[random.Random], Any], ...] = (
    _references,
    _divisor,
    _schema_pattern,
    _nested,
    _enum,
    _counts,
    _many_properties,
)
_GRAMMARS: tuple[Callable[[random.Random], Any], ...] = (
    _lark_rules,
    _gbnf_rules,
    _gbnf_alike,
    _gbnf_words,
    _wide,
    _regex,
    _parentheses,
    _ambiguous,
)

DOOR = Door("costly", use, prepare)
