"""The speed of each weight mode on this machine, and which one to choose.

Fewer bits are fewer bytes to read for a token, but old integrated devices may multiply float16
faster than they unpack integers: only measuring tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llm_lite.core.errors import (
    DeviceError,
    OutOfMemoryError,
    RequestError,
    UnsupportedError,
)
from llm_lite.core.loading import loader
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import EngineOptions, Mode, ModeSpeed
from llm_lite.core.metrics.bench import bench
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device

Progress = Callable[[str, float], None]  # what, 0..1; may raise CancelledError

# The most exact first; fp32 holds the same numbers as fp16 of most files at twice the size.
PREFERENCE: tuple[Mode, ...] = ("as-stored", "fp16", "fp32", "int8", "int4")
ROUNDED: tuple[Mode, ...] = ("int8", "int4")  # others are as exact as each other, nearly
CLOSE = 0.9  # of the fastest: not worth less exactness
PROMPT, NEW, REPEAT = 64, 24, 2  # tokens, tokens, runs


def measure_modes(
    file: ModelFile,
    options: EngineOptions,
    shared: Device | None,
    progress: Progress,
) -> tuple[ModeSpeed, ...]:
    """Measure every mode that fits into memory and can be run, as `options` say but for the mode,
    and without a draft model: nothing is drafted here.

    RequestError where there is none; CancelledError from `progress`.
    """
    rows = []
    context = _context(file)
    for number, mode in enumerate(PREFERENCE):
        progress(f"measuring {mode}", number / len(PREFERENCE))
        tried = replace(options, mode=mode, context=context, query_budget=0, draft_model="")
        try:
            runner = loader.start(file, tried, shared, _watched(progress, mode, number))
        except (DeviceError, OutOfMemoryError, UnsupportedError):
            continue
        try:
            result = bench(
                runner, prompt_tokens=min(PROMPT, context), new_tokens=NEW, depth=0, repeat=REPEAT
            )
            rows.append(
                ModeSpeed(
                    mode,
                    runner.executor_info.activations,
                    runner.model_info.weight_bytes,
                    result.prefill_tok_s.median,
                    result.decode_tok_s.median,
                    runner.model_info.rounded_again.get(mode, 0.0),
                    runner.model_info.again_error.get(mode, 0.0),
                )
            )
        finally:
            runner.close()
            trim_heap()
    if not rows:
        raise RequestError("no weight mode of this model fits into the memory that is free")
    return tuple(rows)


def _context(file: ModelFile) -> int:
    """Return the context; the source of an encoder-decoder takes none of it, and a table of
    positions may end early."""
    if not file.model.translates:
        return PROMPT + NEW
    return min(PROMPT + NEW, file.model.shape.trained_context)


def recommend(rows: Sequence[ModeSpeed]) -> tuple[int, str]:
    """Return the index of the most exact mode that is about as fast as the fastest, and a sentence
    why. A mode that rounds weights once more that have few bits already is none to choose."""
    once = [row for row in rows if not row.rounded_again] or rows
    fastest = max(row.decode_tok_s for row in once)
    row = min(
        (row for row in once if row.decode_tok_s >= CLOSE * fastest),
        key=lambda row: PREFERENCE.index(row.mode),
    )
    best = list(rows).index(row)
    quick = max(rows, key=lambda other: other.decode_tok_s)
    if quick.rounded_again and not row.rounded_again:
        return best, (
            f"{row.mode} rounds no weights a second time, as {quick.mode} does: "
            f"{row.decode_tok_s:.1f} against {quick.decode_tok_s:.1f} tok/s"
        )
    if row.decode_tok_s == fastest:
        return best, f"{row.mode} is the fastest here: {fastest:.1f} tok/s"
    better = (
        "takes less memory than" if row.weight_bytes < quick.weight_bytes else "loses less than"
    )
    if quick.mode in ROUNDED:
        better = "is more exact than"
    return best, (
        f"{row.mode} {better} {quick.mode} and is nearly as fast: "
        f"{row.decode_tok_s:.1f} against {fastest:.1f} tok/s"
    )


def _watched(progress: Progress, mode: str, number: int) -> Progress:
    def report(stage: str, fraction: float) -> None:
        progress(f"{mode}: {stage}", (number + 0.5 * fraction) / len(PREFERENCE))

    return report
