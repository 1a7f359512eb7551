"""Tokens without end in a rolling window: memory, finiteness, and what it costs in perplexity.

    python -m tools.bench.rolling_window [--tokens 20000] [--context 1024] [--kv fp16]

Generates, then reads a text that it has not seen, token by token at the end of the rolled cache;
for comparison, at every --stride-th token a fresh window reads all that the rolled cache holds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.generation.sampling import Sampler
from llm_lite.core.generation.session import Session
from llm_lite.core.loading import loader
from llm_lite.core.messages import EngineOptions, KvType, SamplingOptions
from tests.paths import ROOT
from tests.resident import resident_bytes

ROLLING = PrefillOptions("rolling")
TEXT = ROOT / "ARCHITECTURE.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--tail", type=int, default=512)
    parser.add_argument("--kv", default="fp16")
    parser.add_argument("--stride", type=int, default=8)
    arguments = parser.parse_args()
    kind: KvType = arguments.kv
    options = EngineOptions(backend="cpu", context=arguments.context, keys=kind, values=kind)
    file = loader.open_model(None, lambda *_: None, print)
    runners = [loader.start(file, options, None, lambda *_: None) for _ in range(2)]
    rolling, fresh = (runner.session for runner in runners)
    text = file.tokenizer.encode(TEXT.read_text())
    begin, unseen = text[: arguments.context // 2], text[-arguments.tail :]
    report = {"context": arguments.context, **generate(rolling, begin, arguments.tokens)}
    report |= judge(rolling, fresh, unseen, arguments.stride)
    print(json.dumps(report, indent=1))
    for runner in runners:
        runner.close()
    file.close()


def generate(session: Session, begin: Sequence[int], count: int) -> dict[str, Any]:
    """`count` tokens after `begin`; resident memory at every tenth of them."""
    memory, started = [], time.perf_counter()
    for index, _ in enumerate(_endless(session, list(begin), count)):
        if index % max(1, count // 10) == 0:
            memory.append(_resident_kib())
    seconds = time.perf_counter() - started
    return {"tokens": count, "tokens_a_second": count / seconds, "resident_kib": memory}


def judge(session: Session, fresh: Session, unseen: Sequence[int], stride: int) -> dict[str, Any]:
    """Perplexity of a text behind the rolled cache, and behind fresh windows of the same tokens."""
    rolled, anew = [], []
    for index, (token, following) in enumerate(pairwise(unseen)):
        session.try_make_room(ROLLING)
        logits = session.decode(token)
        if index % stride == 0:
            rolled.append(_log_probability(logits, following))
            fresh.clear()
            anew.append(_log_probability(fresh.prefill(session.tokens()), following))
    return {
        "judged": len(rolled),
        "perplexity_rolled": float(np.exp(-np.mean(rolled))),
        "perplexity_fresh": float(np.exp(-np.mean(anew))),
        "ratio": float(np.exp(np.mean(anew) - np.mean(rolled))),
    }


def _endless(session: Session, tokens: list[int], count: int) -> Iterator[int]:
    """Sampled tokens; ends of answers too are gone on from."""
    sampler = Sampler(SamplingOptions(temperature=0.8, seed=1))
    logits = session.prefill(tokens)
    for _ in range(count):
        assert np.isfinite(logits).all(), "logits are not finite"
        choice = sampler.choose(logits, tokens)
        tokens.append(choice.token)
        yield choice.token
        assert session.try_make_room(ROLLING)
        logits = session.decode(choice.token)


def _log_probability(logits: NDArray[np.float32], token: int) -> float:
    shifted = logits.astype(np.float64) - logits.max()
    return float(shifted[token] - np.log(np.exp(shifted).sum()))


def _resident_kib() -> int:
    return resident_bytes() // 1024


if __name__ == "__main__":
    main()
