"""An encoder in Python: texts in; vectors, candidates for masked tokens and maps out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from llm_lite.api.given import Text, gains_of
from llm_lite.api.reading import Reading
from llm_lite.api.without_answers import ModelWithoutAnswers
from llm_lite.core.encoding import masked
from llm_lite.core.encoding.texts import encode_pair
from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import start_encoder
from llm_lite.core.messages import ExecutorInfo, Measure, ModelInfo
from llm_lite.core.messages.encoding import Mask

_MOST_CANDIDATES = 1000


class Encoder(ModelWithoutAnswers):
    """A loaded encoder, as BERT is: it sees a whole text at once, and writes none.

    `embed`, `fill`, `logits`, `attention` and what is of tokens work as told; whatever would write
    text ends in RequestError.
    """

    def _start(self) -> None:
        self._encoder = start_encoder(self._file, self._options, None)

    def _end(self) -> None:
        self._encoder.close()

    @property
    def note(self) -> str:
        return self._encoder.note

    @property
    def info(self) -> ModelInfo:
        """Name, sizes and layers of the model."""
        return self._encoder.model_info

    @property
    def executor(self) -> ExecutorInfo:
        """Return what computes, in which weight mode, and why."""
        return self._encoder.executor_info

    @property
    def most_tokens(self) -> int:
        """Return how many tokens of a text `embed` reads; the rest of a longer text is left out."""
        return self._encoder.most_tokens

    @property
    def prompts(self) -> dict[str, str]:
        """Return what stands before texts of a task, by the task, as the model's files say."""
        return dict(self._encoder.embedding.prompts)

    def embed(self, texts: str | Sequence[str], task: str = "") -> NDArray[np.float32]:
        """float32 [texts, width of vectors], pooled and normalised as the model's own
        configuration says; tokens beyond what it says are not read. `task`: each text stands behind
        the model's prompt for it."""
        texts = [texts] if isinstance(texts, str) else texts
        with self._using():
            return self._encoder.embed(texts, task)

    def fill(self, text: str, count: int = 5) -> list[Mask]:
        """Return the `count` likeliest tokens for each masked token of a text, as [MASK] or <mask>,
        with their probabilities. RequestError if the text has none or the model has no such
        head."""
        if not 1 <= count <= _MOST_CANDIDATES:
            raise RequestError(f"count: expected 1 to {_MOST_CANDIDATES}, found {count}")
        with self._using():
            return list(masked.fill(self._encoder.session, self._file.tokenizer, text, count)[1])

    def logits(self, text: Text) -> NDArray[np.float32]:
        """Return the logits float32 [n, vocabulary] of the masked-token head for each of the n
        tokens."""
        ids = self._ids(text)
        with self._using():
            return self._encoder.session.logits(ids)

    def hidden_states(self, text: Text) -> NDArray[np.float32]:
        """float32 [n, width] behind the last layer."""
        ids = self._ids(text)
        with self._using():
            return self._encoder.session.hidden(ids)

    def pair(self, first: str, second: str) -> NDArray[np.int32]:
        """Return the ids int32 [n] of two texts with a separator between them, which `attention`,
        `logits` and `hidden_states` take too."""
        tokenizer, context = self._file.tokenizer, self._encoder.session.context
        return np.array(encode_pair(tokenizer, first, second, context), np.int32)

    @property
    def _loaded(self) -> EncoderRunner:
        return self._encoder

    def statistics(self, text: Text, what: Measure) -> NoReturn:
        raise RequestError(f"{self.info.name} is an encoder, which keeps no keys and values")

    def _refuse(self) -> NoReturn:
        raise RequestError(loader.encoder_refusal(self._file))

    def _use_gains(self, *, throughout: bool) -> None:
        self._encoder.session.set_gains(gains_of(self._gains))

    @contextmanager
    def _attending(self, ids: Sequence[int], *, queries: bool = True) -> Iterator[Reading]:
        if queries and self._encoder.attention.note:
            raise RequestError(self._encoder.attention.note)
        yield self._reading
