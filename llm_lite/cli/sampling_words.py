"""The words of the command line that say how an answer is chosen, and where it ends."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from llm_lite.cli.parser import at_least
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_text
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import OPTIONS

LONGEST_GRAMMAR = 1 << 20  # bytes of a file; how much of it is taken, the grammar says
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
    form = sampling.add_mutually_exclusive_group()
    for row in OPTIONS.values():
        word, what = f"--{row.word}", phrase(row.help)
        match row.kind:
            case "number":
                sampling.add_argument(word, type=float, metavar="X", help=what)
            case "whole":
                sampling.add_argument(word, type=at_least(int(row.low)), metavar="N", help=what)
            case "flag":
                usual = "on" if row.default else "off"
                told = f"{what}; by default it is {usual}"
                sampling.add_argument(word, action=argparse.BooleanOptionalAction, help=told)
            case "texts":
                sampling.add_argument(
                    word.removesuffix("s"),
                    dest=row.name,
                    action="append",
                    metavar="TEXT",
                    help=f"{what}; may be repeated",
                )
            case "biases":
                sampling.add_argument(
                    word,
                    action="append",
                    type=bias_of,
                    metavar="ID=V",
                    help=f"{what}; may be repeated",
                )
            case "text":
                metavar = "FILE|TEXT" if row.name == "json_schema" else "FILE"
                form.add_argument(word, metavar=metavar, help=what)


def phrase(sentences: str) -> str:
    """Return a help text as the command line has them: without capital and last period."""
    return f"{sentences[0].lower()}{sentences[1:].removesuffix('.')}"


def given_sampling(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of `SamplingOptions` that were typed. RequestError and FileError for a schema or
    grammar that cannot be read."""
    typed = {name: getattr(arguments, name) for name in OPTIONS}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in typed.items()
        if value is not None
    }
    if "json_schema" in given:
        given["json_schema"] = schema_of(given["json_schema"])
    if "grammar" in given:
        given["grammar"] = read_text(Path(given["grammar"]), LONGEST_GRAMMAR)
    return given


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
