"""`RunnerService` has what services of one runner share: its tokens, and what cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.token_texts import text_of
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.messages import (
    Activations,
    AnswerRequest,
    ChatMessage,
    EngineOptions,
    ExecutorInfo,
    Mode,
    ModelInfo,
    ToolSpec,
)
from llm_lite.core.serving.service import (
    F32,
    AnswerTokens,
    Embeddings,
    Emit,
    LensLayer,
    ModeController,
)


class _FixedMode:
    """A model that is served without an engine keeps the mode that it was started with."""

    last = None

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind

    def ask(self, mode: Mode, activations: Activations) -> None:
        raise RequestError(
            f"{self._name} is served as an {self._kind}, whose weight mode does not change: "
            f"start it with --mode {mode}"
        )

    def cancel(self) -> None:
        """Do nothing: no switch is ever under way."""


class RunnerService:
    """This `Service` refuses all that a model makes: derived classes add what their model can
    do. `runner` stays the caller's."""

    def __init__(self, runner: AnyRunner, model: ModelInfo, refusal: str) -> None:
        """Take the sentence `refusal`, which says what the model is for."""
        self._of, self._model, self._refusal = runner, model, refusal

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def executor(self) -> ExecutorInfo:
        return self._of.executor_info

    @property
    def options(self) -> EngineOptions:
        return self._of.options

    @property
    def modes(self) -> ModeController:
        return _FixedMode(self._model.name, self._model.kind)

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        tokenizer = self._of.model_file.tokenizer
        return tokenizer.encode(text, add_special=add_special, parse_special=False)

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        tokenizer = self._of.model_file.tokenizer
        return [text_of(tokenizer, token) for token in tokens]

    def detokenize(self, tokens: Sequence[int]) -> str:
        return self._of.model_file.tokenizer.decode(tokens)

    def submit(self, request: AnswerRequest, emit: Emit) -> int:
        self._refuse()

    def cancel(self, number: int) -> None:
        """Do nothing: no request has a number."""

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        self._refuse()

    def prompt_tokens(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = (), thinking: bool = True
    ) -> list[int]:
        self._refuse()

    def answer_tokens(self, response: str) -> AnswerTokens:
        self._refuse()

    def attention(
        self, response: str, layer: int, heads: Sequence[int], first: int, last: int
    ) -> F32:
        self._refuse()

    def lens(self, response: str, position: int, count: int = 5) -> list[LensLayer]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RequestError(self._refusal)
