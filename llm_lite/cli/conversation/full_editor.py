"""The line editor of an interactive terminal: prompt_toolkit with a history and completion."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from llm_lite.cli.conversation.history import LineHistory, history_path
from llm_lite.cli.conversation.line_editor import CONTINUED, PROMPT

if TYPE_CHECKING:
    from llm_lite.cli.conversation.commands import SlashCommand


class FullEditor:
    def __init__(self, commands: Mapping[str, SlashCommand], history: Path | None = None) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=LineHistory(history or history_path()),
            completer=CommandCompleter(commands),
            complete_while_typing=False,
            key_bindings=_keys(),
            multiline=True,
            prompt_continuation=CONTINUED,
            enable_open_in_editor=False,
        )

    def read(self, draft: str = "") -> str:
        """A message: EOFError at the end, KeyboardInterrupt for Ctrl-C."""
        handler = signal.getsignal(signal.SIGINT)
        try:
            return self._session.prompt(PROMPT, default=draft)
        finally:  # the event loop leaves Python's own there
            signal.signal(signal.SIGINT, handler)


class CommandCompleter(Completer):
    """Names of commands, and the values that one takes."""

    def __init__(self, commands: Mapping[str, SlashCommand]) -> None:
        self._commands = commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or text.startswith("//") or "\n" in text:
            return
        name, space, value = text[1:].partition(" ")
        if not space:
            yield from _starting(name, self._commands)
        elif name in self._commands:
            command = self._commands[name]
            yield from _starting(value, command.values)
            if command.takes_path:
                yield from self._paths.get_completions(Document(value, len(value)), event)


def _starting(begun: str, words: Iterable[str]) -> Iterable[Completion]:
    return (Completion(word, -len(begun)) for word in words if word.startswith(begun))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        document = buffer.document
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif document.text_before_cursor.endswith("\\") and not document.text_after_cursor:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
