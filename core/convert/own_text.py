"""A text to calibrate with that the model writes itself, where nobody has a better one.

Each piece begins with a token drawn from the whole vocabulary and goes on as the model does at
temperature 1, so that together they show what the model knows, in the shares in which it says it
(Liu et al. 2023, arXiv:2305.17888). On news, SmolLM2 calibrated so loses over a quarter
less than calibrated with another subject's text (docs/quantization.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from llm_lite.core.convert.calibration import CHUNK_TOKENS
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import generate
from llm_lite.core.loading import loader
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.text.tokenizer import Tokenizer

CHUNKS = 16  # twice as many lose a fourteenth less, and take twice the time to write
_SEED = 1  # the same text each time

Progress = Callable[[str, float], None]  # what is being done, 0..1; may raise to cancel


def write_chunks(
    model: ModelFile,
    progress: Progress = lambda stage, fraction: None,
    *,
    threads: int = 0,
) -> list[list[int]]:
    """CHUNKS pieces of CHUNK_TOKENS tokens, or as many as the model was trained for.

    Written by the processor with weights of int8, which reads them twice as fast as float16 and
    chooses the same token 98 times of 100. RequestError and MemoryError as of `loader.start`.
    """
    size = min(CHUNK_TOKENS, model.model.shape.trained_context)
    options = EngineOptions(
        backend="cpu", mode="int8", threads=threads, context=size, query_budget=0, pool_budget=0
    )
    chunks = []
    with loader.started(model, options, None) as runner:
        for begin in _beginnings(model.tokenizer):
            chunks.append(_written(runner.session, begin, size))
            progress("writing a text to calibrate with", len(chunks) / CHUNKS)
    return chunks


def _beginnings(tokenizer: Tokenizer) -> Iterator[list[int]]:
    """A token of the vocabulary that stands for text, behind the begin token where there is one."""
    start = [tokenizer.bos_id] if tokenizer.adds_bos and tokenizer.bos_id is not None else []
    plain = [i for i in range(tokenizer.vocab_size) if not tokenizer.is_special(i)]
    for first in np.random.default_rng(_SEED).choice(plain, CHUNKS):
        yield [*start, int(first)]


def _written(session: Session, begin: list[int], size: int) -> list[int]:
    """The model may end its text and begin another, as it does with the turns of a chat."""
    sampling = SamplingOptions(
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        seed=_SEED + begin[-1],
        max_new_tokens=max(1, size - len(begin)),
    )
    session.clear()
    ends: frozenset[int] = frozenset()
    return [*begin, *(choice.token for choice in generate(session, begin, sampling, ends))][:size]
