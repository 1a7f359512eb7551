"""Reads what a person types: with an editor and a history on a terminal, else line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from llm_lite.cli.terminal.output import prompt
from llm_lite.core.errors import RequestError

if TYPE_CHECKING:
    from llm_lite.cli.conversation.commands import SlashCommand

PROMPT, CONTINUED = "> ", ". "
LONGEST_LINE = 1 << 20  # bytes

Read = Callable[[str], str]  # what the line begins with -> the line


def make_editor(commands: Mapping[str, SlashCommand]) -> Read:
    """A function that reads a message: EOFError at the end, KeyboardInterrupt for Ctrl-C,
    RequestError for a line that cannot be read; the next one can be."""
    plain = os.environ.get("TERM", "dumb") in ("dumb", "") and sys.platform != "win32"
    if plain or not sys.stdout.isatty():
        return read_plain
    try:
        from llm_lite.cli.conversation.full_editor import FullEditor

        return FullEditor(commands).read
    except ImportError:
        return read_plain


def read_plain(draft: str = "") -> str:
    """A message from lines as the terminal gives them; a backslash at the end continues one."""
    lines: list[str] = []
    while True:
        line = _read_line(CONTINUED if lines else PROMPT)
        continued = line.endswith("\\")
        lines.append(line[:-1] if continued else line)
        if not continued:
            return "\n".join(lines)


def _read_line(before: str) -> str:
    prompt(before)
    try:
        raw = sys.stdin.buffer.readline(LONGEST_LINE + 1)
        rest = raw
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):  # what follows is of this line
            rest = sys.stdin.buffer.readline(LONGEST_LINE + 1)
    except OSError as error:
        raise EOFError(error.strerror) from error  # the terminal has gone
    if not raw:
        raise EOFError
    if len(raw) > LONGEST_LINE:
        raise RequestError(f"the line has more than {LONGEST_LINE} bytes")
    try:
        return raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise RequestError(f"the line is not valid UTF-8 at byte {error.start}") from None
