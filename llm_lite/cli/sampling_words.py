"""The words of the command line that say how an answer is chosen, and where it ends."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from llm_lite.cli.parser import at_least
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_text
from llm_lite.core.messages import SamplingOptions

LONGEST_GRAMMAR = 1 << 20  # bytes of a file; how much of it is taken, the grammar says
_NUMBERS: tuple[tuple[str, type, str], ...] = (  # field, kind, what is said of it
    ("temperature", float, "0: greedy decoding"),
    ("top_k", int, "sample from the N likeliest tokens; 0: off"),
    (
        "top_p",
        float,
        "sample from the likeliest tokens that together have this probability; 1: off",
    ),
    ("min_p", float, "drop tokens below this share of the likeliest token's probability; 0: off"),
    ("typical_p", float, "locally typical sampling: the probability mass to keep; 1: off"),
    (
        "xtc_probability",
        float,
        "chance that XTC keeps only the least likely token above its threshold; 0: off",
    ),
    ("xtc_threshold", float, "XTC's threshold, a probability"),
    ("repetition_penalty", float, "divides the logits of tokens that occurred; 1: off"),
    ("presence_penalty", float, "subtracted once from the logit of a token that occurred; 0: off"),
    ("frequency_penalty", float, "subtracted for each time that a token occurred; 0: off"),
    ("penalty_window", int, "the three penalties count the last N tokens"),
    ("dry_multiplier", float, "DRY penalty, against repeated sequences; 0: off"),
    ("dry_base", float, "factor by which the DRY penalty grows with each repeated token"),
    ("dry_allowed_length", int, "repeats of up to N tokens get no DRY penalty"),
    ("dry_window", int, "DRY searches the last N tokens"),
    ("mirostat_tau", float, "Mirostat 2: target surprise in bits, replaces the filters; 0: off"),
    ("mirostat_eta", float, "Mirostat 2: learning rate"),
    ("max_thinking_tokens", int, "end the thinking after N tokens; 0: no limit"),
)


ADVISED = (
    "What is not said is as the model's own files advise (generation_config.json, general.sampling "
    "of a GGUF file), or the card of its family, or else as the program does it."
)
FORMS = ("auto", "chat", "completion")


def add_form(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--form",
        choices=FORMS,
        default="auto",
        help="chat: questions and answers; completion: one text, which the model continues; auto: "
        "what the model is made for, which is completion where it has no chat template",
    )


def add_sampling(sampling: argparse._ArgumentGroup) -> None:
    sampling.add_argument(
        "--seed", type=at_least(0), metavar="N", help="the same seed gives the same answer"
    )
    for field, kind, what in _NUMBERS:
        word = f"--{field.replace('_', '-')}"
        sampling.add_argument(word, type=kind, help=what, metavar="N" if kind is int else "X")
    sampling.add_argument(
        "--max-new-tokens", type=at_least(1), metavar="N", help="longest answer, in tokens"
    )
    sampling.add_argument(
        "--dry-breaker",
        action="append",
        metavar="TEXT",
        help="a text that ends a sequence for DRY; may be repeated",
    )
    sampling.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="a text before which the answer ends; may be repeated",
    )
    sampling.add_argument(
        "--logit-bias",
        action="append",
        type=bias_of,
        metavar="ID=V",
        help="add V to the logit of the token ID; -100 bans it; may be repeated",
    )
    sampling.add_argument(
        "--repetition-guard",
        action=argparse.BooleanOptionalAction,
        help="whether an answer is ended that repeats itself without an end; by default it is",
    )
    form = sampling.add_mutually_exclusive_group()
    form.add_argument(
        "--json-schema", metavar="FILE|TEXT", help="the answer is JSON that this schema allows"
    )
    form.add_argument(
        "--grammar",
        metavar="FILE",
        help="the answer is a text that this GBNF or Lark grammar allows",
    )


def given_sampling(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of `SamplingOptions` that were typed. RequestError and FileError for a schema or
    grammar that cannot be read."""
    names = ("seed", "max_new_tokens", *(field for field, _, _ in _NUMBERS))
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    for name, field in (("dry_breaker", "dry_breakers"), ("stop", "stop")):
        texts = getattr(arguments, name)
        given[field] = None if texts is None else tuple(texts)
    given["logit_bias"] = arguments.logit_bias and tuple(arguments.logit_bias)
    given["json_schema"] = arguments.json_schema and schema_of(arguments.json_schema)
    given["grammar"] = arguments.grammar and read_text(Path(arguments.grammar), LONGEST_GRAMMAR)
    given["repetition_guard"] = arguments.repetition_guard
    return {name: value for name, value in given.items() if value is not None}


def sampling_options(arguments: argparse.Namespace) -> SamplingOptions:
    """As `given_sampling`, over the program's own defaults."""
    return SamplingOptions(**given_sampling(arguments))


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
