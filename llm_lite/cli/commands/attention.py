"""`llm-lite attention`: the attention probabilities of a text, float32 [layers, heads, n, n]."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.inputs import executor_fields, read_tokens
from llm_lite.cli.terminal.output import report_written, show_json, tell, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.files.writing import check_place, replaced
from llm_lite.core.inspect.text_maps import EVERY_QUERY, check_maps, text_maps
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import start_encoder
from llm_lite.core.records import replace


def run(arguments: argparse.Namespace) -> int:
    check_place(arguments.out)
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        shape = file.model.shape
        layers = _selected(arguments.layers, shape.layers, "layer")
        heads = _selected(arguments.heads, shape.heads, "head")
        tokens = read_tokens(arguments, file)
        check_maps(tokens, layers, heads, shape)
        options = engine_options(arguments)
        options = replace(
            options,
            context=options.context or len(tokens),
            query_budget=EVERY_QUERY,
            whole_caches=True,
        )
        start = start_encoder if file.model.embeds else loader.start
        runner = start(file, options, None, lambda *_: None)
        try:
            tell(runner.note)
            started = time.perf_counter()
            probs = text_maps(runner.attention, runner.session, tokens, layers, heads)
            seconds = time.perf_counter() - started
        finally:
            runner.close()
        numbers = [np.array(each, np.int32) for each in (tokens, layers, heads)]
        with replaced(arguments.out) as out:
            np.savez(out, probs=probs, tokens=numbers[0], layers=numbers[1], heads=numbers[2])
        if arguments.json:
            info = runner.executor_info
            report: dict[str, Any] = {
                "tokens": tokens,
                "shape": list(probs.shape),
                "layers": layers,
                "heads": heads,
                "out": str(arguments.out),
                **executor_fields(info),
                "seconds": seconds,
            }
            show_json(report)
        else:
            report_written(arguments.out, "probs", probs.shape)
    finally:
        file.close()
    return 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _selected(text: str | None, count: int, what: str) -> list[int]:
    """Numbers and ranges with commas between, "0,3-5", in the order given; None is all."""
    if text is None:
        return list(range(count))
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or not (_is_number(last) if dash else True):
            raise RequestError(f"--{what}s: expected numbers such as 0,3-5, found {text[:60]!r}")
        low, high = int(first), int(last or first)
        if max(low, high) >= count:
            raise RequestError(
                f"{what} {max(low, high)} is not in the model, which has {what}s 0 to {count - 1}"
            )
        if high < low:
            raise RequestError(f"--{what}s: {part.strip()} ends before it begins")
        chosen += range(low, high + 1)
    return list(dict.fromkeys(chosen))
