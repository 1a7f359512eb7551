"""An encoder that clients ask for vectors: the service of a server whose model writes no text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from llm_lite.core.encoding.texts import shortened
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.token_texts import text_of
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoders.runner import EncoderRunner
from llm_lite.core.messages import (
    Activations,
    AnswerRequest,
    ChatMessage,
    EngineOptions,
    ExecutorInfo,
    Mode,
    ModelInfo,
    ServingStatus,
    ToolSpec,
)
from llm_lite.core.serving.service import F32, AnswerTokens, Embeddings, Emit, LensLayer, ModeDoor

_TOGETHER = 64  # texts, between which the next client has its turn


class _FixedMode:
    """An encoder that is served keeps the mode that it was started with."""

    last = None

    def __init__(self, name: str) -> None:
        self._name = name

    def ask(self, mode: Mode, activations: Activations) -> None:
        raise RequestError(
            f"{self._name} is served as an encoder, whose weight mode does not change: "
            f"start it with --mode {mode}"
        )

    def cancel(self) -> None:
        """No switch is ever under way."""


class EncoderService:
    """`core.serving.service.Service`, of which only what is of texts and vectors can be asked; all
    else ends in RequestError with what the model is for. `runner` stays the caller's."""

    def __init__(self, runner: EncoderRunner) -> None:
        self._runner = runner
        self._turn = threading.Lock()
        self._finished = self._failed = self._tokens = 0
        self._model = replace(runner.model_info, width=runner.width, has_chat_template=False)

    @property
    def model(self) -> ModelInfo:
        """`width` is that of the vectors."""
        return self._model

    @property
    def executor(self) -> ExecutorInfo:
        return self._runner.executor_info

    @property
    def options(self) -> EngineOptions:
        return self._runner.options

    @property
    def modes(self) -> ModeDoor:
        return _FixedMode(self._model.name)

    def status(self) -> ServingStatus:
        return ServingStatus(
            model=self._model.name,
            parallel=1,
            context=self._runner.most_tokens,
            finished=self._finished,
            failed=self._failed,
            prompt_tokens=self._tokens,
        )

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        tokenizer = self._runner.model_file.tokenizer
        return tokenizer.encode(text, add_special=add_special, parse_special=False)

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        tokenizer = self._runner.model_file.tokenizer
        return [text_of(tokenizer, token) for token in tokens]

    def detokenize(self, tokens: Sequence[int]) -> str:
        return self._runner.model_file.tokenizer.decode(tokens)

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        """What a text has beyond the tokens that the model takes is not read. RequestError for a
        text that is none, and once nobody wants the vectors."""
        tokenizer, most = self._runner.model_file.tokenizer, self._runner.most_tokens
        given = [shortened(tokenizer, tokens, most) for tokens in texts]
        try:
            parts = [
                self._together(given[at : at + _TOGETHER], is_unwanted)
                for at in range(0, len(given), _TOGETHER)
            ]
        except BaseException:
            self._failed += 1
            raise
        count = sum(map(len, given))
        self._finished, self._tokens = self._finished + 1, self._tokens + count
        return Embeddings(np.concatenate(parts), count)

    def _together(self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool]) -> F32:
        with self._turn:
            if is_unwanted():
                raise RequestError("nobody waits for these embeddings any more")
            return self._runner.embed_tokens(texts)

    def submit(self, request: AnswerRequest, emit: Emit) -> int:
        self._refuse()

    def cancel(self, number: int) -> None:
        """Nothing runs that has a number."""

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
        kind = loader.kind_of(self._runner.model_file)
        raise RequestError(
            f"{self._model.name} is a {kind} model, an encoder, which writes no text: "
            "ask /v1/embeddings for vectors of texts"
        )
