"""`llm-lite perplexity`: how well a model predicts a text in one weight mode, beside another."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.output import overwrite, show, show_json, tell, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import DivergenceReport, EngineOptions
from llm_lite.core.metrics.perplexity import measure, read_chunks
from llm_lite.core.records import asdict, replace

# What the JSON leaves out: it is there to draw with.
_PLOTTED = ("kld_quantiles", "kld_by_chunk")


def run(arguments: argparse.Namespace) -> int:
    tested = replace(engine_options(arguments), query_budget=0)
    if arguments.ctx == 0:
        tested = replace(tested, context=512)
    keys, values = arguments.reference_kv or arguments.kv
    reference = replace(
        tested, mode=arguments.reference_mode, activations="a32", keys=keys, values=values
    )
    with ExitStack() as stack:
        file = stack.enter_context(_opened(arguments.model))
        whose = file
        if arguments.reference is not None:
            whose = stack.enter_context(_opened(arguments.reference))
        _check_same_tokens(file, whose)
        chunks = read_chunks(arguments.file, file.tokenizer, tested.context, arguments.chunks)
        runner = stack.enter_context(loader.started(file, tested, None))
        other = stack.enter_context(loader.started(whose, reference, None))
        for note in dict.fromkeys((runner.note, other.note)):
            tell(note)
        report = measure(runner, other, chunks, _Progress())
    if arguments.json:
        numbers = {k: v for k, v in asdict(report).items() if k not in _PLOTTED}
        # A single scored token has no standard error: null.
        show_json({k: None if v != v else v for k, v in numbers.items()})
    else:
        _print(report, _cache(tested), _cache(reference))
    return 0


@contextmanager
def _opened(model: str) -> Iterator[ModelFile]:
    file = loader.open_model(model, lambda *_: None, warn)
    try:
        yield file
    finally:
        file.close()


def _check_same_tokens(tested: ModelFile, reference: ModelFile) -> None:
    if tested.tokenizer.identity != reference.tokenizer.identity:
        raise RequestError(
            f"{reference.path}: its tokenizer is another than that of {tested.path}, "
            "so that there is nothing to compare token by token"
        )


class _Progress:
    """A line on the terminal that is written over, with the time left."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._seen = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        left = (time.monotonic() - self._started) * (total - done) / done
        if self._seen or done == total:
            overwrite(f"{done} of {total} tokens, {left:.0f} s left", last=done == total)


def _cache(options: EngineOptions) -> str:
    keys, values = options.keys, options.values
    return f"{keys} cache" if keys == values else f"cache of {keys} keys and {values} values"


def _print(report: DivergenceReport, cache: str, reference_cache: str) -> None:
    tested, reference = report.tested, report.reference
    show(
        f"{tested.mode} {tested.activations}, {cache}, on {tested.backend} against "
        f"{reference.mode} {reference.activations}, {reference_cache}: "
        f"{report.tokens_scored} tokens of {report.chunks} chunks of {report.chunk_tokens}"
    )
    rows = (
        ("perplexity", f"{report.ppl:.4f} ± {report.ppl_error:.4f}"),
        ("of the reference", f"{report.ppl_reference:.4f} ± {report.ppl_reference_error:.4f}"),
        ("mean KL divergence", f"{report.kld_mean:.3g} ± {report.kld_error:.2g} nats"),
        ("median", f"{report.kld_median:.3g}"),
        ("90 %", f"{report.kld_p90:.3g}"),
        ("95 %", f"{report.kld_p95:.3g}"),
        ("99 %", f"{report.kld_p99:.3g}"),
        ("99.9 %", f"{report.kld_p999:.3g}"),
        ("largest", f"{report.kld_max:.3g}"),
        ("mean change of p", f"{100 * report.delta_p_mean:+.3f} %"),
        ("RMS change of p", f"{100 * report.delta_p_rms:.3f} %"),
        ("same likeliest", f"{100 * report.same_top:.2f} ± {100 * report.same_top_error:.2f} %"),
        ("bits a weight", f"{report.bits_per_weight:.2f}"),
        ("of matrices", f"{report.matrix_bits_per_weight:.2f}"),
        ("weights", f"{report.weight_bytes / 1e6:.1f} MB"),
    )
    for name, value in rows:
        show(f"  {name:20} {value}")
