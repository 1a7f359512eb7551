"""The words of the command line that say how an answer is chosen, and where it ends."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_text
from llm_lite.core.messages import SamplingOptions

LONGEST_GRAMMAR = 1 << 20  # bytes of a file; how much of it is taken, the grammar says
_NUMBERS: tuple[tuple[str, type, str], ...] = (  # field, kind, what is said of it
    ("temperature", float, "0: greedy"),
    ("top_k", int, "0: off"),
    ("top_p", float, "1: off"),
    ("min_p", float, "0: off"),
    ("typical_p", float, "1: off"),
    ("xtc_probability", float, "that the likeliest tokens go; 0: off"),
    ("xtc_threshold", float, "which tokens these are"),
    ("repetition_penalty", float, "1: off"),
    ("presence_penalty", float, "0: off"),
    ("frequency_penalty", float, "0: off"),
    ("penalty_window", int, "last tokens that the three look at"),
    ("dry_multiplier", float, "against repeats of more than a word; 0: off"),
    ("dry_base", float, "how it grows with their length"),
    ("dry_allowed_length", int, "tokens that may repeat"),
    ("dry_window", int, "last tokens that are searched"),
    ("mirostat_tau", float, "bits of surprise, in the place of the filters; 0: off"),
    ("mirostat_eta", float, "how fast they are aimed at"),
    ("max_thinking_tokens", int, "the thought is ended after so many; 0: no limit"),
)


def add_sampling(sampling: argparse._ArgumentGroup, whole: Any) -> None:
    """`whole(low)` is the type of a whole number of at least `low`."""
    sampling.add_argument("--seed", type=whole(0))
    for field, kind, what in _NUMBERS:
        word = f"--{field.replace('_', '-')}"
        sampling.add_argument(word, type=kind, help=what, metavar="N" if kind is int else "X")
    sampling.add_argument("--max-new-tokens", type=whole(1), metavar="N")
    sampling.add_argument(
        "--dry-breaker",
        action="append",
        metavar="TEXT",
        help="repeats do not reach across it; may come again",
    )
    sampling.add_argument(
        "--stop", action="append", metavar="TEXT", help="the answer ends before it; may come again"
    )
    sampling.add_argument(
        "--logit-bias",
        action="append",
        type=bias_of,
        metavar="ID=V",
        help="added to the logit of a token: -100 bans it; may come again",
    )
    form = sampling.add_mutually_exclusive_group()
    form.add_argument("--json-schema", metavar="FILE|TEXT", help="the answer is JSON of it")
    form.add_argument("--grammar", metavar="FILE", help="the answer is a text of it: GBNF or Lark")


def sampling_options(arguments: argparse.Namespace) -> SamplingOptions:
    """RequestError and FileError for a schema or grammar that cannot be read."""
    names = ("seed", "max_new_tokens", *(field for field, _, _ in _NUMBERS))
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    for name, field in (("dry_breaker", "dry_breakers"), ("stop", "stop")):
        texts = getattr(arguments, name)
        given[field] = None if texts is None else tuple(texts)
    given["logit_bias"] = arguments.logit_bias and tuple(arguments.logit_bias)
    given["json_schema"] = arguments.json_schema and schema_of(arguments.json_schema)
    given["grammar"] = arguments.grammar and read_text(Path(arguments.grammar), LONGEST_GRAMMAR)
    return SamplingOptions(**{name: value for name, value in given.items() if value is not None})


def schema_of(word: str) -> str:
    """A JSON object as it was typed, or a file's."""
    if word.lstrip().startswith("{"):
        return word
    return read_text(Path(word), LONGEST_GRAMMAR)


def bias_of(word: str) -> tuple[int, float]:
    token, is_pair, value = word.partition("=")
    try:
        if not is_pair or not token.isascii() or not token.isdecimal():
            raise ValueError
        return int(token), float(value)
    except ValueError:
        problem = f"expected a token id, = and a number, found {word[:40]!r}"
        raise argparse.ArgumentTypeError(problem) from None


def bias_from(word: str) -> tuple[int, float]:
    """RequestError instead, for a conversation."""
    try:
        return bias_of(word)
    except argparse.ArgumentTypeError as error:
        raise RequestError(f"/logit-bias: {error}") from None
