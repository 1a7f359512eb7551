"""Tokens without end in a rolling window: memory, finiteness, and what it costs in perplexity.

    python -m tests.bench.rolling_window [--tokens 20000] [--context 1024] [--kv fp16]

Generates, then reads a text that it has not seen, token by token at the end of the rolled cache,
and for comparison in a fresh window of as many tokens that begins with the same last tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core import loading
from core.messages import EngineOptions, KvType, SamplingOptions
from core.sampling import Sampler
from core.session import Reading, Session

ROLLING = Reading("rolling")
TEXT = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--tail", type=int, default=512)
    parser.add_argument("--kv", default="fp16")
    arguments = parser.parse_args()
    kind: KvType = arguments.kv
    options = EngineOptions(backend="cpu", context=arguments.context, keys=kind, values=kind)
    file = loading.open_model(None, lambda *_: None, print)
    runner = loading.start(file, options, None, lambda *_: None)
    text = file.tokenizer.encode(TEXT.read_text())
    report = measure(runner.session, text, arguments.tokens, arguments.tail)
    print(json.dumps(report, indent=1))
    runner.close()
    file.close()


def measure(
    session: Session, text: Sequence[int], count: int, tail: int
) -> dict[str, float | int | list[int]]:
    """`text` begins the conversation and, its last `tail` tokens, ends it."""
    begin, unseen = list(text[: session.context // 2]), list(text[-tail:])
    memory, started = [], time.perf_counter()
    for index, _ in enumerate(_endless(session, begin, count)):
        if index % max(1, count // 10) == 0:
            memory.append(_resident_kib())
    seconds = time.perf_counter() - started
    last = session.tokens()[tail - session.context :]  # what fits a window beside the tail
    rolled = _judge(session, unseen)
    session.clear()
    session.prefill(last)
    fresh = _judge(session, unseen)
    return {
        "tokens": count,
        "context": session.context,
        "tokens_a_second": count / seconds,
        "resident_kib": memory,
        "perplexity_rolled": float(np.exp(-rolled.mean())),
        "perplexity_fresh": float(np.exp(-fresh.mean())),
        "ratio": float(np.exp(fresh.mean() - rolled.mean())),
    }


def _endless(session: Session, tokens: list[int], count: int):
    """Sampled tokens; ends of answers too are gone on from."""
    sampler = Sampler(SamplingOptions(temperature=0.8, seed=1))
    logits = session.prefill(tokens)
    for _ in range(count):
        assert np.isfinite(logits).all(), "logits are not finite"
        choice = sampler.choose(logits, tokens)
        tokens.append(choice.token)
        yield choice.token
        assert session.make_room(ROLLING)
        logits = session.decode(choice.token)


def _judge(session: Session, tokens: Sequence[int]) -> np.ndarray:
    """Log-probabilities of all but the first of the tokens, after what the cache holds."""
    found = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        session.make_room(ROLLING)
        logits = session.decode(token).astype(np.float64)
        if following is not None:
            shifted = logits - logits.max()
            found.append(shifted[following] - np.log(np.exp(shifted).sum()))
    return np.array(found)


def _resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


if __name__ == "__main__":
    main()
