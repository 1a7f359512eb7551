"""`llm-lite logits`: float32 [n_tokens, n_vocab] of a text, on the executor asked for; of an
encoder without a masked-token head its hidden states [n_tokens, width]."""

from __future__ import annotations

import argparse
import time

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.inputs import executor_fields, read_ids, read_tokens
from llm_lite.cli.terminal.output import report_written, show_json, tell, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.files.writing import check_place, replaced
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import encoder
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import ExecutorInfo


def _logits(runner: Runner, tokens: list[int], target: str | None) -> NDArray[np.float32]:
    """Return the logits behind each token; of an encoder-decoder, behind the target's tokens."""
    if runner.source_encoder is None:
        if target is not None:
            raise RequestError("--decoder-tokens: the model is no encoder-decoder")
        return runner.session.logits(tokens)
    if target is None:
        raise RequestError("--decoder-tokens: an encoder-decoder needs them, expected ids")
    runner.read_source(tokens)
    return runner.session.logits(read_ids("--decoder-tokens", target))


class _Computed(Struct, frozen=True):
    values: NDArray[np.float32]
    kind: str
    seconds: float
    executor: ExecutorInfo


def _of_decoder(file: ModelFile, arguments: argparse.Namespace, tokens: list[int]) -> _Computed:
    runner = loader.start(file, engine_options(arguments), None, lambda *_: None, every_output=True)
    try:
        tell(runner.note)
        started = time.perf_counter()
        logits = _logits(runner, tokens, arguments.decoder_tokens)
        seconds = time.perf_counter() - started
    finally:
        runner.close()
    return _Computed(logits, "logits", seconds, runner.executor_info)


def _of_encoder(file: ModelFile, arguments: argparse.Namespace, tokens: list[int]) -> _Computed:
    if arguments.decoder_tokens is not None:
        raise RequestError("--decoder-tokens: the model is no encoder-decoder")
    with encoder(file, engine_options(arguments)) as runner:
        tell(runner.note)
        session, started = runner.session, time.perf_counter()
        values = session.logits(tokens) if session.has_head else session.hidden(tokens)
        seconds = time.perf_counter() - started
        kind = "logits" if session.has_head else "hidden states"
    return _Computed(values, kind, seconds, runner.executor_info)


def run(arguments: argparse.Namespace) -> int:
    check_place(arguments.out)
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        tokens = read_tokens(arguments, file)
        compute = _of_encoder if file.model.embeds else _of_decoder
        found = compute(file, arguments, tokens)
        with replaced(arguments.out) as out:
            np.save(out, found.values)
        if arguments.json:
            show_json(
                {
                    "tokens": tokens,
                    "kind": found.kind,
                    "shape": list(found.values.shape),
                    "out": str(arguments.out),
                    **executor_fields(found.executor),
                    "seconds": found.seconds,
                }
            )
        else:
            report_written(arguments.out, found.kind, found.values.shape)
    finally:
        file.close()
    return 0
