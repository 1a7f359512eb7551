"""What engines elsewhere send: lists of models, answers as events, what tells of their inside."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    ChatMessage,
    Ended,
    Event,
    Generate,
    GenerationFinished,
    Inspect,
    ReadAttentionRows,
    TokenDecoded,
)
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.answer import RemoteAnswer
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import connect
from llm_lite.core.remote.counting import prompt_of
from llm_lite.core.remote.dialects import DIALECTS
from llm_lite.core.remote.engine import executor_info, model_info
from llm_lite.core.remote.inspection import RemoteInspection
from llm_lite.core.remote.sse import EventReader
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState, Message, Running
from tests.core.remote.habits import HABITS
from tests.core.remote.servers import ScriptedServer
from tests.fuzz.door import Case, Door, problem_of_sentence
from tests.fuzz.mutations import change_json, mutate_bytes, to_json

FORMS = ("vllm", "llama-server", "lm-studio", "plain")
ASKED = (ChatMessage("user", "Why is the sky blue?"),)
CACHE = {
    "tokens": [1, 2, 3, 4],
    "texts": ["a", "b", "c", "d"],
    "layers": 2,
    "heads": 2,
    "prompt_tokens": 2,
    "first_query": 0,
    "page_tokens": 128,
    "pages": 4,
    "pages_used": 1,
    "pages_kept": 0,
}
ROWS = {"position": 1, "direction": "from", "weights": [0.5, 0.5, 0, 0], "note": ""}
LENS = {"layers": [{"layer": 0, "tokens": [1], "texts": ["a"], "probabilities": [0.5]}]}
OURS = {
    "id": "tiny",
    "owned_by": "llm-lite",
    "version": "1",
    "context_length": 512,
    "layers": 2,
    "heads": 2,
}


_HABITS = [habit for habit in HABITS.values() if not habit.headers]


@dataclass
class Scripted(Client):
    """A server's bytes in the place of a network."""

    rng: random.Random
    form: ScriptedServer
    changes: int

    def __post_init__(self) -> None:
        super().__init__(read_address("http://host:1"), ApiKey())

    def fetch(self, method: str, path: str, *more: Any, **options: Any) -> bytes:
        if path.startswith(("/glass/attention", "/inspect/activations")):
            return _array(self.rng)
        return self._changed(self._told(path))

    def stream(
        self, path: str, body: Any, exchange: Exchange, reader: EventReader
    ) -> Iterator[str]:
        rows = [self._changed(event) for event in self.form.events(body)]
        raw = b"".join(b"data: " + row + b"\n\n" for row in rows) + b"data: [DONE]\n\n"
        if self.rng.random() < 0.3:  # as some server was seen to send it
            raw = b"".join(self.rng.choice(_HABITS).pieces)
        if self.rng.random() < 0.4:
            raw = mutate_bytes(raw, self.rng)
        size = self.rng.choice((1, 7, 64, 65536))
        return reader.read(raw[at : at + size] for at in range(0, len(raw), size))

    def _told(self, path: str) -> Any:
        if path.startswith("/glass/cache"):
            return CACHE
        if path.startswith("/inspect/rows"):
            return ROWS
        if path.startswith("/glass/lens"):
            return LENS
        if path == "/v1/models" and self.rng.random() < 0.2:
            return {"data": [OURS]}
        asked = {"messages": [], "content": "a b"}
        return self.form.get(path) or self.form.post(path, asked) or {"tokens": [1, 2]}

    def _changed(self, value: Any) -> bytes:
        value = copy.deepcopy(value)
        if self.rng.random() < 0.3:
            for _ in range(self.changes):
                change_json(value, self.rng)
        return to_json(value)


def use(case: Case) -> None:
    rng = case.rng
    form = ScriptedServer(rng.choice(FORMS), thoughts=("Hm", "."), calls=(("f", '{"a": 1}'),))
    client = Scripted(rng, form, rng.choice((1, 1, 2, 5)))
    server = connect(client, Exchange())
    model = server.models[0]
    model_info(server, model), executor_info(server, model)
    repr(server).encode("utf-8", "backslashreplace")
    kind = rng.random()
    if kind < 0.25:
        _look_inside(client)
        return
    dialect = DIALECTS[server.dialect]
    command = Generate(ASKED)
    prompt = prompt_of(command, client, dialect, model.name, Exchange())
    events: list[Event] = []
    answer = RemoteAnswer(
        command, client, dialect, model.name, events.append, Exchange(), set(), prompt
    )
    problem = ""
    try:
        answer.run()
    except LlmLiteError as error:
        problem = str(error)
    _fold(command, events, problem)


def _fold(command: Generate, events: list[Event], problem: str) -> None:
    """As the window takes them: one ending, with a sentence where something was wrong."""
    state = AppState(
        tree=ConversationTree((Message("user", "Why?"),)),
        running=Running(command, 0.0, tool_style="tags"),
    )
    for number, event in enumerate((*events, Ended(problem))):
        state = apply(event, state, float(number), command)
    assert state.running is None
    finished = [event for event in events if isinstance(event, GenerationFinished)]
    assert finished == ([] if problem else events[-1:])
    said = "".join(event.text for event in events if isinstance(event, TokenDecoded))
    said.encode()
    sentence = problem or finished[0].message
    if sentence:
        wrong = problem_of_sentence(sentence, ("broke off: ", "ended the answer: "))
        assert not wrong, f"{wrong}: {sentence!r}"
        raise RequestError(problem or "it ended with notes")


def _look_inside(client: Scripted) -> None:
    inspection = RemoteInspection(client)
    held = inspection.held("response", Exchange())
    held.as_prompt(ASKED, 1)
    inspection.ask(held, Inspect(1), Exchange())
    rows = inspection.rows(
        held, ReadAttentionRows(1, "from", "heads", ((0, 0), (1, 1))), Exchange()
    )
    assert np.isfinite(rows.weights).all()
    found = inspection.ask(held, ReadActivations(("attention",)), Exchange())
    assert found.first >= 0 and all(values.size for values in found.values.values())


def _array(rng: random.Random) -> bytes:
    file = io.BytesIO()
    shape = rng.choice(((1, 1, 4), (1, 1, 4), (1, 1, 4), (2, 3), (1 << 20,)))
    values = np.full(shape, rng.choice((0.5, 0.5, np.nan, 1e30)), rng.choice(("<f4", "<f4", "<f8")))
    rng.choice((np.savez, np.savez, np.savez_compressed))(file, first=np.array(0), attention=values)
    raw = file.getvalue()
    return mutate_bytes(raw, rng) if rng.random() < 0.6 else raw


DOOR = Door("elsewhere", use, quotes=("broke off: ", "ended the answer: ", "found "))
