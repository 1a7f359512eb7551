"""Whether drafts change anything: many greedy answers on every executor, many sampled ones.

    python -m tools.cross.speculation [--prompts 500] [--draws 50000] [--backends cpu,vulkan,numpy]

Greedy: prompts are lines of this repository's documents. On the processor the bundled model
answers them in int4, elsewhere a tiny random one; without drafts, with those that pay, with all
that can be verified, and with those of each source alone: a draft model, learned drafts, and the
slice of a tiny Gemma 3n with all layers of E4B. Tokens and their probabilities must be the same.
Sampled: answers of three tokens at several temperatures, by Pearson's chi-squared against the
probability of every answer. Ends with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.speculation.ngram_learning import NgramSource
from llm_lite.core.generation.speculation.ngram_table import NgramTable
from llm_lite.core.generation.speculation.speculation import (
    LongestDrafts,
    Speculation,
    speculation_of,
)
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.gpu.device import Device
from llm_lite.core.hub import catalog
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import NO_END
from tests.core.generation.speculation.test_distribution import (
    KEPT,
    LENGTH,
    Guesses,
    drawn,
    expected,
)
from tests.make_gguf import write_tiny_llama
from tests.make_huggingface import write_tall_gemma3n
from tests.paths import ROOT
from tests.runners import exact, running

GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0)
MOST, SLICED = 40, 6  # tokens of an answer
Said = list[tuple[int, float]]  # tokens and their probabilities
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
        sizes = {"hidden_size": 64, "intermediate_size": 512, "hidden_size_per_layer_input": 32}
        tall = write_tall_gemma3n(Path(folder) / "tall", **sizes)
        for backend in arguments.backends.split(","):
            wrong += _greedy_on(backend, tiny, smaller, arguments.prompts)
            wrong += _sliced_on(backend, tall, arguments.prompts)
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
    options = replace(options, speculate="lookup", draft_model=str(smaller))
    compared = Compared(f"{backend}: {count} greedy answers, drafted in four ways")
    with _opened(backend) as device, running(path, options, device=device) as runner:
        model, table = runner.session.speculation.sources[-1:], NgramTable()
        learned = NgramSource(lambda: table)
        for prompt in _prompts(runner, count):
            plain, _ = _answered(runner, prompt, None)
            table.learn([token if n % 7 else 1 for n, (token, _) in enumerate(plain, 1)])
            ways = speculation_of("auto"), speculation_of("lookup")
            for sources in (model, (learned,)):
                ways = *ways, Speculation(sources, LongestDrafts())
            for way in ways:
                compared.add(plain, *_answered(runner, prompt, way))
    return compared.told()


def _sliced_on(backend: str, tall: Path, count: int) -> int:
    """How many answers differ, of at most SLICED tokens each: its steps have 35 layers."""
    compared = Compared(f"{backend}: {count} greedy answers, drafted by a slice")
    options = exact(backend, context=512, speculate="slice")
    with _opened(backend) as device, running(tall, options, device=device) as runner:
        source = runner.session.speculation.sources[-1:]
        for prompt in _prompts(runner, count, longest=40):
            plain, _ = _answered(runner, prompt, None, SLICED)
            way = Speculation(source, LongestDrafts())
            compared.add(plain, *_answered(runner, prompt, way, SLICED))
    return compared.told()


@contextlib.contextmanager
def _opened(backend: str) -> Iterator[Device | None]:
    device = Device.open() if backend == "vulkan" else None
    yield device
    if device is not None:
        device.close()


class Compared:
    """Answers with drafts and without."""

    def __init__(self, what: str) -> None:
        self._what, self._began = what, time.monotonic()
        self._wrong = self._drafted = self._accepted = 0

    def add(self, plain: Said, found: Said, drafts: AnswerDrafts) -> None:
        self._wrong += found != plain
        self._drafted += drafts.drafted
        self._accepted += drafts.accepted

    def told(self) -> int:
        """How many differed; without accepted drafts nothing was tried, which counts as one."""
        say(
            f"{self._what}: {self._wrong} differ; {self._accepted} of {self._drafted} drafted "
            f"tokens accepted, {time.monotonic() - self._began:.0f} s"
        )
        return self._wrong if self._accepted else self._wrong + 1


def _prompts(runner: Runner, count: int, longest: int = 400) -> Iterator[list[int]]:
    lines = [
        line
        for path in sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
        for line in path.read_text("utf-8").splitlines()
        if len(line) > 40
    ]
    step = max(1, len(lines) // count)
    for line in lines[: step * count : step]:
        yield runner.model_file.tokenizer.encode(f"{line}\n{line[:30]}")[-longest:]


def _answered(
    runner: Runner, prompt: list[int], speculation: Speculation | None, most: int = MOST
) -> tuple[Said, AnswerDrafts]:
    session = runner.session
    session.speculation = speculation
    session.clear()
    drafts = AnswerDrafts(NO_END, session.speculation)
    sampling = replace(GREEDY, max_new_tokens=most)
    items = generate_items(session, prompt, sampling, NO_END, drafts=drafts)
    chosen = [(i.token, i.probability) for i in items if hasattr(i, "token")]
    return chosen, drafts


def _sampled(tiny: Path, draws: int) -> int:
    """How many temperatures miss the distribution."""
    wrong = 0
    with running(tiny, exact("cpu", speculate="lookup", context=64)) as runner:
        session = runner.session
        for temperature in TEMPERATURES:
            session.speculation = None
            chances = expected(session, temperature)
            session.speculation = Speculation((Guesses(chances),), LongestDrafts())
            counts = AnswerDrafts(NO_END, session.speculation)
            plain = SamplingOptions(
                temperature=temperature, top_k=KEPT, top_p=1.0, min_p=0.0, max_new_tokens=LENGTH
            )
            seen = dict.fromkeys(chances, 0)
            for seed in range(draws):
                seen[drawn(session, replace(plain, seed=seed), counts)] += 1
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
