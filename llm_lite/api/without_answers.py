"""A model that continues no text: an encoder, or one that writes a target for a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from llm_lite.api.given import Message, Text
from llm_lite.api.model import Model


class ModelWithoutAnswers(Model):
    """Whatever continues a text raises RequestError with the sentence of `_refuse`."""

    def generate(
        self,
        prompt: str | Sequence[Message],
        *,
        thinking: bool = True,
        template: Mapping[str, Any] = {},
        **sampling: Any,
    ) -> NoReturn:
        self._refuse()

    def complete(self, text: Text, **sampling: Any) -> NoReturn:
        self._refuse()

    def likelihood(self, text: Text) -> NoReturn:
        self._refuse()

    def perplexity(self, text: str, chunk: int = 0) -> NoReturn:
        self._refuse()

    def lens(self, text: Text, position: int = -1) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotImplementedError
