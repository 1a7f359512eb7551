"""`EncoderService` makes vectors for clients: the service of a server whose model writes no
text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from llm_lite.core.encoding.texts import shortened
from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.messages import ServingStatus
from llm_lite.core.records import replace
from llm_lite.core.serving.direct.runner_service import RunnerService
from llm_lite.core.serving.service import F32, Embeddings

_TOGETHER = 64  # texts, between which the next client has its turn


class EncoderService(RunnerService):
    """This `Service` answers what is about texts and vectors; all else ends in RequestError with
    what the model is for. `model.width` is that of the vectors."""

    def __init__(self, runner: EncoderRunner) -> None:
        model = replace(runner.model_info, width=runner.width, has_chat_template=False)
        kind = loader.kind_of(runner.model_file)
        refusal = (
            f"{model.name} is a {kind} model, an encoder, which writes no text: "
            "ask /v1/embeddings for vectors of texts"
        )
        super().__init__(runner, model, refusal)
        self._runner = runner
        self._turn = threading.Lock()
        self._finished = self._failed = self._tokens = 0

    def status(self) -> ServingStatus:
        return ServingStatus(
            model=self._model.name,
            parallel=1,
            context=self._runner.most_tokens,
            finished=self._finished,
            failed=self._failed,
            prompt_tokens=self._tokens,
        )

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        """Make vectors. Tokens beyond those that the model takes are not read. Raises
        RequestError for an empty text, and once nobody wants the vectors."""
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
