"""Perplexity of a text, and how far a model in one mode is from itself in another.

Defined as llama.cpp's perplexity tool (tools/perplexity): the text is tokenized whole, cut into
chunks that each begin with an empty cache (their first token is the begin token where the model
asks for one), and the tokens of the second half of each chunk are scored but for its last, which
has nothing to predict. A rest shorter than a chunk is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.files.text_input import LONGEST_TEXT, read_beginning, read_text
from llm_lite.core.finite import checked
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import DivergenceReport
from llm_lite.core.metrics.divergence import (
    Estimate,
    LogitRows,
    compare,
    concatenate,
    percentile,
    perplexity,
)
from llm_lite.core.plan.plan import Kind
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.text.tokenizer import Tokenizer

Progress = Callable[[int, int], None]  # tokens done, tokens in all

SMALLEST_CHUNK = 4  # tokens: one of them is scored
_SPARE = 1 << 16  # bytes behind what is needed: where a text ends changes its last tokens


def read_chunks(path: Path, tokenizer: Tokenizer, size: int, most: int = 0) -> list[list[int]]:
    """Read chunks of a text file as `chunks_of` cuts them; for `most` chunks no more is read than
    they can take.

    FileError where it cannot be read, is not UTF-8 or, where all chunks are wanted, too long.
    """
    needed = most * size * tokenizer.longest_token_bytes + _SPARE
    if most and needed < LONGEST_TEXT:
        text = read_beginning(path, needed)
    else:
        text = read_text(path)
    return chunks_of(tokenizer, text, size, most)


def chunks_of(tokenizer: Tokenizer, text: str, size: int, most: int = 0) -> list[list[int]]:
    """Return chunks of `size` tokens, `most` at most (0: all). RequestError if there is none."""
    if size < SMALLEST_CHUNK:
        raise RequestError(f"chunk: expected at least {SMALLEST_CHUNK} tokens, found {size}")
    begin = tokenizer.around[0]
    tokens = [*begin, *tokenizer.encode(text, parse_special=False)]
    chunks = [tokens[i : i + size] for i in range(0, len(tokens) - size + 1, size)]
    if not chunks:
        raise RequestError(
            f"the text has {len(tokens)} tokens, too few for a chunk of {size}: "
            "expected a longer text or a smaller context"
        )
    chunks = [[*begin, *chunk[len(begin) :]] for chunk in chunks]
    return chunks[:most] if most else chunks


def measure(
    tested: Runner,
    reference: Runner,
    chunks: Sequence[Sequence[int]],
    progress: Progress = lambda done, total: None,
    should_stop: StopCheck | None = None,
) -> DivergenceReport:
    """Run both models over the chunks, step by step side by side: no more than a step's logits of
    each is in memory. The runners were started with `every_output` and belong to the caller.
    CancelledError once `should_stop` returns True; NotFiniteError where a model's values overflow.
    """
    size, parts = len(chunks[0]), []
    for number, chunk in enumerate(chunks):
        parts.append(_score(tested, reference, chunk, should_stop))
        progress((number + 1) * size, len(chunks) * size)
    return _report(tested, reference, parts, size)


def _score(
    tested: Runner, reference: Runner, chunk: Sequence[int], should_stop: StopCheck | None
) -> LogitRows:
    first = len(chunk) // 2
    step = min(tested.session.max_outputs, reference.session.max_outputs)
    targets = np.asarray(chunk[first + 1 :], np.int64)
    tested.session.clear()
    reference.session.clear()
    pairs = zip(
        reference.session.score(chunk[:-1], first, step, should_stop),
        tested.session.score(chunk[:-1], first, step, should_stop),
        strict=True,
    )
    parts, at = [], 0
    for expected, found in pairs:
        parts.append(compare(expected, found, targets[at : at + len(found)]))
        at += len(found)
    return concatenate(parts)


def _report(
    tested: Runner, reference: Runner, parts: list[LogitRows], chunk_tokens: int
) -> DivergenceReport:
    rows = concatenate(parts)
    ppl, ppl_reference = perplexity(rows.log_p), perplexity(rows.log_p_reference)
    name, how = str(tested.model_file.path), tested.session.made_by
    checked(rows.kld, "the divergences", name, how)
    kld, delta = Estimate.of(rows.kld), np.exp(rows.log_p) - np.exp(rows.log_p_reference)
    same = Estimate.of(rows.same_top.astype(np.float64))
    weight_bytes = tested.model_info.weight_bytes
    return DivergenceReport(
        ppl=ppl.mean,
        ppl_error=ppl.error,
        ppl_reference=ppl_reference.mean,
        ppl_reference_error=ppl_reference.error,
        kld_mean=kld.mean,
        kld_error=kld.error,
        kld_median=percentile(rows.kld, 50),
        kld_p90=percentile(rows.kld, 90),
        kld_p95=percentile(rows.kld, 95),
        kld_p99=percentile(rows.kld, 99),
        kld_p999=percentile(rows.kld, 99.9),
        kld_max=float(rows.kld.max()),
        delta_p_mean=float(delta.mean()),
        delta_p_rms=math.sqrt(float((delta * delta).mean())),
        same_top=same.mean,
        same_top_error=same.error,
        tokens_scored=len(rows.kld),
        chunks=len(parts),
        chunk_tokens=chunk_tokens,
        bits_per_weight=8 * weight_bytes / tested.model_info.parameters,
        matrix_bits_per_weight=matrix_bits_per_weight(tested),
        weight_bytes=weight_bytes,
        reference_weight_bytes=reference.model_info.weight_bytes,
        tested=tested.executor_info,
        reference=reference.executor_info,
        kld_quantiles=tuple(float(v) for v in np.percentile(rows.kld, np.arange(101))),
        kld_by_chunk=tuple(float(part.kld.mean()) for part in parts),
    )


def matrix_bits_per_weight(runner: Runner) -> float:
    """Return the mean over the weights of all matrices, by the formats that they have as loaded."""
    tensors = {
        tensor.name: tensor
        for tensor in runner.executor.program.plans[0].tensors
        if tensor.kind is Kind.WEIGHT and len(tensor.shape) > 1
    }.values()
    values = sum(math.prod(tensor.shape) for tensor in tensors)
    bits = sum(math.prod(t.shape) * FORMATS[t.dtype].bits_per_weight for t in tensors)
    return bits / values if values else 0.0
