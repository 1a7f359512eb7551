"""`llm-lite attention`: the attention probabilities of a text, float32 [layers, heads, n, n]."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.cli.main import engine_options
from llm_lite.cli.terminal.inputs import executor_fields, read_tokens
from llm_lite.cli.terminal.output import show_json, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.files.writing import check_place, replaced
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.loading import loader
from llm_lite.core.metrics.memory import available_bytes
from llm_lite.core.models.model import ModelShape

_WORKING_MAPS = 4  # of one head, while it is computed
_EVERY_QUERY = 1 << 62  # bytes: a budget without an end


def run(arguments: argparse.Namespace) -> int:
    check_place(arguments.out)
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        shape = file.model.shape
        layers = _selected(arguments.layers, shape.layers, "layer")
        heads = _selected(arguments.heads, shape.heads, "head")
        tokens = read_tokens(arguments, file)
        _check(tokens, layers, heads, shape)
        options = engine_options(arguments)
        options = replace(
            options,
            context=options.context or len(tokens),
            query_budget=_EVERY_QUERY,
            whole_caches=True,
        )
        runner = loader.start(file, options, None, lambda *_: None)
        try:
            started = time.perf_counter()
            probs = _maps(runner, tokens, layers, heads)
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
    finally:
        file.close()
    return 0


def _maps(
    runner: loader.Runner, tokens: list[int], layers: list[int], heads: list[int]
) -> NDArray[np.float32]:
    runner.session.prefill(tokens)
    n = len(tokens)
    try:
        probs = np.empty((len(layers), len(heads), n, n), np.float32)
    except MemoryError:
        raise RequestError(_too_large(layers, heads, n, None)) from None
    for index, layer in enumerate(layers):
        head_maps(runner.attention, layer, heads, probs[index])
    return probs


def _check(tokens: list[int], layers: list[int], heads: list[int], shape: ModelShape) -> None:
    """Say before the work what would fail in it."""
    n = len(tokens)
    if n < 2:
        raise RequestError(f"attention needs a text of two tokens or more, this one has {n}")
    if n > shape.trained_context:
        raise RequestError(
            f"the text has {n} tokens, the model was trained for {shape.trained_context}"
        )
    left = available_bytes()
    if left is not None and 4 * n * n * (len(layers) * len(heads) + _WORKING_MAPS) > left:
        raise RequestError(_too_large(layers, heads, n, left))


def _too_large(layers: list[int], heads: list[int], n: int, left: int | None) -> str:
    size = 4 * len(layers) * len(heads) * n * n
    free = "" if left is None else f", of which {_gib(left)} are available"
    return (
        f"maps of {len(layers)} layers, {len(heads)} heads and {n} x {n} tokens take {_gib(size)} "
        f"of memory{free}: choose fewer with --layers and --heads, or a shorter text"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.1f} MiB"


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
