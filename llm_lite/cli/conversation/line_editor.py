"""Reads what a person types, line by line as the terminal gives it."""

from __future__ import annotations

import sys

from llm_lite.cli.terminal.output import prompt
from llm_lite.core.errors import RequestError

PROMPT, CONTINUED = "> ", ". "
LONGEST_LINE = 1 << 20  # bytes


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
