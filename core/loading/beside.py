"""Additional executors of a runner, with the same weights on its device: an encoder-decoder's
encoder and beams. The runner closes them."""

from __future__ import annotations

from functools import partial

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.generation.translation import SourceEncoder, Translator
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends
from llm_lite.core.loading.runner import Runner
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.plan.plan import Program
from llm_lite.core.records import replace


def programs_beside(model: Model, build: BuildOptions) -> tuple[Program, ...]:
    """Return the programs that an encoder-decoder needs besides its decoder's: the encoder's, and
    that of the beam which its file asks for."""
    if model.encoder is None or model.decoding is None:
        return ()
    encoder = model.encoder.build(backends.encoder_build_options(build))
    width = model.decoding.beams
    beam = [model.build(backends.beam_build_options(build, width))] if width > 1 else []
    return (encoder, *beam)


def executor_beside(runner: Runner, model: Model, build: BuildOptions) -> Executor:
    executor = backends.make_executor(
        replace(runner.choice, beside=runner.executor),
        model.build(build),
        runner.weights,
        runner.options.threads,
        lambda _: None,
    )
    runner.beside.append(executor)
    return executor


def close_beside(runner: Runner, executor: Executor) -> None:
    """Close an executor that the runner does not need any more, which frees its memory."""
    runner.beside = [one for one in runner.beside if one is not executor]
    executor.close()


def add_encoder(runner: Runner) -> None:
    """Add the encoder of an encoder-decoder; other models have none."""
    model = runner.model
    if model.encoder is not None:
        build = backends.encoder_build_options(runner.build)
        executor = executor_beside(runner, model.encoder, build)
        session, layers = runner.session, model.shape.layers
        encoder = SourceEncoder(
            executor, layers, made_by=session.made_by, model=str(runner.model_file.path)
        )
        runner.source_encoder, runner.translator = encoder, _translator(runner, encoder)
        note, weights = runner.attention.note, runner.weights
        runner.parts = {
            "encoder": AttentionSource(executor, encoder, note, weights),
            "decoder": AttentionSource(runner.executor, session, note, weights, cross=False),
            "cross": AttentionSource(runner.executor, session, note, weights, cross=True),
        }


def translator_of(runner: Runner) -> Translator:
    """Return the runner's translator. RequestError for a model that is no encoder-decoder."""
    if runner.translator is None:
        raise RequestError(f"{runner.model_info.name} is no encoder-decoder: it continues texts")
    return runner.translator


def _translator(runner: Runner, encoder: SourceEncoder) -> Translator:
    decoding, ends = runner.model_file.model.decoding, runner.model_file.tokenizer.end_ids
    assert decoding is not None
    beam, close = partial(beam_executor, runner), partial(close_beside, runner)
    return Translator(runner.session, encoder, decoding, ends, beam, close)


def beam_executor(runner: Runner, width: int) -> Executor:
    """Make the executor of a beam of `width` hypotheses of an encoder-decoder."""
    build = backends.beam_build_options(runner.build, width)
    return executor_beside(runner, runner.model, build)
