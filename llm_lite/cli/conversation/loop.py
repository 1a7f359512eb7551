"""Lines of a conversation, read and answered until the person leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from llm_lite.cli.conversation.commands import COMMANDS, SlashCommand, is_command, run_command
from llm_lite.cli.conversation.conversation import CONTINUED, PROMPT, TerminalConversation, checked
from llm_lite.cli.terminal import interrupts
from llm_lite.cli.terminal.output import note, prompt, warn
from llm_lite.cli.terminal.together import more_input
from llm_lite.core.errors import LlmLiteError, RequestError

LONGEST_LINE = 1 << 20  # bytes
Read = Callable[[str], str]  # what the line begins with -> the line


def converse(talk: TerminalConversation) -> None:
    """Read lines and answer them until the person leaves."""
    note(
        f"{talk.model.name} on {talk.executor.device}. "
        "Ctrl-C stops an answer, Ctrl-D leaves, /help says what else there is."
    )
    if talk.completes:
        why = "" if talk.model.has_chat_template else f"{talk.model.name} has no chat template: "
        note(
            f"{why}what you type is one text with what the model writes, which it continues; "
            "/form chat asks it in questions and answers."
        )
    read = make_editor(COMMANDS)
    while not talk.over:
        line = _read(read, talk)
        if line is None:
            return
        try:
            if is_command(line):
                run_command(talk, line)
            elif line.strip():
                talk.submit(checked(line.removeprefix("/") if line.startswith("//") else line))
        except LlmLiteError as error:
            warn(str(error))
        except KeyboardInterrupt:  # the second one during an answer, or one between two answers
            interrupts.answered()
            note("")


def _read(read: Callable[[str], str], talk: TerminalConversation) -> str | None:
    """A line, "" where it was cleared or is no text; None at the end."""
    draft, talk.draft = talk.draft, ""
    try:
        return read(draft)
    except EOFError:
        note("")
        return None
    except KeyboardInterrupt:
        interrupts.answered()
        note("")
        return ""
    except LlmLiteError as error:
        warn(str(error))
        return ""


def make_editor(commands: Mapping[str, SlashCommand]) -> Read:
    """Return a function that reads a message. It raises EOFError at the end of the input,
    KeyboardInterrupt for Ctrl-C, and RequestError for a line that cannot be read, after which the
    next one can be."""
    plain = os.environ.get("TERM", "dumb") in ("dumb", "") and sys.platform != "win32"
    if plain or not sys.stdout.isatty():
        return read_plain
    try:
        from llm_lite.cli.conversation.full_editor import FullEditor

        return FullEditor(commands).read
    except ImportError:
        return read_plain


def read_plain(draft: str = "") -> str:
    """A message from lines as the terminal gives them; a backslash at the end continues one. Lines
    that come together are one message, which ends with the next line that comes alone: the last one
    of a paste often has no end, and a terminal hands over whole lines only. Enter alone is such a
    line, and none of the message."""
    lines: list[str] = []
    pasted = before = False  # before: the last line came together with this one
    while True:
        try:
            line = _read_line(CONTINUED if lines else PROMPT)
        except EOFError:
            if pasted:
                return "\n".join(lines)
            raise
        together = not is_command(line if not lines else lines[0]) and more_input()
        continued = line.endswith("\\") and not (pasted or together)
        if line or together or before or not pasted:
            lines.append(line[:-1] if continued else line)
        if not (continued or together or before):
            return "\n".join(lines)
        pasted |= together
        before = together


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
