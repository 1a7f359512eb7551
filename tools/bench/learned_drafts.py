"""What drafts gain that were learned from other conversations: free chat, asked a second time.

    python -m tools.bench.learned_drafts [MODEL] [--mode int4] [--threads 2] [--rounds 5]
        [--clock wall|cpu] [--json FILE]

Each question below is answered once and learned, greedily, in a conversation of its own. Then the
same is asked in other words, in turns: without drafts, with those that the text alone gives, and
with learned ones besides. So are questions about other topics, which nothing was learned of.
Answers that differ end the run. The time is that of the tokens behind the first one; gains are
medians of all pairs, beside the least and the most. `--clock cpu` is for
a machine that others use, as that of `tools.bench.speculation`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_lite.core.generation.speculation.ngram_learning import NgramSource
from llm_lite.core.generation.speculation.ngram_table import NgramTable
from llm_lite.core.generation.speculation.speculation import Speculation, speculation_of
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions
from llm_lite.core.processor import processor_name
from tools.bench.speculation import (
    CLOCKS,
    CONTEXT,
    Prompt,
    Timed,
    answered,
    weigh_processor_time,
)

ASKED = (  # in one conversation, and in another one
    ("Why do leaves fall in autumn?", "What makes trees lose their leaves in the autumn?"),
    ("How do I boil an egg?", "Tell me how to boil eggs."),
    ("What does a carpenter do?", "What is the work of a carpenter?"),
    ("How does a thermometer work?", "Explain how thermometers work."),
    ("Give me tips for learning to swim.", "I want to learn to swim. What should I know?"),
    ("What is a prime number?", "Can you explain prime numbers to me?"),
    ("Why do we dream?", "What is the reason that people dream?"),
    ("How is paper made?", "How do you make paper?"),
)
OTHER_TOPICS = (
    "Write a short letter to a neighbour who plays the trumpet.",
    "Which animals live in a desert?",
    "What should I pack for a week in the mountains?",
    "Tell me about the history of the bicycle.",
)
WAYS = ("off", "text", "learned")


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    questions: tuple[str, ...]


TASKS = (
    Task("asked again in other words", tuple(again for _, again in ASKED)),
    Task("other topics", OTHER_TOPICS),
)


def main() -> None:
    arguments = _arguments()
    if arguments.clock == "cpu":
        weigh_processor_time()
    options = EngineOptions(
        backend=arguments.backend,
        mode=arguments.mode,
        threads=1 if arguments.clock == "cpu" else arguments.threads,
        context=CONTEXT,
        speculate="auto",
    )
    file = loader.open_model(arguments.model, lambda *_: None, print)
    runner = loader.start(file, options, None, lambda *_: None)
    before = os.getloadavg()[0]
    try:
        table, seconds = _taught(runner)
        rows = [_measured(runner, task, table, arguments) for task in TASKS]
    finally:
        runner.close()
        file.close()
    report = {
        "model": runner.model_info.name,
        "processor": processor_name(),
        "threads": runner.executor_info.threads,
        "clock": arguments.clock,
        "load_before": before,
        "learning_us": 1e6 * seconds,
        "tasks": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print(f"a token is learned in {1e6 * seconds:.1f} µs")
    print(f"load of the machine before: {before:.1f} on {os.cpu_count()} cores")


def _taught(runner: Runner) -> tuple[NgramTable, float]:
    """The table after the first questions, and the seconds that a token took to learn."""
    table, tokens, seconds = NgramTable(), 0, 0.0
    for question, _ in ASKED:
        runner.session.speculation = None
        answer = answered(runner, Prompt(question), time.perf_counter).tokens
        began = time.perf_counter()
        table.learn(answer)
        seconds += time.perf_counter() - began
        tokens += len(answer)
    return table, seconds / tokens


def _ways(table: NgramTable) -> dict[str, Callable[[], Speculation | None]]:
    def learned() -> Speculation | None:
        found = speculation_of("auto")
        assert found is not None
        found.sources = (*found.sources, NgramSource(lambda: table))
        return found

    return {"off": lambda: None, "text": lambda: speculation_of("auto"), "learned": learned}


def _measured(
    runner: Runner, task: Task, table: NgramTable, arguments: argparse.Namespace
) -> dict[str, Any]:
    clock = CLOCKS[arguments.clock]
    drafting = {way: make() for way, make in _ways(table).items()}
    gains: dict[str, list[float]] = {"text": [], "learned": [], "learned / text": []}
    speeds: list[float] = []
    drafted = accepted = 0
    for question in task.questions:
        for number in range(arguments.rounds + 1):  # the first one warms up
            found: dict[str, Timed] = {}
            turn = number % len(WAYS)
            for way in (*WAYS[turn:], *WAYS[:turn]):
                runner.session.speculation = drafting[way]
                found[way] = answered(runner, Prompt(question), clock)
            if len({one.tokens for one in found.values()}) > 1:
                raise SystemExit(f"{question}: answers differ")
            if not number:
                continue
            plain, text, learned = (found[way].seconds for way in WAYS)
            gains["text"].append(plain / text)
            gains["learned"].append(plain / learned)
            gains["learned / text"].append(text / learned)
            speeds.append((len(found["learned"].tokens) - 1) / learned)
            for one in found["learned"].stats.drafted_by:
                if one.source == "ngrams":
                    drafted, accepted = drafted + one.drafted, accepted + one.accepted
    row = {
        "task": task.name,
        "gains": {
            name: {"median": statistics.median(all_), "least": min(all_), "most": max(all_)}
            for name, all_ in gains.items()
        },
        "tok_s": statistics.median(speeds),
        "drafted": drafted,
        "accepted": accepted,
    }
    _print(row)
    return row


def _print(row: dict[str, Any]) -> None:
    shown = ", ".join(
        f"{name} {gain['median']:.2f}x ({gain['least']:.2f} to {gain['most']:.2f})"
        for name, gain in row["gains"].items()
    )
    print(
        f"{row['task']}: {shown}; {row['tok_s']:.0f} tok/s, {row['accepted']} of "
        f"{row['drafted']} learned drafts accepted"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
