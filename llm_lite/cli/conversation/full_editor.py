"""The line editor of an interactive terminal: prompt_toolkit with a history and completion."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from llm_lite.cli.conversation.commands import is_command
from llm_lite.cli.conversation.conversation import CONTINUED, PROMPT
from llm_lite.cli.terminal.together import more_input
from llm_lite.core.errors import FileError
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.private import FILE, private_folder, tighten

if TYPE_CHECKING:
    from llm_lite.cli.conversation.commands import SlashCommand


KEPT = 256 << 10  # bytes that are read, and left when the file has grown to GROWN
GROWN = 1 << 20
LEAVES = (Keys.ControlC, Keys.ControlD)  # no part of a paste


class LineHistory(History):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the lines of the history, the newest first."""
        lines = self._tail().splitlines()
        return [text for text in map(_text, reversed(lines)) if text]

    def store_string(self, string: str) -> None:
        if not _is_text(string):
            return
        with contextlib.suppress(OSError, FileError):
            private_folder(self._path.parent, shared=True)
            self._append((json.dumps(string) + "\n").encode())

    def _append(self, line: bytes) -> None:
        file = self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(file).st_size > GROWN:
                tail = self._tail()
                os.ftruncate(file, 0)
                os.write(file, tail)
            os.write(file, line)
        finally:
            os.close(file)

    def _tail(self) -> bytes:
        """Return the last whole lines of the file."""
        with contextlib.suppress(OSError), os.fdopen(self._open(os.O_RDONLY), "rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - KEPT)
            file.seek(begin)
            raw = file.read(KEPT)
            return raw.partition(b"\n")[2] if begin else raw
        return b""

    def _open(self, flags: int) -> int:
        """OSError for anything but a file: a FIFO would be waited for."""
        file = os.open(self._path, flags | getattr(os, "O_NONBLOCK", 0), FILE)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError("not a file")
        tighten(file)
        return file


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
        """Read a message. EOFError at the end of the input, KeyboardInterrupt for Ctrl-C."""
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
        elif not is_command(document.text) and is_pasted(event):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    def is_pasted(event: KeyPressEvent) -> bool:
        """Return whether the end of a line came together with what is behind it: terminals that
        mark no pastes give their lines as if typed."""
        queue = event.key_processor.input_queue
        return queue[0].key not in LEAVES if queue else more_input()

    @keys.add("tab", filter=Condition(lambda: not is_command(get_app().current_buffer.text)))
    def insert_tab(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\t")

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def history_path() -> Path:
    return user_folder("state") / "chat-history"


def _text(line: bytes) -> str:
    """Return the text of a line of the history, "" if the line has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) and _is_text(value) else ""


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
