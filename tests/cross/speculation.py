"""Whether drafts change anything: many greedy answers on every executor, many sampled ones.

    python -m tests.cross.speculation [--prompts 500] [--draws 50000] [--backends cpu,vulkan,numpy]

Greedy: prompts are lines of this repository's documents. On the processor the bundled model
answers them in int4, elsewhere a tiny random one; without drafts, with those that pay, and with all
that can be verified. Tokens and their probabilities must be the same. Sampled: answers of three
tokens at several temperatures, by Pearson's chi-squared against the probability of every answer.
Ends with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.generation.speculation.decoder import AnswerDecoder
from llm_lite.core.generation.speculation.ngrams.source import NgramSource
from llm_lite.core.generation.speculation.ngrams.table import NgramTable
from llm_lite.core.generation.speculation.speculation import (
    LongestDrafts,
    Speculation,
    speculation_of,
)
from llm_lite.core.generation.steps import answer_steps
from llm_lite.core.gpu.device import Device
from llm_lite.core.hub import catalog
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions, SamplingOptions
from tests.core.generation.speculation.test_answers import NO_END
from tests.core.generation.speculation.test_distribution import (
    KEPT,
    LENGTH,
    Guesses,
    drawn,
    expected,
)
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tests.runners import exact, running

GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=40)
say = partial(print, flush=True)  # it takes minutes
TEMPERATURES = (0.5, 1.0, 2.5)
MOST_Z = 3.5  # of a normal variable: exceeded once in 4,000


def main() -> int:
    arguments = _arguments()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        tiny = write_tiny_llama(Path(folder) / "tiny.gguf", seed=2, context=512)
        smaller = write_tiny_llama(Path(folder) / "smaller.gguf", seed=3, context=512)
        draft_model.LEAST_CHANCE = 0.0  # a tiny random model is never sure
        for backend in arguments.backends.split(","):
            wrong += _greedy_on(backend, tiny, smaller, arguments.prompts)
        if arguments.draws:
            wrong += _sampled(tiny, arguments.draws)
    say("the same throughout" if not wrong else f"{wrong} differ")
    return int(wrong > 0)


def _greedy_on(backend: str, tiny: Path, smaller: Path, count: int) -> int:
    """How many answers differ. A draft model is tried alone too: the tiny one's is nearly always
    wrong, that of SmolLM2 is SmolLM2 in int4. So are drafts learned from the answers so far, of
    which every seventh token was another."""
    path, options = tiny, exact(backend, context=512)
    if backend == "cpu":
        path = smaller = catalog.resolve(None)
        options = EngineOptions(backend="cpu", mode="int4", context=512)
    options = dataclasses.replace(options, speculate="lookup", draft_model=str(smaller))
    device = Device.open() if backend == "vulkan" else None
    began, wrong, drafted, accepted = time.monotonic(), 0, 0, 0
    with running(path, options, device=device) as runner:
        model, table = runner.session.speculation.sources[-1:], NgramTable()
        learned = NgramSource(lambda: table)
        for prompt in _prompts(runner, count):
            plain, _ = _answered(runner, prompt, None)
            table.learn([token if n % 7 else 1 for n, (token, _) in enumerate(plain, 1)])
            ways = speculation_of("auto"), speculation_of("lookup")
            alone = (Speculation(one, LongestDrafts()) for one in (model, (learned,)))
            for way in (*ways, *alone):
                found, decoder = _answered(runner, prompt, way)
                wrong += found != plain
                drafted += decoder.counts.drafted
                accepted += decoder.counts.accepted
    if device is not None:
        device.close()
    say(
        f"{backend}: {count} greedy answers of up to {GREEDY.max_new_tokens} tokens, drafted in "
        f"four ways: {wrong} differ; {accepted} of {drafted} drafted tokens accepted, "
        f"{time.monotonic() - began:.0f} s"
    )
    return wrong if accepted else wrong + 1  # without drafts nothing was tried


def _prompts(runner: Runner, count: int) -> Iterator[list[int]]:
    lines = [
        line
        for path in sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
        for line in path.read_text("utf-8").splitlines()
        if len(line) > 40
    ]
    step = max(1, len(lines) // count)
    for line in lines[: step * count : step]:
        yield runner.model_file.tokenizer.encode(f"{line}\n{line[:30]}")[-400:]


def _answered(
    runner: Runner, prompt: list[int], speculation: Speculation | None
) -> tuple[list[tuple[int, float]], AnswerDecoder]:
    session = runner.session
    session.speculation = speculation
    session.clear()
    decoder = AnswerDecoder(session, NO_END)
    items = answer_steps(session, session.prepare(prompt), GREEDY, NO_END, decoder=decoder)
    chosen = [(i.token, i.probability) for i in items if hasattr(i, "token")]
    return chosen, decoder


def _sampled(tiny: Path, draws: int) -> int:
    """How many temperatures miss the distribution."""
    wrong = 0
    with running(tiny, exact("cpu", speculate="lookup", context=64)) as runner:
        session = runner.session
        for temperature in TEMPERATURES:
            session.speculation = None
            chances = expected(session, temperature)
            session.speculation = Speculation((Guesses(chances),), LongestDrafts())
            counts = AnswerDecoder(session).counts
            plain = SamplingOptions(
                temperature=temperature, top_k=KEPT, top_p=1.0, min_p=0.0, max_new_tokens=LENGTH
            )
            seen = dict.fromkeys(chances, 0)
            for seed in range(draws):
                seen[drawn(session, dataclasses.replace(plain, seed=seed), counts)] += 1
            found, freedom = _chi_squared(seen, chances, draws)
            z = ((found / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / (
                2 / (9 * freedom)
            ) ** 0.5
            wrong += z > MOST_Z
            say(
                f"temperature {temperature}: chi-squared {found:.1f} of {freedom} degrees of "
                f"freedom (z {z:.2f}) over {draws} answers; {counts.accepted} of "
                f"{counts.drafted} drafted tokens accepted"
            )
    return wrong


def _chi_squared(
    seen: dict[tuple[int, ...], int], chances: dict[tuple[int, ...], float], draws: int
) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; answers expected less than five times count
    together. Wilson and Hilferty 1931 make a normal variable of it."""
    usual = [key for key, chance in chances.items() if chance * draws >= 5]
    found = sum((seen[k] - chances[k] * draws) ** 2 / (chances[k] * draws) for k in usual)
    rare = draws - sum(chances[k] * draws for k in usual)
    if rare < 1:
        return found, len(usual) - 1
    left = draws - sum(seen[k] for k in usual)
    return found + (left - rare) ** 2 / rare, len(usual)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--draws", type=int, default=50_000)
    parser.add_argument("--backends", default="cpu,vulkan,numpy")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
