"""The program with a witness inside: `python -m tools.cross.watched NOTES desktop ...`.

It is `llm-lite` as it is; a line is added to the file NOTES for whatever the window tells the
person (toasts, log, ends of answers), and for each pass of the event loop that took long. Where
what it opened is a model that can be talked to, it asks it something.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from llm_lite.cli import main
from llm_lite.desktop.app import app as desktop_app
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.render.window import Window

LONG = 0.05  # seconds of a pass that are worth a note


class Witness:
    def __init__(self, path: str) -> None:
        self._file = open(path, "a", buffering=1)  # noqa: SIM115, PTH123 - as long as the process
        self._told: set[object] = set()
        self._asked = ""
        self._woke, self._used = time.monotonic(), time.thread_time()

    def note(self, kind: str, text: object) -> None:
        self._file.write(json.dumps([kind, time.monotonic(), text]) + "\n")

    def sleeps(self) -> None:
        """The loop is about to wait for input: how long it was busy, and what of that it computed
        itself; the rest it waited for the interpreter, the device or a core."""
        busy = time.monotonic() - self._woke
        if busy > LONG:
            self.note("pass", [busy, time.thread_time() - self._used])

    def woke(self) -> None:
        self._woke, self._used = time.monotonic(), time.thread_time()

    def look(self, app: Any) -> None:
        state = app.program.state
        for line in (*state.notices, *state.log):
            if (key := (line.level, line.text)) not in self._told:
                self._told.add(key)
                self.note(line.level, line.text)
        if state.model and not state.load and state.model.path != self._asked and not state.busy:
            self._asked = state.model.path
            self.note("loaded", state.model.path.encode("utf-8", "backslashreplace").decode())
            app.program.do(NewChat())
            app.program.do(Send("hello there, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"))
        for message in state.messages:
            if message.stop_reason and message.id not in self._told:
                self._told.add(message.id)
                self.note("answered", f"{message.stop_reason}: {message.problem}")


def watch(path: str) -> None:
    witness = Witness(path)
    turn, wait, poll = desktop_app.App.turn, Window.wait_events, Window.poll_events

    def watched_turn(app: Any) -> None:
        turn(app)
        witness.look(app)

    def watched(real: Any) -> Any:
        def sleep(*arguments: Any) -> None:
            witness.sleeps()
            real(*arguments)
            witness.woke()

        return sleep

    setattr(desktop_app.App, "turn", watched_turn)  # noqa: B010 - for the type checker
    setattr(Window, "wait_events", watched(wait))  # noqa: B010
    setattr(Window, "poll_events", watched(poll))  # noqa: B010


if __name__ == "__main__":
    watch(sys.argv[1])
    sys.exit(main.main(sys.argv[2:]))
