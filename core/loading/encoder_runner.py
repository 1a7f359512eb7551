"""An encoder on an executor: one text at a time, with what maps need, or many in shared steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.encoding.pooling import Pooler
from llm_lite.core.encoding.session import EncoderSession, SharedTexts, in_order_of_length
from llm_lite.core.encoding.texts import encode_texts, prompt_tokens, with_prompt
from llm_lite.core.errors import NotFiniteError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends
from llm_lite.core.loading.backends import ENCODER_BUCKETS
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.runner import weights_note
from llm_lite.core.loading.verification import Part
from llm_lite.core.messages import AttentionPart, EngineOptions, ExecutorInfo, Gains, ModelInfo
from llm_lite.core.models.model import BuildOptions, Model, ModelShape, TextEmbedding
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, PageShape
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

_TEXTS, _STEP = 32, 512  # texts and tokens of a step
_BYTES = 256 << 20  # of the keys and values of such a step


F32 = NDArray[np.float32]


class EncoderRunner(Struct):
    """An encoder on an executor. For one thread, but for `attention`."""

    model_file: ModelFile
    model: Model  # with the weights' formats as they are loaded
    executor: Executor
    session: EncoderSession
    attention: AttentionSource
    pooler: Pooler
    choice: backends.ExecutorChoice
    build: BuildOptions
    model_info: ModelInfo
    executor_info: ExecutorInfo
    options: EngineOptions
    weights: Mapping[str, TensorData]
    unchecked: tuple[Part, ...] = ()  # what of a kept variant is in use
    shared: SharedTexts | None = field(default=None)  # made when several texts come at once

    @property
    def note(self) -> str:
        """Return a sentence on converted weights, as `Runner.note`."""
        return weights_note(self.model_info, self.executor_info)

    def attention_of(self, part: AttentionPart) -> AttentionSource:
        """Return the source of attention maps; an encoder has one part."""
        return self.attention

    @property
    def gains(self) -> Gains:
        """Return the gains, a row for each layer."""
        return self.session.gains

    def check_gains(self, gains: Gains) -> None:
        """Check gains as `Runner.check_gains` does."""
        self.session.check_gains(gains)

    def set_gains(self, gains: Gains) -> None:
        """Set the gains from the next text on."""
        self.session.set_gains(gains)

    @property
    def executors(self) -> tuple[Executor, ...]:
        """Return all executors that compute for it."""
        return (self.executor,) if self.shared is None else (self.executor, self.shared.executor)

    @property
    def embedding(self) -> TextEmbedding:
        """Return how texts become vectors."""
        how = self.model_file.model.embedding
        assert how is not None, "an encoder says how texts become vectors"
        return how

    @property
    def most_tokens(self) -> int:
        """Return how many tokens of a text go into its vector."""
        return min(self.embedding.most_tokens, self.session.context)

    @property
    def width(self) -> int:
        """Return the dimension of the embedding vectors."""
        return self.pooler.width(self.model_info.width)

    def embed(self, texts: Sequence[str], task: str = "") -> F32:
        """Return the vectors float32 [texts, width] of texts, in shared steps if there are several,
        each behind the prompt for a task. A text is read up to `most_tokens`. RequestError for a
        task that the model does not know."""
        tokenizer, how = self.model_file.tokenizer, self.embedding
        whole = with_prompt(how, texts, task)
        unread = 0 if how.reads_prompt else prompt_tokens(tokenizer, how, task)
        return self.embed_tokens(encode_texts(tokenizer, whole, self.most_tokens), unread)

    def embed_tokens(self, texts: Sequence[Sequence[int]], unread: int = 0) -> F32:
        """Return the vectors of texts as ids, of whose first tokens some are not pooled.
        RequestError if the encoder cannot take a text."""
        if not texts:
            return np.zeros((0, self.width), np.float32)
        if len(texts) == 1:
            return self._pooled([self.session.hidden(texts[0])], unread)
        return self._pooled(in_order_of_length(texts, self._shared().hidden), unread)

    def close(self) -> None:
        """Close the executors and a device opened for them; the model file stays open."""
        with ExitStack() as stack:
            if self.choice.owns_device and self.choice.device is not None:
                stack.callback(self.choice.device.close)
            stack.callback(self.executor.close)
            if self.shared is not None:
                stack.callback(self.shared.executor.close)
            self.attention.close()

    def _pooled(self, states: Sequence[F32], unread: int) -> F32:
        vectors = np.stack([self.pooler(one[min(unread, len(one) - 1) :]) for one in states])
        if not np.isfinite(vectors).all():
            raise NotFiniteError("the embedding is not a finite vector: values overflow")
        return vectors

    def _shared(self) -> SharedTexts:
        if self.shared is None:
            build = shared_encoder_options(self.build, self.model_file.model.shape)
            choice = replace(self.choice, beside=self.executor)
            program = self.model.build(build)
            executor = backends.make_executor(
                choice, program, self.weights, self.options.threads, lambda _: None
            )
            self.shared = SharedTexts(executor, files=self.session.files)
        return self.shared


def shared_encoder_options(build: BuildOptions, shape: ModelShape) -> BuildOptions:
    """Return the options of shared steps. `build` is how its program is built for one text."""
    row = 8 * shape.layers * shape.kv_heads * shape.head_dim  # keys and values
    whole = -(-build.context // PAGE)
    pages = max(whole, min(_TEXTS, _BYTES // (PAGE * row)))
    pages += _STEP // PAGE
    largest = max(_STEP, build.context)
    sizes = sorted({n for n in ENCODER_BUCKETS if n < largest} | {largest})
    return replace(
        build,
        buckets=tuple(Bucket(n, 1) for n in sizes),
        query_rows=0,
        pages=PageShape(pages, _TEXTS, whole * PAGE),
        head=False,
    )
