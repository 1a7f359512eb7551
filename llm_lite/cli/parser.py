"""The parser of all commands: one line for a wrong word, a description for each command."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from llm_lite.core.messages.options import BACKENDS
from llm_lite.core.plain_text import one_line, quote

DEVICE_HELP = "number of the Vulkan device, as `llm-lite doctor` shows it"
_LONGEST_ERROR = 400  # characters
_ALIKE = 0.75  # of difflib's ratio, from which on a word is taken for a mistyped command


class Parser(argparse.ArgumentParser):
    """A parser whose errors quote what was typed and name `--help`, whose page is long."""

    def error(self, message: str) -> NoReturn:
        sentence = one_line(message[:_LONGEST_ERROR])
        self.exit(2, f"{self.prog}: {sentence}\nSee `{self.prog} --help`.\n")


if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Parser]
else:
    Subparsers = argparse._SubParsersAction


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """A command's own page begins with what the list of commands says of it."""

    def add_parser(self, name: str, **more: Any) -> Parser:
        words = str(more.get("help", ""))
        more.setdefault("description", words and f"{words[0].upper()}{words[1:]}.")
        made: Parser = super().add_parser(name, **more)
        return made


class at_least:  # noqa: N801  argparse shows the name
    """The type of a whole number from `low` on. -1, as other programs have it, is `minus_one`."""

    def __init__(self, low: int, minus_one: int | None = None) -> None:
        self._low, self._minus_one = low, minus_one
        self.__name__ = f"integer of at least {low}"

    def __call__(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            problem = f"expected a whole number, found {text!r}"
            raise argparse.ArgumentTypeError(problem) from None
        if value == -1 and self._minus_one is not None:
            return self._minus_one
        if value < self._low:
            raise argparse.ArgumentTypeError(f"expected at least {self._low}, found {value}")
        return value


def parameter(text: str) -> tuple[str, float]:
    """Parse NAME=VALUE."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        problem = f"expected NAME=NUMBER, found {text[:60]!r}"
        raise argparse.ArgumentTypeError(problem) from None


def backend(text: str) -> str:
    """Check the name of an executor. Packages are asked for theirs only if it is none of our
    own."""
    if text not in BACKENDS:
        from llm_lite.core.loading.accelerators import backend_names

        names = backend_names()
        if text not in names:
            expected = f"expected one of {', '.join(names)}, found {quote(text)}"
            raise argparse.ArgumentTypeError(expected)
    return text


def mistyped(word: str, commands: Iterable[str]) -> str:
    """Return a sentence if the word is no file and looks like a command, "" if it may be a
    model."""
    if not word.isascii() or not word.isalpha() or Path(word).exists():
        return ""
    found = difflib.get_close_matches(word, commands, 1, _ALIKE)
    if not found:
        return ""
    return (
        f"there is no command {quote(word)}: did you mean {found[0]}? A model of that name opens "
        f"with `llm-lite desktop {word}`"
    )
