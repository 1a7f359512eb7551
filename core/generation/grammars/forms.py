"""In a matcher's process: JSON schemas and grammars in the form that llguidance takes.

Grammars are those of llama.cpp (GBNF) or llguidance's form of Lark's. What is wrong with one is a
sentence, with the line of the text itself where it can be told.
"""

from __future__ import annotations

import json
import re
from typing import Any

from llguidance import LLMatcher, LLParserLimits

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.gbnf import is_gbnf, read_gbnf
from llm_lite.core.generation.grammars.gbnf_form import TokenId, form_of_rules
from llm_lite.core.plain_text import one_line
from llm_lite.core.tools.closed_schema import close_objects
from llm_lite.core.tools.kept_schema import UnkeptError, keep_what_can_be

LONGEST = 256 << 10  # characters of a schema or grammar
LIMITS: dict[
    str, Any
] = {  # llguidance's own are up to five times as high; a step stays within some 10 ms
    "max_items_in_row": 1000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 100_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 250_000,
    "verbose_errors": False,
}
# Between the parts of a JSON text; without an end, a model could write spaces until it is cut off.
_SPACE = r"[ \n\r\t]{0,16}"
# Whether a value is of one alternative only, as oneOf has it, is left to the model.
_SCHEMA_DEFAULTS: Any = {"whitespace_pattern": _SPACE, "coerce_one_of": True}
_LONGEST_PROBLEM = 300  # characters


def form_of(kind: str, text: str, token_id: TokenId = lambda name: 0) -> str:
    """Return the text of a "JSON schema" or "grammar" in llguidance's form, whose tokens are those
    of `token_id`. RequestError if it cannot be one."""
    return _of_schema(text) if kind == "JSON schema" else _of_grammar(text, token_id)


def check_form(kind: str, text: str, grammar: str) -> None:
    """Raise RequestError if the text, of this form, is broken."""
    is_bad, problems = LLMatcher.validate_grammar_with_warnings(grammar, limits=parser_limits())
    if is_bad:
        raise _broken(kind, text, problems[0])


def parser_limits() -> LLParserLimits:
    return LLParserLimits(**LIMITS)


def shortened(problem: str) -> str:
    """Return a problem as one line: the library draws its place on those that follow."""
    first = problem.strip().partition("\n   1 |")[0]
    first = re.split(r"\n\s*\d+ \|", first)[0]
    first = first.removesuffix("<non-verbose/>").removeprefix("Parser Error: ")
    return one_line(" ".join(first.split())[:_LONGEST_PROBLEM])


def _of_schema(text: str) -> str:
    _check_length("JSON schema", text)
    try:
        schema = json.loads(text)
        close_objects(schema)
        keep_what_can_be(schema)
        closed = json.dumps(schema)
    except json.JSONDecodeError as error:
        problem = f"the JSON schema is broken in line {error.lineno}: {error.msg}"
        raise RequestError(problem) from None
    except UnkeptError as error:
        raise _broken("JSON schema", text, str(error)) from None
    except (RecursionError, ValueError) as error:  # too deep; a number of too many digits
        raise RequestError(f"the JSON schema cannot be read: {shortened(str(error))}") from None
    if not isinstance(schema, dict):
        raise RequestError("the JSON schema is broken in line 1: expected an object")
    try:
        return str(LLMatcher.grammar_from_json_schema(closed, defaults=_SCHEMA_DEFAULTS))
    except ValueError as error:
        raise _broken("JSON schema", text, str(error)) from None


def _of_grammar(text: str, token_id: TokenId) -> str:
    _check_length("grammar", text)
    try:
        lark = form_of_rules(read_gbnf(text), token_id) if is_gbnf(text) else text
    except RecursionError:
        raise RequestError("the grammar is nested too deeply") from None
    return str(LLMatcher.grammar_from_lark(lark))


def _check_length(what: str, text: str) -> None:
    if len(text) > LONGEST:
        found = f"found {len(text)}"
        raise RequestError(f"the {what}: expected at most {LONGEST} characters, {found}")
    if not text.isprintable() and "\0" in text:
        raise RequestError(f"the {what} has a character of code 0")


def _broken(what: str, text: str, problem: str) -> RequestError:
    # Of GBNF the library has seen a text of ours, whose lines say nothing to anybody.
    line = 0 if what == "grammar" and is_gbnf(text) else _line_of(text, problem)
    where = f" in line {line}" if line else ""
    problem = re.sub(r"^(at )?\d+\(\d+\): ", "", problem)
    return RequestError(f"the {what} is broken{where}: {shortened(problem)}")


def _line_of(text: str, problem: str) -> int:
    """Return the line that the library names, or else the line of a word that it quotes; 0 if
    neither is found."""
    if found := re.match(r"(?:at )?(\d+)\(\d+\)", problem):
        return int(found[1])
    words = re.findall(r"[\w$./#:-]{2,}", problem)
    for word in sorted(words, key=len, reverse=True):
        for spelled in (f'"{word}"', f'"#{word}"', f"{word} ::="):
            if (at := text.find(spelled)) >= 0:
                return text.count("\n", 0, at) + 1
    return 0
