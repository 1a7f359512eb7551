"""Answers that keep to a JSON schema or a grammar: which tokens may come next.

By llguidance (https://github.com/guidance-ai/llguidance), which is imported when the first grammar
is used. Grammars are those of llama.cpp (GBNF) or llguidance's form of Lark's. They are untrusted:
what they cost is bounded, and what is wrong with one is a sentence.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.token_choice import Mask
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.plain_text import one_line
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.tools.closed_schema import close_objects

LONGEST = 256 << 10  # characters of a schema or grammar
_LIMITS: dict[
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
_LONGEST_PROBLEM = 300  # characters
_ANSWERED = "the answer does not fit the grammar"

_tables: WeakKeyDictionary[Tokenizer, Future[Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def grammar_of(sampling: SamplingOptions, tokenizer: Tokenizer) -> Grammar | None:
    """None where the answer is free. RequestError where the schema or grammar is broken."""
    if not sampling.json_schema and not sampling.grammar:
        return None
    return Grammar(compiled(sampling), tokenizer)


def compiled(sampling: SamplingOptions) -> str:
    """The grammar in llguidance's form; RequestError, with the line, where it is broken."""
    from llguidance import LLMatcher

    if sampling.json_schema:
        grammar, text, what = _of_schema(sampling.json_schema), sampling.json_schema, "JSON schema"
    else:
        grammar, text, what = _of_grammar(sampling.grammar), sampling.grammar, "grammar"
    is_bad, problems = LLMatcher.validate_grammar_with_warnings(grammar, limits=_limits())
    if is_bad:
        raise _broken(what, text, problems[0])
    return grammar


class Grammar:
    """What one answer has said of a grammar, and what it may say next."""

    def __init__(self, grammar: str, tokenizer: Tokenizer) -> None:
        self._text, self._tokenizer = grammar, tokenizer
        self._table = _table(tokenizer)  # made while the prompt is read, where it is new
        self._matcher: Any = None
        self._coming: Future[Mask] | None = None

    def prepare(self) -> None:
        """Begin to find the next mask, in a thread: it is there when the model's step is done."""
        if self._coming is None:
            self._coming = _finder().submit(self._find)

    def mask(self) -> Mask:
        """The tokens that may come next: those that end an answer only where it is complete.

        RequestError where there is none, and where finding them costs too much.
        """
        self.prepare()
        assert self._coming is not None
        return self._coming.result().copy()

    def take(self, token: int) -> None:
        """The answer goes on with this token; RequestError where it must not."""
        if self._coming is not None:  # a matcher is of one thread at a time
            self._coming.exception()
            self._coming = None
        if not self._started().consume_token(token):
            text = self._tokenizer.token_bytes(token).decode(errors="replace")
            raise RequestError(f"{_ANSWERED}: it does not allow {text!r} here")

    def _find(self) -> Mask:
        matcher = self._started()
        mask = np.frombuffer(bytearray(matcher.compute_bitmask()), np.uint32)
        if matcher.is_error():
            raise RequestError(f"the grammar cannot go on: {_shortened(matcher.get_error())}")
        ends = self._tokenizer.end_ids
        for token in ends:
            mask[token // 32] &= ~np.uint32(1 << token % 32)
        if matcher.is_accepting():
            for token in ends:
                mask[token // 32] |= np.uint32(1 << token % 32)
        if not mask.any():
            raise RequestError("the grammar allows no token of this model here: the answer ends")
        return mask

    def _started(self) -> Any:
        if self._matcher is None:
            from llguidance import LLMatcher

            table = self._table.result()
            self._matcher = LLMatcher(table, self._text, log_level=0, limits=_limits())
        return self._matcher


def _of_schema(text: str) -> str:
    from llguidance import LLMatcher

    _check_length("JSON schema", text)
    try:
        schema = json.loads(text)
        close_objects(schema)
        closed = json.dumps(schema)
    except json.JSONDecodeError as error:
        problem = f"the JSON schema is broken in line {error.lineno}: {error.msg}"
        raise RequestError(problem) from None
    except (RecursionError, ValueError) as error:  # too deep; a number of too many digits
        raise RequestError(f"the JSON schema cannot be read: {_shortened(str(error))}") from None
    if not isinstance(schema, dict | bool):
        raise RequestError("the JSON schema is broken in line 1: expected an object")
    try:
        return str(
            LLMatcher.grammar_from_json_schema(closed, defaults={"whitespace_pattern": _SPACE})
        )
    except ValueError as error:
        raise _broken("JSON schema", text, str(error)) from None


def _of_grammar(text: str) -> str:
    from llguidance import LLMatcher
    from llguidance.gbnf_to_lark import GbnfToLarkError, gbnf_to_lark, is_lark_syntax

    _check_length("grammar", text)
    try:
        lark = text if is_lark_syntax(text) else gbnf_to_lark(text)
    except GbnfToLarkError as error:
        line = text.count("\n", 0, error.pos.pos) + 1
        problem = str(error).removesuffix(f" at {error.pos}")
        raise RequestError(f"the grammar is broken in line {line}: {_shortened(problem)}") from None
    except RecursionError:
        raise RequestError("the grammar is nested too deeply") from None
    except Exception as error:  # the library's own are no others
        raise _broken("grammar", text, str(error)) from None
    return str(LLMatcher.grammar_from_lark(lark))


def _check_length(what: str, text: str) -> None:
    if len(text) > LONGEST:
        found = f"found {len(text)}"
        raise RequestError(f"the {what}: expected at most {LONGEST} characters, {found}")
    if not text.isprintable() and "\0" in text:
        raise RequestError(f"the {what} has a character of code 0")


def _broken(what: str, text: str, problem: str) -> RequestError:
    line = _line_of(text, problem)
    where = f" in line {line}" if line else ""
    problem = re.sub(r"^(at )?\d+\(\d+\): ", "", problem)
    return RequestError(f"the {what} is broken{where}: {_shortened(problem)}")


def _line_of(text: str, problem: str) -> int:
    """Where the library names a line, that; else where a word that it quotes stands in the text;
    0 where none does."""
    if found := re.match(r"(?:at )?(\d+)\(\d+\)", problem):
        return int(found[1])
    words = re.findall(r"[\w$./#:-]{2,}", problem)
    for word in sorted(words, key=len, reverse=True):
        for spelled in (f'"{word}"', f'"#{word}"', f"{word} ::="):
            if (at := text.find(spelled)) >= 0:
                return text.count("\n", 0, at) + 1
    return 0


def _shortened(problem: str) -> str:
    """One line: the library draws where it is on those that follow."""
    first = problem.strip().partition("\n   1 |")[0]
    first = re.split(r"\n\s*\d+ \|", first)[0]
    return one_line(" ".join(first.split())[:_LONGEST_PROBLEM])


@cache
def _finder() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "grammar mask")


def _limits() -> Any:
    from llguidance import LLParserLimits

    return LLParserLimits(**_LIMITS)


def _table(tokenizer: Tokenizer) -> Future[Any]:
    """The vocabulary as llguidance takes it, made once for a model in a thread: a second and more
    for 262,144 tokens."""
    with _lock:
        known = _tables.get(tokenizer)
        if known is not None and not (known.done() and known.exception()):
            return known
        made: Future[Any] = Future()
        _tables[tokenizer] = made
    threading.Thread(
        target=_make_table, args=(tokenizer, made), name="grammar vocabulary", daemon=True
    ).start()
    return made


def _make_table(tokenizer: Tokenizer, made: Future[Any]) -> None:
    try:
        from llguidance import LLTokenizer, TokenizerWrapper

        ends = sorted(tokenizer.end_ids)
        wrapper = TokenizerWrapper(_Spelled(tokenizer, ends))
        made.set_result(LLTokenizer(wrapper, eos_token=ends or None))
    except BaseException as error:  # the answer that waits for it says it
        made.set_exception(error)


class _Spelled:
    """Our tokenizer as llguidance wants one. Byte-level and SentencePiece's tokens alike are the
    bytes that they stand for."""

    def __init__(self, tokenizer: Tokenizer, ends: Sequence[int]) -> None:
        everything = range(tokenizer.vocab_size)
        self._tokenizer = tokenizer
        self.eos_token_id = ends[0] if ends else 0
        self.bos_token_id = tokenizer.bos_id
        self.tokens = [tokenizer.token_bytes(token) for token in everything]
        self.special_token_ids = [token for token in everything if tokenizer.is_special(token)]

    def __call__(self, text: str) -> list[int]:
        """Refuses bytes, which the library tries first."""
        if not isinstance(text, str):
            raise TypeError("expected text")
        return self._tokenizer.encode(text, parse_special=False)
