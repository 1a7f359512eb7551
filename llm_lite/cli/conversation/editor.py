"""Chooses how lines are read: with an editor and a history on a terminal, else line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from llm_lite.cli.conversation.commands import SlashCommand
from llm_lite.cli.conversation.line_editor import read_plain

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
