"""From a name or path to a model that runs: file, tokenizer, template, executor."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from llm_lite.core.errors import OutOfMemoryError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.speculation import speculation_of
from llm_lite.core.hub import catalog
from llm_lite.core.hub.fit.estimate import Planned
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.kv_cache.prefix_pool import PrefixPool
from llm_lite.core.loading import backends, draft_models
from llm_lite.core.loading.background import BackgroundWork
from llm_lite.core.loading.beside import add_encoder
from llm_lite.core.loading.checking.checked_before import verify_once
from llm_lite.core.loading.checking.verification import Part, worth_releasing
from llm_lite.core.loading.fitting import guarded
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.loading.runner import Runner
from llm_lite.core.loading.sources import open_source
from llm_lite.core.loading.weights import (
    conversion_note,
    converted,
    described,
    files_behind,
    of_blocks,
)
from llm_lite.core.memory import give_back
from llm_lite.core.messages import EngineOptions, ExecutorInfo, ModelInfo, TranslatorInfo
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.models.registry import architecture_of, read_model
from llm_lite.core.plain_text import one_line
from llm_lite.core.plan.cache_layers import cache_layout
from llm_lite.core.plan.plan import Program
from llm_lite.core.quant.modes import MODES, mode_bytes
from llm_lite.core.quant.tensor import TensorData, files_of
from llm_lite.core.records import dataclass
from llm_lite.core.text.chat_template import ChatTemplate
from llm_lite.core.text.pretokenizers import pretokenizer_note
from llm_lite.core.text.sandbox.process import sandbox
from llm_lite.core.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device

Progress = Callable[[str, float], None]  # stage, 0..1; may raise CancelledError
Warn = Callable[[str], None]


def open_model(
    source: str | None,
    progress: Progress,
    warn: Warn,
    *,
    check_weights: bool = True,
    later: bool = False,
) -> ModelFile:
    """Read a file's header, vocabulary and template; weights only to warn of bad ones, and `later`
    only where nobody else will do it while the model is in use. `later`, `start` is who waits for
    the vocabulary and the template.

    FileError, UnsupportedError or RequestError where the source is not a model that we run.
    """
    sandbox().warm()  # while the header is read
    path = catalog.resolve(source)
    file = open_source(path, lambda fraction: progress("reading the header", 0.1 * fraction))
    try:
        with files_of(file.tensors.values()).unchanged():
            return _understood(file, progress, warn, check_weights, later)
    except BaseException:
        file.close()
        raise


def _understood(
    file: ModelSource, progress: Progress, warn: Warn, check_weights: bool, later: bool
) -> ModelFile:
    for note in filter(None, (*file.notes, pretokenizer_note(file.metadata))):
        warn(f"{file.path}: {note}")
    progress("reading the vocabulary", 0.1)
    model = read_model(file.metadata, file.tensors, file.path)
    text = BackgroundWork(partial(_read_text, file, model.shape.vocabulary), "tokenizer")
    try:
        progress("checking the weights", 0.25)
        if check_weights and not (later and file.checked_later):
            _warn_of_bad_weights(file, model.on_disk, progress, warn)
        if not later:
            text.result()
    except BaseException:
        text.close()
        raise
    return ModelFile(file.path, file, model, text, file.nbytes)


def _read_text(file: ModelSource, rows: int) -> tuple[Tokenizer, ChatTemplate]:
    """On a thread of its own, beside the weights."""
    with files_of(file.tensors.values()).unchanged():
        tokenizer = file.tokenizer(rows)
        template = file.template(tokenizer)
        tokenizer.load()
    give_back()  # the text that a vocabulary was read from
    return tokenizer, template


def start(
    model_file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress,
    *,
    choice: backends.ExecutorChoice | None = None,
    every_output: bool = False,
) -> Runner:
    """Weights in the mode asked for, on the executor asked for (or `choice`)."""
    if model_file.model.bidirectional:
        raise RequestError(what_it_is_for(model_file))
    choice = choice or backends.choose(options, shared, model_file.model.shape)
    made = make(model_file, options, choice, progress, every_output=every_output)
    runner = _runner(
        model_file, options, choice, made.plan.build, made.executor, made.weights, made.unchecked
    )
    try:
        add_encoder(runner)
        _add_draft_model(runner, progress)
        runner.session.files.check()
        progress("ready", 1.0)
    except BaseException:  # cancelled; the files have changed meanwhile
        runner.close()
        raise
    return runner


@dataclass(frozen=True, slots=True)
class Made:
    """An executor with a model's weights, and the plan that it was made by."""

    plan: Planned
    executor: Executor
    weights: Mapping[str, TensorData]
    unchecked: tuple[Part, ...]


def make(
    model_file: ModelFile,
    options: EngineOptions,
    choice: backends.ExecutorChoice,
    progress: Progress,
    *,
    every_output: bool = False,
) -> Made:
    """The executor of `choice`, whose device is closed where that fails."""
    with _closing_after_failure(choice):
        plan = guarded(model_file, choice, options, every_output=every_output)
        on_host = choice.backend != "vulkan"
        weights, unchecked = converted(model_file, options.mode, progress, at_once=on_host)
        model_file.text.raise_failure()
        executor = backends.make_executor(
            choice,
            plan.program,
            weights,
            options.threads,
            lambda fraction: progress("preparing the executor", 0.6 + 0.4 * fraction),
        )
        try:
            model_file.text.result()
        except BaseException:  # its tokenizer fails; cancelled
            executor.close()
            raise
        return Made(plan, executor, weights, unchecked)


def what_it_is_for(model_file: ModelFile) -> str:
    """A sentence for who wants an encoder to answer."""
    kind = kind_of(model_file)
    fills = model_file.model.has_head
    also = ", and fills in masked tokens: `llm-lite fill`" if fills else ""
    return (
        f"{model_file.path}: a {kind} model is an encoder, which writes no text; it makes vectors "
        f"of texts: `llm-lite embed`{also}"
    )


def kind_of(model_file: ModelFile) -> str:
    """The title of its architecture."""
    return architecture_of(model_file.file.metadata, model_file.path).title


@contextmanager
def _closing_after_failure(choice: backends.ExecutorChoice) -> Iterator[None]:
    """A device that was opened for an executor goes where that cannot be made."""
    try:
        yield
    except BaseException as error:
        if choice.owns_device and choice.device is not None:
            choice.device.close()
        if isinstance(error, MemoryError):
            raise OutOfMemoryError(
                "there is not enough memory for the model and its context: "
                "choose a smaller context or a smaller weight mode"
            ) from None
        raise


def _runner(
    model_file: ModelFile,
    options: EngineOptions,
    choice: backends.ExecutorChoice,
    build: BuildOptions,
    executor: Executor,
    weights: Mapping[str, TensorData],
    unchecked: tuple[Part, ...],
) -> Runner:
    shape = model_file.model.shape
    session = _session(model_file, options, choice, executor, weights)
    if backends.drafts(choice, options) and executor.program.stepwise_tokens:
        session.speculation = speculation_of(options.speculate, session)
    return Runner(
        model_file,
        executor,
        session,
        AttentionSource(executor, session, backends.query_note(build, shape, options), weights),
        choice,
        model_info(model_file, options, build.context, executor),
        executor_info(choice, options, executor.program),
        options,
        weights,
        build,
        unchecked,
    )


def _session(
    model_file: ModelFile,
    options: EngineOptions,
    choice: backends.ExecutorChoice,
    executor: Executor,
    weights: Mapping[str, TensorData],
) -> Session:
    activations = backends.activations(choice, options.activations, model_file.model.shape)
    return Session(
        executor,
        weights,
        made_by=f"{options.mode} {activations}",
        model=str(model_file.path),
        pool=PrefixPool(options.pool_budget),
        files=files_behind(model_file, weights),
    )


def _add_draft_model(runner: Runner, progress: Progress) -> None:
    """The model that `options` name, where answers are drafted. RequestError where it has another
    vocabulary, and what else opening and loading a model raise."""
    speculation, source = runner.session.speculation, runner.options.draft_model
    if speculation is None or not source or runner.translator is not None:
        return
    later = lambda stage, fraction: progress("loading the draft model", fraction)  # noqa: E731
    try:
        file = open_model(source, later, lambda _: None)
    except RequestError as error:
        raise RequestError(f"draft model: {error}") from None
    try:
        draft_models.check_drafts_for(file, runner.model_file)
        options = draft_models.draft_options(runner.options, file, runner.session.context)
        choice = replace(runner.choice, owns_device=False, beside=None)
        made = make(file, options, choice, later)
    except BaseException:
        file.close()
        raise
    runner.beside.append(made.executor)
    session = _session(file, options, choice, made.executor, made.weights)
    info = draft_models.info_of(file, model_info(file, options, session.context, made.executor))
    runner.draft = draft_models.LoadedDraft(file, session, info)
    runner.executor_info = replace(runner.executor_info, draft=info)
    found = draft_models.source_of(runner.draft, runner.model_file)
    speculation.sources = (*speculation.sources, found)


@contextmanager
def started(
    model_file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress = lambda stage, fraction: None,
) -> Iterator[Runner]:
    """A runner to measure with, whose steps can give the logits of all their tokens."""
    runner = start(model_file, options, shared, progress, every_output=True)
    try:
        yield runner
    finally:
        runner.close()


def _warn_of_bad_weights(
    file: ModelSource, on_disk: frozenset[str], progress: Progress, warn: Warn
) -> None:
    parts = [part for part in file.parts if part.name not in on_disk]
    release = worth_releasing(sum(part.nbytes for part in parts))
    for problem in verify_once(parts, release=release):
        progress("checking the weights", 0.3)
        if problem is not None:
            warn(f"{problem}; the answers will be nonsense")


def _translator_info(model: Model) -> TranslatorInfo | None:
    """None for a model that is no encoder-decoder."""
    decoding, encoder = model.decoding, model.encoder
    if decoding is None or encoder is None:
        return None
    return TranslatorInfo(decoding.beams, decoding.prefixes, encoder.shape.layers)


def model_info(
    model_file: ModelFile, options: EngineOptions, context: int, executor: Executor
) -> ModelInfo:
    shape, tensors = model_file.model.shape, model_file.file.tensors
    formats: Counter[str] = Counter()
    for tensor in tensors.values():
        formats[tensor.dtype] += tensor.nbytes
    metadata = model_file.file.metadata
    cache = cache_layout(executor.program.plans[0], options.keys, options.values)
    return ModelInfo(
        name=one_line(catalog.title_of(model_file.path) or _own_name(model_file)),
        path=str(model_file.path),
        architecture=one_line(str(metadata.get("general.architecture"))),
        parameters=sum(math.prod(t.shape) for t in tensors.values()),
        file_bytes=model_file.size,
        weight_bytes=executor.weight_bytes,
        kv_bytes=cache.reserved_bytes,
        cache=cache,
        context=context,
        trained_context=shape.trained_context,
        vocabulary=shape.vocabulary,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        width=shape.width,
        feed_forward=shape.feed_forward,
        has_chat_template=model_file.template.origin == "model",
        kind=model_file.model.kind,
        translator=_translator_info(model_file.model),
        switches_thinking=bool(model_file.template.thinking_switch),
        tool_style=model_file.template.tool_style,
        mode_bytes=MappingProxyType({m: mode_bytes(tensors.values(), m) for m in MODES}),
        stored_formats=MappingProxyType(dict(formats)),
        format_notes=described(formats),
        block_formats=of_blocks(formats),
        conversion=conversion_note(model_file),
        kept=MappingProxyType({mode: str(path) for mode, path in model_file.kept.items()}),
    )


def _own_name(model_file: ModelFile) -> str:
    name = model_file.file.metadata.get("general.name")
    return name if isinstance(name, str) and name.strip() else model_file.path.stem


def executor_info(
    choice: backends.ExecutorChoice, options: EngineOptions, program: Program
) -> ExecutorInfo:
    integer = any(op.name == "quantize" for plan in program.plans for op in plan.ops)
    return ExecutorInfo(
        backend=choice.backend,
        device=backends.device_name(choice),
        reason=choice.reason,
        mode=options.mode,
        activations="a8" if integer else "a32",  # float weights have no use for int8
        keys=options.keys,
        values=options.values,
        threads=_threads(choice, options),
    )


def _threads(choice: backends.ExecutorChoice, options: EngineOptions) -> int:
    if choice.backend == "cpu":
        from llm_lite.core.processor import default_threads

        return options.threads or default_threads()
    return os.cpu_count() or 1
