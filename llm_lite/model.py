"""A model in Python: text in, text and NumPy arrays out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.answer import encode
from llm_lite.core.generation.guide import guide_of
from llm_lite.core.generation.prompt import check_size
from llm_lite.core.generation.steps import generate
from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.inspect.text_maps import EVERY_QUERY, check_maps, text_maps
from llm_lite.core.loading import loader
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import (
    ChatMessage,
    EngineOptions,
    ExecutorInfo,
    ModelInfo,
    SamplingOptions,
)
from llm_lite.core.text.tokenizer import StreamDecoder

if TYPE_CHECKING:
    from typing import Self

Text = str | Sequence[int]  # a text, or the ids of its tokens


def sampling_options(given: dict[str, Any]) -> SamplingOptions:
    """From words of Python: tuples may be lists, and more as `Model.stream` says."""
    chosen = dict(given)
    stop, bias, schema = (chosen.get(name) for name in ("stop", "logit_bias", "json_schema"))
    if isinstance(stop, str):
        chosen["stop"] = (stop,)
    elif stop is not None:
        chosen["stop"] = tuple(stop)
    if bias is not None:
        pairs = bias.items() if isinstance(bias, dict) else bias
        chosen["logit_bias"] = tuple((int(token), float(value)) for token, value in pairs)
    if isinstance(schema, dict):
        chosen["json_schema"] = json.dumps(schema)
    return SamplingOptions(**chosen)


def load(
    model: str | PathLike[str] | None = None,
    *,
    warn: loader.Warn = lambda text: None,
    **options: Any,
) -> Model:
    """Open a model: a GGUF file, a folder of Hugging Face or a variant, a name of `llm-lite models
    list`, or None for the bundled one.

    `options` are the fields of `core.messages.EngineOptions`, as `backend="cpu"`, `mode="int8"` or
    `context=4096`. `warn` is told what is odd about the file. Raises FileError, UnsupportedError
    and RequestError (all `llm_lite.core.errors.LlmLiteError`), each with one sentence.
    """
    chosen = EngineOptions(**options)
    file = loader.open_model(None if model is None else fspath(model), lambda *_: None, warn)
    try:
        loaded = Model(file, chosen)
    except BaseException:
        file.close()
        raise
    if note := loaded._runner.note:
        warn(note)
    return loaded


class Model:
    """A loaded model; close it, or use it in a `with` statement. For one thread at a time.

    Wherever a text is taken, ids of tokens are too.
    """

    def __init__(self, file: ModelFile, options: EngineOptions) -> None:
        self._file, self._options = file, options
        self._runner = loader.start(file, options, None, lambda *_: None, every_output=True)

    @property
    def info(self) -> ModelInfo:
        """Name, sizes and layers of the model."""
        return self._runner.model_info

    @property
    def executor(self) -> ExecutorInfo:
        """What computes, in which weight mode, and why."""
        return self._runner.executor_info

    def tokenize(self, text: str) -> NDArray[np.int32]:
        """Ids int32 [n] of a text, with the begin and end tokens that the model asks for."""
        check_size(self._file.tokenizer, (ChatMessage("user", text),), self._runner.session.context)
        return np.array(self._file.tokenizer.encode(text, add_special=True), np.int32)

    def detokenize(self, tokens: Iterable[int]) -> str:
        """The text of some ids; bytes that are no character become U+FFFD."""
        decoder = StreamDecoder(self._file.tokenizer)
        return decoder.feed(*map(int, tokens)) + decoder.flush()

    def logits(self, text: Text) -> NDArray[np.float32]:
        """Logits float32 [n, vocabulary] of what follows each of the n tokens."""
        return self._runner.session.logits(self._ids(text))

    def attention(
        self,
        text: Text,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """Probabilities float32 [layers, heads, n, n]: of the last two axes, the token that looks
        and the token that is looked at. None is all layers or heads; n is at least 2."""
        ids, shape = self._ids(text), self._file.model.shape
        layers = range(shape.layers) if layers is None else layers
        heads = range(shape.heads) if heads is None else heads
        check_maps(ids, layers, heads, shape)
        options = replace(
            self._options, context=len(ids), query_budget=EVERY_QUERY, whole_caches=True
        )
        runner = loader.start(self._file, options, None, lambda *_: None)
        try:
            return text_maps(runner.attention, runner.session, ids, layers, heads)
        finally:
            runner.close()

    def generate(self, prompt: str | Sequence[ChatMessage], **sampling: Any) -> str:
        """The whole answer; see `stream`."""
        return "".join(self.stream(prompt, **sampling))

    def stream(self, prompt: str | Sequence[ChatMessage], **sampling: Any) -> Iterator[str]:
        """The answer in pieces, as its tokens are chosen.

        `prompt` is a question, or a conversation that ends with one; the model's own chat template
        is used. `sampling` are the fields of `core.messages.SamplingOptions`, as `temperature=0`,
        `seed=1` or `max_new_tokens=100`; `stop` takes a text too, `logit_bias` a dictionary, and
        `json_schema` a schema as text or as a dictionary. A reasoning model's thoughts come with
        their marks, as it writes them: `core.text.thinking` tells them apart. Raises RequestError
        where the prompt does not fit, and for options out of range.
        """
        asked = sampling_options(sampling)
        messages = (ChatMessage("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        tokenizer, session = self._file.tokenizer, self._runner.session
        check_size(tokenizer, messages, session.context)
        encoded = encode(self._file, messages, continue_last=False)
        guide = guide_of(tokenizer, asked, encoded.thinking)
        decoder = StreamDecoder(tokenizer, skip_special=True)
        stops = StopStrings[None](asked.stop, encoded.thinking)
        for choice in generate(session, encoded.ids, asked, tokenizer.end_ids, guide=guide):
            if choice.token not in tokenizer.end_ids:
                yield "".join(text for _, text in stops.feed(None, decoder.feed(choice.token)))
            if stops.found:
                return
        rest = stops.feed(None, decoder.flush())
        yield "".join(text for _, text in (*rest, *stops.flush()))

    def _ids(self, text: Text) -> list[int]:
        ids = self.tokenize(text) if isinstance(text, str) else text
        if len(ids) == 0:
            raise RequestError("the text is empty: expected at least one token")
        return [int(token) for token in ids]

    def close(self) -> None:
        self._runner.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
