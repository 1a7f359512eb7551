"""An encoder on an executor: one text at a time, with what maps need, or many in shared steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.encoding.pooling import Pooler
from llm_lite.core.encoding.session import EncoderSession
from llm_lite.core.encoding.shared_texts import SharedTexts, in_order_of_length
from llm_lite.core.errors import NotFiniteError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends
from llm_lite.core.loading.loader import Progress, executor_info, make, model_info
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.weights import files_behind
from llm_lite.core.messages import EngineOptions, ExecutorInfo, ModelInfo
from llm_lite.core.models.model import BuildOptions, TextEmbedding
from llm_lite.core.quant.modes import AS_STORED
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.text.encoder_texts import encode_text

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device

F32 = NDArray[np.float32]
StopCheck = Callable[[], bool]


@dataclass(slots=True)
class EncoderRunner:
    """An encoder on an executor. For one thread, but for `attention`."""

    model_file: ModelFile
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
    shared: SharedTexts | None = field(default=None)  # made when several texts come at once

    @property
    def note(self) -> str:
        """As of a `Runner`."""
        return self.model_info.conversion if self.executor_info.mode == AS_STORED else ""

    @property
    def embedding(self) -> TextEmbedding:
        """How texts become vectors."""
        how = self.model_file.model.embedding
        assert how is not None, "an encoder says how texts become vectors"
        return how

    @property
    def most_tokens(self) -> int:
        """Of a text, what vectors are made of."""
        return min(self.embedding.most_tokens, self.session.context)

    @property
    def width(self) -> int:
        """Of vectors."""
        return self.pooler.width(self.model_info.width)

    def embed(self, texts: Sequence[str]) -> F32:
        """The vectors float32 [texts, width] of texts, in shared steps where there are several.
        What a text has beyond `most_tokens` is not read."""
        tokenizer, most = self.model_file.tokenizer, self.most_tokens
        return self.embed_tokens([encode_text(tokenizer, text, most) for text in texts])

    def embed_tokens(self, texts: Sequence[Sequence[int]]) -> F32:
        """As `embed`, of ids. RequestError where a text is none that the encoder can take."""
        if not texts:
            return np.zeros((0, self.width), np.float32)
        if len(texts) == 1:
            return self._pooled([self.session.hidden(texts[0])])
        return self._pooled(in_order_of_length(texts, self._shared().hidden))

    def close(self) -> None:
        """The executors and a device opened for them; the model file stays open."""
        with ExitStack() as stack:
            if self.choice.owns_device and self.choice.device is not None:
                stack.callback(self.choice.device.close)
            stack.callback(self.executor.close)
            if self.shared is not None:
                stack.callback(self.shared.executor.close)
            self.attention.close()

    def _pooled(self, states: Sequence[F32]) -> F32:
        vectors = np.stack([self.pooler(one) for one in states])
        if not np.isfinite(vectors).all():
            raise NotFiniteError("the embedding is not a finite vector: values overflow")
        return vectors

    def _shared(self) -> SharedTexts:
        if self.shared is None:
            build = backends.encoder_shared_options(self.build, self.model_file.model.shape)
            choice = replace(self.choice, beside=self.executor)
            specs = {name: self.weights[name] for name in self.weights}
            program = self.model_file.model.build(build)
            executor = backends.make_executor(
                choice, program, specs, self.options.threads, lambda _: None
            )
            self.shared = SharedTexts(executor, files=self.session.files)
        return self.shared


def start_encoder(
    model_file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress = lambda stage, fraction: None,
) -> EncoderRunner:
    """Weights in the mode asked for, on the executor asked for. RequestError where the model is no
    encoder."""
    model, how = model_file.model, model_file.model.embedding
    if not model.bidirectional or how is None:
        raise RequestError(
            f"{model_file.path}: the model writes text and is no encoder, as BERT is: "
            "there are no masked tokens that it could fill in"
        )
    choice = backends.choose(options, shared)
    made = make(model_file, options, choice, progress)
    session = EncoderSession(
        made.executor,
        has_head=model.has_head,
        made_by=f"{options.mode} {backends.activations(choice, options.activations, model.shape)}",
        model=str(model_file.path),
        files=files_behind(model_file, made.weights),
    )
    note = backends.query_note(made.plan.build, model.shape, options)
    exact = replace(options, keys="fp32", values="fp32")
    return EncoderRunner(
        model_file,
        made.executor,
        session,
        AttentionSource(made.executor, session, note, made.weights),
        Pooler(how, model_file.file.tensors),
        choice,
        made.plan.build,
        model_info(model_file, exact, made.plan.build.context, made.executor),
        executor_info(choice, exact, made.executor.program),
        options,
        made.weights,
    )


@contextmanager
def encoder(
    model_file: ModelFile, options: EngineOptions, shared: Device | None = None
) -> Iterator[EncoderRunner]:
    """A runner for as long as the block runs."""
    runner = start_encoder(model_file, options, shared)
    try:
        yield runner
    finally:
        runner.close()
