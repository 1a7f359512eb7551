"""`llm-lite models fit`: what a model takes in every mode, against what this machine has."""

from __future__ import annotations

import argparse
from typing import Any

from llm_lite.cli.terminal.output import show, show_json
from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub import catalog
from llm_lite.core.hub.fit.bandwidth import measured_gb_s
from llm_lite.core.hub.fit.machine import this_machine
from llm_lite.core.hub.fit.recommend import amount, recommend_mode, total
from llm_lite.core.loading import backends
from llm_lite.core.loading.fitting import Fitting, described
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import MODES, EngineOptions, Mode
from llm_lite.core.messages.library import Fit
from llm_lite.core.quant.modes import again_sentence
from llm_lite.core.records import asdict, replace

_PARTS = ("weights", "cache", "scratch", "maps", "program")
_HEAD = ("mode", *_PARTS, "in all", "tokens/s", "")


def run(arguments: argparse.Namespace) -> int:
    options = EngineOptions(
        backend=arguments.backend, device=arguments.device, context=arguments.ctx
    )
    choice = backends.choose(options, None)
    try:
        gb_s = measured_gb_s(choice.device, again=arguments.measure)
        source = open_source(catalog.resolve(arguments.model))
        try:
            asked = Fitting(described(source), choice, this_machine(choice.info))
            fits = {mode: _fit(asked, replace(options, mode=mode), gb_s) for mode in MODES}
        finally:
            source.close()
    finally:
        if choice.owns_device and choice.device is not None:
            choice.device.close()
    return _tell(arguments.json, choice, fits, gb_s)


def _fit(asked: Fitting, options: EngineOptions, gb_s: float) -> Fit | str:
    """Return how the model fits in this mode, or why it cannot be computed."""
    try:
        # Its speed is of a context that is half full.
        return asked.fit(options, gb_s)
    except LlmLiteError as error:
        return str(error)


def _tell(
    as_json: bool, choice: backends.ExecutorChoice, found: dict[Mode, Fit | str], gb_s: float
) -> int:
    fits = [fit for fit in found.values() if not isinstance(fit, str)]
    if not fits:
        raise LlmLiteError(next(str(problem) for problem in found.values()))
    best = recommend_mode(fits)
    recommended = None if best is None else fits[best].mode
    if as_json:
        rows = [_as_json(mode, fit, mode == recommended) for mode, fit in found.items()]
        show_json({"device": backends.device_name(choice), "read_gb_s": gb_s, "modes": rows})
        return 0
    show(f"{backends.device_name(choice)}, reads {gb_s:.1f} GB/s; context {fits[0].context} tokens")
    _show_free(fits[0])
    _table([_row(fit, fit.mode == recommended) for fit in fits])
    for mode, fit in found.items():
        if isinstance(fit, str):
            show(f"{mode}: {fit}")
        elif not fit.fits:
            show(f"{mode} does not fit: {fit.instead}")
        elif fit.in_file:
            show(f"{mode}: {amount(fit.in_file)} of experts stay in the file, as they do not fit")
        if not isinstance(fit, str) and fit.rounded_again:
            show(f"{mode}: {again_sentence(mode, fit.rounded_again)}")
    return 0


def _show_free(fit: Fit) -> None:
    free = [] if fit.host_free is None else [f"{amount(fit.host_free)} of memory"]
    free += [] if fit.device_free is None else [f"{amount(fit.device_free)} on the device"]
    show(f"free: {' and '.join(free)}" if free else "how much is free, the system does not tell")


def _row(fit: Fit, recommended: bool) -> tuple[str, ...]:
    sizes = {str(part.name): part.host + part.device for part in fit.parts}
    mark = "recommended" if recommended else "" if fit.fits else "does not fit"
    return (
        fit.mode,
        *(amount(sizes[name]) for name in _PARTS),
        amount(total(fit)),
        "-" if fit.speed is None or not fit.writes else f"{fit.speed:.0f}",
        mark,
    )


def _as_json(mode: Mode, fit: Fit | str, recommended: bool) -> dict[str, Any]:
    if isinstance(fit, str):
        return {"mode": mode, "problem": fit}
    return {**asdict(fit), "bytes": total(fit), "fits": fit.fits, "recommended": recommended}


def _table(rows: list[tuple[str, ...]]) -> None:
    every = [_HEAD, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(_HEAD))]
    for row in every:
        first, *numbers, last = (
            cell.ljust(width) if column in (0, len(_HEAD) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        show("  ".join([first, *numbers, last]).rstrip())
