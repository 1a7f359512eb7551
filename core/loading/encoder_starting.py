"""Starts the model of a file: an encoder, or whatever the file has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llm_lite.core.encoding.masked import mask_token
from llm_lite.core.encoding.pooling import Pooler
from llm_lite.core.encoding.session import EncoderSession
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.hub import catalog
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends, loader
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.loader import BuiltExecutor, Progress, make
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.runner import Runner, executor_info, model_info, name_of
from llm_lite.core.loading.sources import open_source
from llm_lite.core.loading.weights import files_behind
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.models.model import Model
from llm_lite.core.models.registry import read_model
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device


AnyRunner = Runner | EncoderRunner


def start_runner(
    model_file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress,
    *,
    choice: backends.ExecutorChoice | None = None,
) -> AnyRunner:
    """Start a runner for whatever kind of model the file has."""
    start = start_encoder if model_file.model.embeds else loader.start
    return start(model_file, options, shared, progress, choice=choice)


def start_encoder(
    model_file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress = lambda stage, fraction: None,
    *,
    choice: backends.ExecutorChoice | None = None,
) -> EncoderRunner:
    """Start an encoder, its weights in the requested mode, on the requested executor (or `choice`).
    RequestError if the model is no encoder."""
    if not model_file.model.embeds:
        raise RequestError(
            f"{model_file.path}: the model writes text and is no encoder, as BERT is: "
            "there are no masked tokens that it could fill in"
        )
    choice = choice or backends.choose(options, shared, model_file.model.shape)
    runner = _runner(model_file, options, choice, make(model_file, options, choice, progress))
    try:
        runner.session.files.check()
        progress("ready", 1.0)
    except BaseException:  # cancelled; the files have changed meanwhile
        runner.close()
        raise
    return runner


def _runner(
    model_file: ModelFile,
    options: EngineOptions,
    choice: backends.ExecutorChoice,
    made: BuiltExecutor,
) -> EncoderRunner:
    model, how = model_file.model, model_file.model.embedding
    assert how is not None, "an encoder says how texts become vectors"
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
    pooler = Pooler(how, model_file.file.tensors)
    info = model_info(model_file, exact, made.plan.build.context, made.executor)
    runner = EncoderRunner(
        model_file,
        read_model(model_file.file.metadata, specs, model_file.path),
        made.executor,
        session,
        AttentionSource(made.executor, session, note, made.weights),
        pooler,
        choice,
        made.plan.build,
        info,
        executor_info(choice, exact, made.executor.program),
        options,
        made.weights,
        made.unchecked,
    )
    runner.model_info = replace(info, encoder=_encoder_info(runner))
    return runner


def _encoder_info(runner: EncoderRunner) -> EncoderInfo:
    tokenizer = runner.model_file.tokenizer
    fills = runner.session.has_head and tokenizer.mask_id is not None
    return EncoderInfo(
        most_tokens=runner.most_tokens,
        vector_width=runner.width,
        mask_token=mask_token(tokenizer) if fills else "",
        has_pairs=bool(tokenizer.around_pair),
        sees_ahead=any(not layer.is_causal for layer in runner.attention.layers),
    )


def model_and_name(source: str | None) -> tuple[Model | None, str]:
    """Return a model and its name by its header alone; None and "" for what cannot be opened, as a
    load will say."""
    try:
        file = open_source(catalog.resolve(source))
    except LlmLiteError:
        return None, ""
    try:
        return read_model(file.metadata, file.tensors, file.path), name_of(file)
    except LlmLiteError:
        return None, ""
    finally:
        file.close()


@contextmanager
def encoder(
    model_file: ModelFile, options: EngineOptions, shared: Device | None = None
) -> Iterator[EncoderRunner]:
    """Yield a runner for as long as the block runs."""
    runner = start_encoder(model_file, options, shared)
    try:
        yield runner
    finally:
        runner.close()
