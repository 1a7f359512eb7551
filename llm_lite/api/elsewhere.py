"""A model of a server with OpenAI's protocol, asked as one that is loaded here."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from llm_lite.api.answer import Answer, Token
from llm_lite.api.closing import ClosedByWith
from llm_lite.api.given import Message, messages_of, sampling_options
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import check
from llm_lite.core.handles import Handle
from llm_lite.core.messages import (
    ChatMessage,
    Ended,
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    ModelInfo,
    TokenDecoded,
)
from llm_lite.core.messages.remote import UNTOLD_TOKENS, RemoteServer
from llm_lite.core.records import replace
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
        self._lock = threading.RLock()
        self._answer: RemoteAnswer | None = None  # the one that is being written
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
        self,
        prompt: str | Sequence[Message],
        *,
        thinking: bool = True,
        template: Mapping[str, Any] = {},
        **sampling: Any,
    ) -> Answer:
        """Generate an answer as `Model.generate` does; options that the server does not know are
        left out."""
        asked = Generate(messages_of(prompt), thinking=thinking, values=template)
        return self._begun(asked, sampling)

    def complete(self, text: str, **sampling: Any) -> Answer:
        """Continue a text as `Model.complete` does."""
        return self._begun(Generate((ChatMessage("user", text),), raw=True), sampling)

    def close(self) -> None:
        """An answer that is not finished ends."""
        with self._lock:
            self._closed = True
            self._engine.close()

    def __repr__(self) -> str:
        return f"<ModelElsewhere {self.info.name!r} of {self.server.title} at {self.server.host}>"

    def _begun(self, asked: Generate, given: dict[str, Any]) -> Answer:
        sampling = sampling_options(given)
        check(sampling)
        return RemoteAnswer(self, replace(asked, sampling=sampling))

    def _send(self, answer: RemoteAnswer) -> None:
        """Send it, once the answer before it has ended."""
        with self._lock:
            before = self._answer
            if before is not None and before.finish_reason is None:
                self._end(before)
            self._answer = answer
            self._check_open()
            answer.handle = self._engine.submit(answer.command)

    def _end(self, answer: RemoteAnswer) -> None:
        """Stop it, and wait until it has ended."""
        assert answer.handle is not None
        answer.handle.cancel()
        try:
            answer.handle.result(_STOP_SECONDS)
        except RequestError:
            if answer.handle.is_over:
                return
            host = self.server.host
            raise RequestError(f"{host} did not end the answer before this one") from None

    def _events_of(self, answer: RemoteAnswer) -> list[Event]:
        with self._lock:
            self._check_open()
            if self._answer is not answer:
                raise RequestError(
                    "the model was asked something else before this answer was finished: "
                    "generate it again"
                )
            reports = self._engine.wait(_LOOK_SECONDS)
        return [report.event for report in reports if report.command is answer.command]

    def _check_open(self) -> None:
        if self._closed:
            raise RequestError("the connection is closed: connect again")


class RemoteAnswer(Answer):
    """The answer of a model on another machine. It is requested when the first token is wanted; the
    server goes on writing while no token is taken, until some thousand tokens wait."""

    def __init__(self, model: ModelElsewhere, command: Generate) -> None:
        super().__init__()
        self.command = command
        self.handle: Handle | None = None  # once it was sent
        self._model = model
        self._problem = ""  # told once, behind the tokens that came before it

    def _next(self) -> bool:
        if super()._next():
            return True
        problem, self._problem = self._problem, ""
        if problem:
            raise RequestError(problem)
        return False

    def _step(self) -> None:
        if not self.is_begun:
            self._model._send(self)
            self.is_begun = True
        for event in self._model._events_of(self):
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case GenerationStarted():
                self._thinking = event.thinking
            case TokenDecoded():
                number = -1 if event.token & UNTOLD_TOKENS else event.token
                token = Token(number, event.text, event.probability, event.alternatives)
                self._ready.append(token)
            case GenerationFinished():
                self.finish_reason = event.stop_reason
            case Ended() if self.finish_reason is None:
                self.finish_reason, self._problem = "error", event.problem
