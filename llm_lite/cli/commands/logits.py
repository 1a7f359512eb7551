"""`llm-lite logits`: float32 [n_tokens, n_vocab] of a text, on the executor asked for."""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from llm_lite.cli.main import engine_options
from llm_lite.cli.terminal.inputs import executor_fields, read_ids, read_tokens
from llm_lite.cli.terminal.output import show_json, tell, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.files.writing import check_place, replaced
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner


def _logits(runner: Runner, tokens: list[int], target: str | None) -> NDArray[np.float32]:
    """Of an encoder-decoder those behind the target's tokens."""
    if runner.source_encoder is None:
        if target is not None:
            raise RequestError("--decoder-tokens: the model is no encoder-decoder")
        return runner.session.logits(tokens)
    if target is None:
        raise RequestError("--decoder-tokens: an encoder-decoder needs them, expected ids")
    runner.read_source(tokens)
    return runner.session.logits(read_ids("--decoder-tokens", target))


def run(arguments: argparse.Namespace) -> int:
    check_place(arguments.out)
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        tokens = read_tokens(arguments, file)
        runner = loader.start(
            file, engine_options(arguments), None, lambda *_: None, every_output=True
        )
        try:
            tell(runner.note)
            started = time.perf_counter()
            logits = _logits(runner, tokens, arguments.decoder_tokens)
            seconds = time.perf_counter() - started
        finally:
            runner.close()
        with replaced(arguments.out) as out:
            np.save(out, logits)
        if arguments.json:
            info = runner.executor_info
            show_json(
                {
                    "tokens": tokens,
                    "shape": list(logits.shape),
                    "out": str(arguments.out),
                    **executor_fields(info),
                    "seconds": seconds,
                }
            )
    finally:
        file.close()
    return 0
