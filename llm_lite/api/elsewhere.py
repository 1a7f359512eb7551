"""A model of a server with OpenAI's protocol, asked as one that is loaded here."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from llm_lite.api.answer import Answer, Token
from llm_lite.api.closing import ClosedByWith
from llm_lite.api.given import Message, messages_of, sampling_options
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import check
from llm_lite.core.messages import (
    ChatMessage,
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    ModelInfo,
    Stop,
    TokenDecoded,
)
from llm_lite.core.messages.remote import RemoteServer
from llm_lite.core.remote.address import read_address, read_key
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import chosen
from llm_lite.core.remote.connecting import connect as found_at
from llm_lite.core.remote.engine import RemoteEngine

_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.2  # how long Ctrl-C may go unnoticed while nothing comes


def connect(address: str, *, key: str = "", model: str | None = None) -> ModelElsewhere:
    """Connect to a model of the server at `address`, as "http://gpu-box:8000": vLLM, llama-server,
    LM Studio, another llm-lite. `model` is one of its names; None chooses one that is loaded there.

    LlmLiteError with one sentence where nobody answers, the key is refused or there is no such
    model.
    """
    client = Client(read_address(address), read_key(key))
    server = found_at(client, Exchange())
    return ModelElsewhere(server, RemoteEngine(client, server, chosen(server, model)))


class ModelElsewhere(ClosedByWith):
    """A model of a server; close it, or use it in a `with` statement.

    Its answers are those of a model here, as far as the server tells: likelihoods come where it
    gives `logprobs`, and are NaN elsewhere. What looks inside needs the model here.
    """

    def __init__(self, server: RemoteServer, engine: RemoteEngine) -> None:
        self.server = server
        self._engine = engine
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._answer: BorrowedAnswer | None = None  # the one that is being written
        self._closed = False

    @property
    def info(self) -> ModelInfo:
        """Name and sizes of the model; 0 for what the server does not tell."""
        return self._engine.info

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of all models that the server has."""
        return tuple(model.name for model in self.server.models)

    def generate(
        self, prompt: str | Sequence[Message], *, thinking: bool = True, **sampling: Any
    ) -> Answer:
        """Generate an answer as `Model.generate` does; options that the server does not know are
        left out."""
        return self._begun(messages_of(prompt), sampling, raw=False, thinking=thinking)

    def complete(self, text: str, **sampling: Any) -> Answer:
        """Continue a text as `Model.complete` does."""
        return self._begun((ChatMessage("user", text),), sampling, raw=True, thinking=True)

    def close(self) -> None:
        """An answer that is not finished ends."""
        with self._lock:
            self._closed = True
            self._engine.close()

    def __repr__(self) -> str:
        return f"<ModelElsewhere {self.info.name!r} of {self.server.title} at {self.server.host}>"

    def _begun(
        self, messages: tuple[ChatMessage, ...], given: dict[str, Any], *, raw: bool, thinking: bool
    ) -> Answer:
        sampling = sampling_options(given)
        check(sampling)
        number = next(self._numbers)
        command = Generate(number, messages, sampling, raw=raw, thinking=thinking)
        return BorrowedAnswer(self, command)

    def _ask(self, answer: BorrowedAnswer) -> None:
        """Send it, once the answer before it has ended."""
        with self._lock:
            before = self._answer
            if before is not None and before.finish_reason is None:
                self._end(before)
            self._answer = answer
            self._check_open()
            self._engine.send(answer.command)

    def _end(self, answer: BorrowedAnswer) -> None:
        """Stop it, and hear that it was."""
        self._engine.send(Stop())
        latest = time.monotonic() + _STOP_SECONDS
        while not answer.has_ended(self._heard()):
            if time.monotonic() > latest:
                raise RequestError(f"{self.server.host} did not end the answer before this one")

    def _events_of(self, answer: BorrowedAnswer) -> list[Event]:
        with self._lock:
            self._check_open()
            if self._answer is not answer:
                raise RequestError(
                    "the model was asked something else before this answer was finished: "
                    "generate it again"
                )
            return self._heard()

    def _heard(self) -> list[Event]:
        return self._engine.wait(_LOOK_SECONDS)

    def _check_open(self) -> None:
        if self._closed:
            raise RequestError("the connection is closed: connect again")


class BorrowedAnswer(Answer):
    """The answer of a model on another machine. It is requested when the first token is wanted; the
    server goes on writing while no token is taken, until some thousand tokens wait."""

    def __init__(self, model: ModelElsewhere, command: Generate) -> None:
        super().__init__()
        self.command = command
        self._model = model
        self._problem = ""  # told once, behind the tokens that came before it

    def _next(self) -> bool:
        if super()._next():
            return True
        problem, self._problem = self._problem, ""
        if problem:
            raise RequestError(problem)
        return False

    def has_ended(self, events: list[Event]) -> bool:
        """Return True if the end of this answer is among the events."""
        number = self.command.request
        return any(isinstance(e, GenerationFinished) and e.request == number for e in events)

    def _step(self) -> None:
        if not self.is_begun:
            self._model._ask(self)
            self.is_begun = True
        for event in self._model._events_of(self):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        number = self.command.request
        match event:
            case GenerationStarted(request=request) if request == number:
                self._thinking = event.thinking
            case TokenDecoded(request=request) if request == number:
                token = Token(event.token, event.text, event.probability, event.alternatives)
                self._ready.append(token)
            case GenerationFinished(request=request) if request == number:
                self.finish_reason = event.stop_reason
                if event.stop_reason == "error":
                    self._problem = event.message
