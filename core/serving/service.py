"""`Service` is what a server asks of the engine; `Engine.service` has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.handles import Handle
from llm_lite.core.messages import (
    Activations,
    AnswerRequest,
    ChatMessage,
    EncodeText,
    EngineOptions,
    Event,
    ExecutorInfo,
    Mode,
    ModelInfo,
    ModeSwitch,
    ServingStatus,
    StepRequest,
    TextEncoded,
    ToolSpec,
)

F32 = NDArray[np.float32]
Emit = Callable[[Event], None]
ENDED = "serving has ended"


class Embeddings(Struct, frozen=True):
    """`vectors` are float32 [n, width], one a text, each of length 1; `tokens` counts those of
    all texts."""

    vectors: F32
    tokens: int
    response: str = ""  # the first text's name for questions, the others' ".1" and so on behind it


class EncodedResponse(Struct, frozen=True):
    """A text that an encoder has read. Questions can be asked about it by the name `response`."""

    response: str
    encoded: TextEncoded


class AnswerTokens(Struct, frozen=True):
    """The tokens of a response that the cache still holds: prompt and answer, by position.
    `texts` are as `Service.token_texts` returns them."""

    response: str
    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    prompt_tokens: int  # of them, how many are the prompt
    first_query: int  # queries are kept from this position on
    layers: int
    heads: int
    source: tuple[int, ...] = ()  # of an encoder-decoder


class ModeController(Protocol):
    """Clients switch the weight mode of the loaded model through it. Any thread may call it."""

    @property
    def last(self) -> ModeSwitch | None:
        """Return the switch under way, or the last one; None where none was asked for."""
        ...

    def request(self, mode: Mode, activations: Activations) -> None:
        """Begin a switch; raise RequestError while another one is under way. Answers go on: with
        the mode in use, and then with the new one."""
        ...

    def cancel(self) -> None:
        """End the switch under way soon, unless it is done before."""
        ...


class Service(Protocol):
    """A service answers many clients on one model. Any thread may call it.

    RequestError says in a sentence what of a request cannot be; BusyError that too much waits; a
    lookup by a response's name raises GoneError once the cache holds it no more.
    """

    @property
    def model(self) -> ModelInfo: ...

    @property
    def executor(self) -> ExecutorInfo: ...

    @property
    def options(self) -> EngineOptions:
        """Return how the model runs, as it was asked for."""
        ...

    @property
    def modes(self) -> ModeController: ...

    def check(self) -> None:
        """Raise FileChangedError where a file that the model is made of has changed: answers end
        in that error then, until the model is loaded again."""
        ...

    def submit(self, request: AnswerRequest, emit: Emit) -> Handle:
        """Queue a request. `emit` is called on the engine's thread for every event of its handle,
        and must not wait. Raises BusyError when as many wait as may.
        """
        ...

    def cancel(self, number: int) -> None:
        """Cancel the request of this number in the status, if it has not ended."""
        ...

    def status(self) -> ServingStatus: ...

    def prompt_tokens(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        thinking: bool = True,
        values: Mapping[str, Any] = {},
    ) -> list[int]:
        """Return the tokens of a conversation in the model's template, with these values of its
        variables."""
        ...

    def tokenize(self, text: str, add_special: bool = True) -> list[int]: ...

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        """Return what each of consecutive tokens adds to their text: a character of several
        tokens stands at the last of them."""
        ...

    def detokenize(self, tokens: Sequence[int]) -> str: ...

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        """Return vectors of texts given as tokens; wait for a turn between steps. `is_unwanted`
        is called on the engine's thread: once it is true, RequestError ends the work."""
        ...

    def encode(
        self, request: EncodeText, is_unwanted: Callable[[], bool] = lambda: False
    ) -> EncodedResponse:
        """Run an encoder over a text and return its tokens, with candidates for masked ones. Raises
        RequestError where the model is no encoder, and once nobody wants the answer."""
        ...

    def answer_tokens(self, response: str) -> AnswerTokens: ...

    def ask(
        self,
        response: str,
        request: StepRequest,
        is_unwanted: Callable[[], bool] = lambda: False,
        check: Callable[[int], None] = lambda size: None,
    ) -> Any:
        """Return the answer to a question of the table (core/questions/table.py) about a response.
        CancelledError once `is_unwanted` is true; NotFiniteError. `check` is called before the work
        with how many numbers the answer has, 0 where these are few; what it raises passes
        through."""
        ...
