"""A window in which a scripted person types, asks, edits, deletes and imports until it is killed.

    python -m tools.cross.talking_window MODEL IMPORTED SEED [SECONDS]

One line of JSON on standard output for each message that changed in the chat: the conversation it
stands in and its key, both of this process, its role, its text so far, whether it is finished, and
the system's monotonic clock. `ready` stands before all others. With SECONDS the window closes by
itself then. Settings and history are where XDG_CONFIG_HOME and XDG_DATA_HOME say.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable

from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app.app import SWITCH, App
from llm_lite.desktop.app.settings import SettingsStore, history_file, restore, settings_path
from llm_lite.desktop.features.chat.model import (
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    SetDraft,
    StopAnswer,
)
from llm_lite.desktop.features.history.model import (
    DeleteConversation,
    ImportConversations,
    OpenConversation,
    PinConversation,
    RenameConversation,
    UndoHistory,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message

BETWEEN = (0.0, 0.15)  # seconds from one action to the next
PAUSE = 0.002  # seconds between two turns of the window's loop
LONGEST_ANSWER = 150  # tokens
END = 2  # the token that ends an answer of the tiny model; without it answers are as long as that


def say(text: str) -> None:
    os.write(1, (text + "\n").encode("utf-8", "backslashreplace"))


class Witness:
    """Tells of each message as it grows."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], Message] = {}

    def look(self, state: AppState) -> None:
        for message in state.messages:
            key = (state.chat, message.id)
            if self._seen.get(key) is message:
                continue
            self._seen[key] = message
            done = message.role == "user" or message.stop_reason is not None
            told = {"chat": key[0], "key": key[1], "role": message.role, "text": message.whole}
            say(json.dumps({**told, "done": done, "at": time.monotonic()}))


class Person:
    """What is done next, by chance."""

    def __init__(self, chance: random.Random, imported: str) -> None:
        self._chance, self._imported = chance, imported
        self._typing = ""
        self._asked = 0

    def next(self, state: AppState) -> list[Action]:
        if self._typing:
            return self._type(state)
        some: list[Callable[[AppState], list[Action]]] = [self._ask] * 6
        some += [self._edit, self._again, self._stop, self._turn, self._change, self._delete]
        some += [lambda state: [NewChat()], lambda state: [UndoHistory()]]
        if self._chance.random() < 0.1:
            some = [lambda state: [ImportConversations(self._imported)]]
        return self._chance.choice(some)(state)

    def _ask(self, state: AppState) -> list[Action]:
        self._asked += 1
        number = self._chance.randrange(10**9)
        self._typing = f"Question {self._asked}, number {number}?"
        return []

    def _type(self, state: AppState) -> list[Action]:
        """A few letters; then it is sent, once the answer before is there."""
        if state.draft != self._typing:
            return [SetDraft(self._typing[: len(state.draft) + self._chance.randrange(1, 20)])]
        if state.busy:
            return []
        text, self._typing = self._typing, ""
        return [Send(text)]

    def _edit(self, state: AppState) -> list[Action]:
        if state.busy or not state.messages:
            return []
        self._typing = f"Edited {self._chance.randrange(10**9)}"
        return [EditMessage(self._chance.randrange(len(state.messages))), SetDraft("")]

    def _again(self, state: AppState) -> list[Action]:
        return [] if state.busy else [Regenerate()]

    def _stop(self, state: AppState) -> list[Action]:
        return [StopAnswer()] if state.busy else []

    def _turn(self, state: AppState) -> list[Action]:
        rows = state.history.rows
        return [OpenConversation(self._chance.choice(rows).id)] if rows else []

    def _change(self, state: AppState) -> list[Action]:
        rows = state.history.rows
        if not rows:
            return []
        row = self._chance.choice(rows)
        title = f"Title {self._chance.randrange(10**9)}"
        return [RenameConversation(row.id, title), PinConversation(row.id, not row.pinned)]

    def _delete(self, state: AppState) -> list[Action]:
        rows = state.history.rows
        return [DeleteConversation(self._chance.choice(rows).id)] if rows else []


def main(words: list[str]) -> None:
    model, imported, seed = words[:3]
    ends = time.monotonic() + float(words[3]) if words[3:] else math.inf
    sys.setswitchinterval(SWITCH)
    chance = random.Random(seed)
    store = SettingsStore(settings_path())
    sampling = SamplingOptions(max_new_tokens=LONGEST_ANSWER, logit_bias=((END, -100.0),))
    slow = EngineOptions(backend="numpy")  # a tiny model would be done within a frame
    state = replace(restore(store.settings, AppState()), sampling=sampling, options=slow)
    app = App(store, state, lambda problem: say(json.dumps({"problem": problem})), history_file())
    app.start(model)
    person, witness, due = Person(chance, imported), Witness(), 0.0
    while app.program.history is None or app.program.state.model is None:
        app.turn()
    say("ready")
    while (now := time.monotonic()) < ends:
        app.turn()
        witness.look(app.program.state)
        if now >= due:
            for action in person.next(app.program.state):
                app.program.do(action)
            witness.look(app.program.state)
            due = now + chance.uniform(*BETWEEN)
        time.sleep(PAUSE)
        app.window.wake()  # it would sleep until there is input
    for notice in app.program.state.log:
        if notice.level != "info":
            say(json.dumps({"problem": notice.text}))
    app.close()


if __name__ == "__main__":
    main(sys.argv[1:])
