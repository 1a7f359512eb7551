"""From a model file that is an encoder to one that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from llm_lite.core.encoding.pooling import Pooler
from llm_lite.core.encoding.session import EncoderSession
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.hub import catalog
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends
from llm_lite.core.loading.encoders.runner import EncoderRunner
from llm_lite.core.loading.loader import Progress, executor_info, make, model_info
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.sources import open_source
from llm_lite.core.loading.weights import files_behind
from llm_lite.core.messages import EngineOptions
from llm_lite.core.models.registry import read_model

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device


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
    specs = {name: one.spec for name, one in made.plan.loaded.items()}
    return EncoderRunner(
        model_file,
        read_model(model_file.file.metadata, specs, model_file.path),
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


def is_encoder(source: str | None) -> bool:
    """By its header alone; False too for what can not be opened, as a load will say."""
    try:
        file = open_source(catalog.resolve(source))
    except LlmLiteError:
        return False
    try:
        return read_model(file.metadata, file.tensors, file.path).bidirectional
    except LlmLiteError:
        return False
    finally:
        file.close()


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
