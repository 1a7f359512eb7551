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
    AttentionRows,
    ChatMessage,
    EngineOptions,
    Event,
    ExecutorInfo,
    FollowToken,
    Measure,
    Mode,
    ModelInfo,
    ModeSwitch,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    ServingStatus,
    StatesRead,
    TokenTrace,
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


class LensLayer(Struct, frozen=True):
    """The likeliest next tokens, were the model to end behind this layer."""

    layer: int
    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    probabilities: tuple[float, ...]


class CacheStatistics(Struct, frozen=True):
    """A number for each position of each layer that owns a cache: `layers` are these, `values`
    float32 [layers, positions], nan where nothing is known."""

    layers: tuple[int, ...]
    values: F32


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

    def answer_tokens(self, response: str) -> AnswerTokens: ...

    def attention(
        self, response: str, layer: int, heads: Sequence[int], first: int, last: int
    ) -> F32:
        """Return probabilities float32 [heads, last - first, length] of the positions
        first..last-1."""
        ...

    def attention_rows(self, response: str, asked: ReadAttentionRows) -> AttentionRows:
        """Return what a token of a response attends to or what attends to it, as for the chat."""
        ...

    def lens(
        self,
        response: str,
        position: int,
        count: int = 5,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> list[LensLayer]:
        """Return what each layer would say next behind a position. CancelledError once
        `is_unwanted` is true; with recurrent states, tokens before it may have to run again."""
        ...

    def states(
        self, response: str, asked: ReadStates, is_unwanted: Callable[[], bool] = lambda: False
    ) -> StatesRead:
        """Return what a head of a recurrent state holds of the last tokens of a response, as for
        the chat. CancelledError once `is_unwanted` is true."""
        ...

    def routing(self, response: str, asked: ReadRouting) -> RoutingRead:
        """Return the experts of a mixture that tokens of a response chose, as for the chat."""
        ...

    def trace(self, response: str, asked: FollowToken) -> TokenTrace:
        """Return all numbers of a token of a response, as the lesson has them of the chat."""
        ...

    def statistics(
        self, response: str, what: Measure, is_unwanted: Callable[[], bool] = lambda: False
    ) -> CacheStatistics:
        """Return norms of keys or values, or the attention received, as the cache view has them of
        the chat. CancelledError once `is_unwanted` is true."""
        ...

    def scores(
        self, response: str, is_unwanted: Callable[[], bool] = lambda: False
    ) -> Mapping[str, F32]:
        """Return by name the scores of core/inspect/attention_scores.py, float32 [layers, heads],
        nan where a layer has fewer heads. CancelledError once `is_unwanted` is true."""
        ...
