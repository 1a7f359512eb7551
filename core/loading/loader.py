"""From a name or path to a model that runs: file, tokenizer, template, executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.errors import (
    CancelledError,
    DeviceError,
    LlmLiteError,
    OutOfDeviceMemoryError,
    OutOfMemoryError,
    RequestError,
    UnfitModelError,
)
from llm_lite.core.exec.executor import Executor
from llm_lite.core.generation.sampling_defaults import sampling_defaults
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.ngram_learning import LearnedDrafts
from llm_lite.core.generation.speculation.speculation import speculation_of
from llm_lite.core.hub import catalog
from llm_lite.core.hub.fit.estimate import Planned, left_by
from llm_lite.core.hub.fit.machine import Machine, this_machine
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.kv_cache.prefix_pool import PrefixPool
from llm_lite.core.loading import backends, draft_models
from llm_lite.core.loading.background import BackgroundWork
from llm_lite.core.loading.beside import add_encoder
from llm_lite.core.loading.checked_before import verify_once
from llm_lite.core.loading.fitting import guarded
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.loading.runner import Runner, executor_info, model_info, name_of
from llm_lite.core.loading.sources import open_source
from llm_lite.core.loading.verification import Part, worth_releasing
from llm_lite.core.loading.weights import (
    converted,
    files_behind,
)
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import EngineOptions
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import architecture_of, read_model
from llm_lite.core.quant.tensor import TensorData, files_of
from llm_lite.core.records import replace
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
    """Read a file's header, vocabulary and template; weights only to warn of bad ones, and with
    `later` only if nothing else checks them while the model is in use. With `later`, `start` waits
    for the vocabulary and the template.

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
            for note in text.result()[0].notes:
                warn(f"{file.path}: {note}")
    except BaseException:
        text.close()
        raise
    defaults, problems = sampling_defaults(
        file.path, file.metadata, f"{name_of(file)} {file.path.name}"
    )
    for problem in problems:
        warn(problem)
    return ModelFile(file.path, file, model, text, file.nbytes, sampling_defaults=defaults)


def _read_text(file: ModelSource, rows: int) -> tuple[Tokenizer, ChatTemplate]:
    """Read tokenizer and template; on a thread of its own, while the weights are read."""
    with files_of(file.tensors.values()).unchanged():
        tokenizer = file.tokenizer(rows)
        template = file.template(tokenizer)
        tokenizer.load()
    trim_heap()  # the text that a vocabulary was read from
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
    """Start a model, its weights in the requested mode, on the requested executor (or `choice`)."""
    if model_file.model.embeds:
        raise RequestError(encoder_refusal(model_file))
    choice = choice or backends.choose(options, shared, model_file.model.shape)
    made = make(model_file, options, choice, progress, every_output=every_output)
    runner = _runner(
        model_file,
        options,
        made.choice,
        made.plan.build,
        made.executor,
        made.weights,
        made.unchecked,
    )
    try:
        add_encoder(runner)
        _add_draft_model(runner, made, progress)
        runner.session.files.check()
        progress("ready", 1.0)
    except BaseException:  # cancelled; the files have changed meanwhile
        runner.close()
        raise
    return runner


class BuiltExecutor(Struct, frozen=True):
    """An executor with a model's weights, the plan that it was made by, and the memory that there
    was before."""

    plan: Planned
    choice: backends.ExecutorChoice
    executor: Executor
    weights: Mapping[str, TensorData]
    unchecked: tuple[Part, ...]
    machine: Machine


def make(
    model_file: ModelFile,
    options: EngineOptions,
    choice: backends.ExecutorChoice,
    progress: Progress,
    *,
    every_output: bool = False,
    machine: Machine | None = None,
) -> BuiltExecutor:
    """Make the executor of `choice`, whose device is closed if that fails. `machine`: the memory
    that it may have; None: all that is free."""
    with _closing_after_failure(choice):
        machine = machine or this_machine(choice.info)
        plan = guarded(model_file, choice, options, machine, every_output=every_output)
        on_host = choice.backend != "vulkan"
        choice = replace(choice, experts=plan.experts)
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
        return BuiltExecutor(plan, choice, executor, weights, unchecked, machine)


def encoder_refusal(model_file: ModelFile) -> str:
    """Return the error message for text generation with an encoder."""
    kind = kind_of(model_file)
    fills = model_file.model.has_head
    also = ", and fills in masked tokens: `llm-lite fill`" if fills else ""
    return (
        f"{model_file.path}: this {kind} model is an encoder, which writes no text; it makes "
        f"vectors of texts: `llm-lite embed`{also}"
    )


def kind_of(model_file: ModelFile) -> str:
    """Return the title of the model's architecture."""
    return architecture_of(model_file.file.metadata, model_file.path).title


@contextmanager
def _closing_after_failure(choice: backends.ExecutorChoice) -> Iterator[None]:
    """Close a device that was opened for an executor if that cannot be made."""
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
    info = model_info(model_file, options, build.context, executor)
    if backends.drafts(choice, options) and executor.program.most_drafted:
        session.speculation = speculation_of(
            options.speculate, session, by_block=model_file.model.shape.draft_block
        )
    _add_learned_drafts(session, model_file, options, info.name)
    return Runner(
        model_file,
        executor,
        session,
        AttentionSource(executor, session, backends.query_note(build, shape, options), weights),
        choice,
        info,
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


def _add_learned_drafts(
    session: Session, model_file: ModelFile, options: EngineOptions, name: str
) -> None:
    """Add the drafts learned from earlier answers, if drafts are weighed; nothing is read yet. With
    `lookup` the text alone makes drafts."""
    speculation, how = session.speculation, options.learned_drafts
    if speculation is None or how == "off" or not options.weighs_drafts:
        return
    if not model_file.model.continues:
        return
    vocabulary = model_file.model.shape.vocabulary
    learned = LearnedDrafts(name, vocabulary, lambda: model_file.identity, learns=how == "learn")
    speculation.draft_what_was_learned(learned)


def _add_draft_model(runner: Runner, made: BuiltExecutor, progress: Progress) -> None:
    """Load the model that `options` name for drafts, if answers are drafted. Its errors name it and
    are RequestErrors: they are no fault of the model that it drafts for or of the device."""
    speculation, source = runner.session.speculation, runner.options.draft_model
    if not source or runner.options.speculate == "off":
        return
    if speculation is None or not runner.model_info.continues:
        runner.undrafted = draft_models.of_no_use(source, runner.choice, runner.model_file)
        return

    def of_draft(stage: str, fraction: float) -> None:
        progress("loading the draft model", fraction)

    try:
        loaded, draft = _started_draft(runner, made, source, of_draft)
    except (OutOfDeviceMemoryError, UnfitModelError) as error:
        raise draft_models.fault_of(error) from error
    except (CancelledError, DeviceError):
        raise
    except LlmLiteError as error:
        raise draft_models.fault_of(error) from error
    runner.beside.append(draft.executor)
    runner.draft = loaded
    runner.unchecked = (*runner.unchecked, *draft.unchecked)
    runner.executor_info = replace(runner.executor_info, draft=loaded.info)
    speculation.sources = (*speculation.sources, loaded.source)


def _started_draft(
    runner: Runner, target: BuiltExecutor, source: str, progress: Progress
) -> tuple[draft_models.LoadedDraft, BuiltExecutor]:
    """Start the draft model with the memory that the target leaves."""
    with ExitStack() as after_failure:
        file = open_model(source, progress, lambda _: None)
        after_failure.callback(file.close)
        draft_models.check_drafts_for(file, runner.model_file)
        options = draft_models.draft_options(runner.options, file, runner.session.context)
        choice = replace(runner.choice, owns_device=False, beside=None)
        left = left_by(target.plan, target.machine)
        made = make(file, options, choice, progress, machine=left)
        after_failure.callback(made.executor.close)
        session = _session(file, options, choice, made.executor, made.weights)
        info = draft_models.info_of(file, model_info(file, options, session.context, made.executor))
        drafts = draft_models.source_of(session, file, runner.model_file)
        after_failure.pop_all()
    return draft_models.LoadedDraft(file, session, info, drafts), made


@contextmanager
def started(
    model_file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress = lambda stage, fraction: None,
) -> Iterator[Runner]:
    """Yield a runner to measure with, whose steps can give the logits of all their tokens."""
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
