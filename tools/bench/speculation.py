"""What drafts gain: the same answers without and with them, in turns in one process.

    python -m tools.bench.speculation [MODEL] [--mode int4] [--threads 2] [--rounds 5]
        [--speculate auto|lookup|MODEL] [--task TASK] [--clock wall|cpu] [--peer FOLDER]
        [--json FILE]

Four tasks with texts of this repository: repeat a text, edit code, answer from a document, and free
chat, where nothing repeats. Greedy answers; a pair that differs ends the run. The time is that of
the tokens behind the first one. A task's gain is the median of all its pairs, beside the least and
the most. `--clock cpu` counts the time that the process computed, with one thread: what a machine
that others use can still tell. `--peer` asks llama-server too, round by round, with the same
tokens and its own drafts (FOLDER is that of `python -m tools.bench.peers --server`): by looking up
or, where MODEL drafts, by the same model in Q4_0. `--task` runs one of the four. A true pair of
models out of one file is `--mode fp32 --speculate smollm2-135m-instruct`: its drafts come from the
same weights in int4.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_lite.cli.engine_words import speculation
from llm_lite.core.generation.answer import Answer
from llm_lite.core.generation.prompt import begun_with, encode
from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.generation.speculation import speculation as speculation_module
from llm_lite.core.generation.speculation.speculation import Speculation, speculation_of
from llm_lite.core.loading import loader
from llm_lite.core.loading.draft_models import source_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    ChatMessage,
    EngineOptions,
    Event,
    Generate,
    GenerationFinished,
    GenerationStats,
    SamplingOptions,
    TokenDecoded,
)
from llm_lite.core.processor import processor_name
from llm_lite.core.records import asdict
from tests.paths import ROOT
from tools.bench import llama_cpp_drafts, peers

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
CONTEXT = 4096
# Of the peer's file, beside our mode
PEER_TYPES = {"int4": "Q4_0", "int8": "Q8_0", "fp16": "F16", "fp32": "F32"}
GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=160)


@dataclass(frozen=True, slots=True)
class Prompt:
    question: str
    begin: str = ""  # of the answer, so that a small model does as it is told


@dataclass(frozen=True, slots=True)
class Timed:
    tokens: tuple[int, ...]
    seconds: float  # behind the first token
    stats: GenerationStats


def lines(path: str, first: int, last: int) -> str:
    """Return lines of a file of the repository; the first line is 1."""
    return "\n".join((ROOT / path).read_text("utf-8").splitlines()[first - 1 : last])


def tasks() -> dict[str, tuple[Prompt, ...]]:
    return {
        "repeat a text": tuple(
            Prompt(f"Repeat this text word for word:\n\n{text}", " ".join(text.split()[:6]))
            for text in (
                lines("docs/speculation.md", 1, 20),
                lines("docs/server.md", 1, 20),
                lines("docs/sampling.md", 1, 20),
            )
        ),
        "edit code": tuple(
            Prompt(
                f"Rename `{old}` to `{new}` in this code and change nothing else:\n\n"
                f"```python\n{lines(path, first, last)}\n```",
                "```python\n",
            )
            for path, first, last, old, new in (
                ("core/generation/speculation/lookahead.py", 14, 37, "gains", "scales"),
                ("core/generation/speculation/draft.py", 10, 35, "tokens", "guesses"),
                ("core/metrics/pass_costs.py", 45, 62, "ratio", "factor"),
            )
        ),
        "answer from a document": tuple(
            Prompt(f"{lines(path, first, last)}\n\n{question} Quote the text.")
            for path, first, last, question in (
                ("docs/speculation.md", 1, 30, "Why do answers stay the same?"),
                ("docs/server.md", 1, 30, "How is the server started?"),
                ("docs/sampling.md", 1, 30, "Which order do the filters have?"),
            )
        ),
        "free chat": (
            Prompt("Why is the sky blue?"),
            Prompt("Tell me a short story about a lighthouse."),
            Prompt("What should I look at when I buy a used bicycle?"),
        ),
    }


def main() -> None:
    arguments = _arguments()
    if arguments.clock == "cpu":
        weigh_processor_time()
    options = EngineOptions(
        backend=arguments.backend,
        mode=arguments.mode,
        threads=1 if arguments.clock == "cpu" else arguments.threads,
        context=CONTEXT,
        speculate="lookup",  # so that there are plans for drafts
        draft_model=speculation(arguments.speculate)[1],
    )
    file = loader.open_model(arguments.model, lambda *_: None, print)
    runner = loader.start(file, options, None, lambda *_: None)
    before = os.getloadavg()[0]
    try:
        with _peer(arguments) as addresses:
            rows = [
                _measured(runner, name, prompts, arguments, addresses)
                for name, prompts in tasks().items()
                if arguments.task in ("", name)
            ]
    finally:
        runner.close()
        file.close()
    report = {
        "model": runner.model_info.name,
        "processor": processor_name(),
        "threads": runner.executor_info.threads,
        "clock": arguments.clock,
        "speculate": arguments.speculate,
        "load_before": before,
        "tasks": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print(f"load of the machine before: {before:.1f} on {os.cpu_count()} cores")


def weigh_processor_time() -> None:
    """The policy's clock is the one of the report too."""
    time.perf_counter = time.process_time  # type: ignore[assignment]
    for module in (draft_model, speculation_module):
        module.perf_counter = time.process_time  # type: ignore[attr-defined]


def _drafting(runner: Runner, word: str) -> Speculation | None:
    """Return drafts as `--speculate` asks for, with nothing learned from tasks before."""
    found, draft = speculation_of(speculation(word)[0]), runner.draft
    if found is not None and draft is not None:
        found.sources = (*found.sources, source_of(draft.session, draft.file, runner.model_file))
    return found


def _peer(arguments: argparse.Namespace) -> AbstractContextManager[Mapping[str, str]]:
    if arguments.peer is None:
        return nullcontext({})
    files = {mode: arguments.peer / "models" / peers.FILES[t] for mode, t in PEER_TYPES.items()}
    draft = files["int4"] if speculation(arguments.speculate)[1] else None
    program = peers.server_of(arguments.peer)
    file = files[arguments.mode]
    return llama_cpp_drafts.servers(program, file, arguments.threads, CONTEXT, draft)


def _measured(
    runner: Runner,
    name: str,
    prompts: tuple[Prompt, ...],
    arguments: argparse.Namespace,
    addresses: Mapping[str, str],
) -> dict[str, Any]:
    clock, drafting = CLOCKS[arguments.clock], _drafting(runner, arguments.speculate)
    gains: list[float] = []
    speeds: list[float] = []
    drafted_speeds: list[float] = []
    stats: list[GenerationStats] = []
    peer: list[dict[str, llama_cpp_drafts.PeerAnswer]] = []  # by kind, of every pair
    for prompt in prompts:
        tokens = _tokens_of(runner, prompt) if addresses else []
        for plain, drafted in _pairs(runner, prompt, drafting, arguments.rounds, clock):
            if plain.tokens != drafted.tokens:
                raise SystemExit(f"{name}: answers differ")
            gains.append(plain.seconds / drafted.seconds)
            speeds.append((len(plain.tokens) - 1) / plain.seconds)
            drafted_speeds.append((len(plain.tokens) - 1) / drafted.seconds)
            stats.append(drafted.stats)
            new = GREEDY.max_new_tokens
            peer.append({k: llama_cpp_drafts.ask(a, tokens, new) for k, a in addresses.items()})
    drafts, accepted = sum(s.drafted for s in stats), sum(s.accepted for s in stats)
    passes = sum(s.passes for s in stats)
    row = {
        "task": name,
        "gain": statistics.median(gains),
        "least": min(gains),
        "most": max(gains),
        "plain_tok_s": statistics.median(speeds),
        "tok_s": statistics.median(drafted_speeds),
        "acceptance": accepted / drafts if drafts else 0.0,
        "tokens_a_pass": (passes + accepted) / passes,
        "drafted_by": _by_source(stats),
        "pass_ms": asdict(stats[-1])["pass_ms"],
        "peer": _peer_rows(peer) if addresses else {},
    }
    print(
        f"{name:24} {row['gain']:.2f}x ({row['least']:.2f} to {row['most']:.2f}), "
        f"{row['tok_s']:.0f} tok/s, {row['plain_tok_s']:.0f} without, "
        f"{100 * accepted / max(drafts, 1):.0f} % of {drafts} drafted tokens accepted, "
        f"{row['tokens_a_pass']:.2f} tokens a pass {row['drafted_by']}"
    )
    for kind, found in row["peer"].items():
        print(
            f"    llama.cpp {kind:12} {found['gain']:.2f}x ({found['least']:.2f} to "
            f"{found['most']:.2f}), {found['tok_s']:.0f} tok/s, "
            f"{100 * found['acceptance']:.0f} % accepted"
        )
    return row


def _by_source(stats: list[GenerationStats]) -> dict[str, int]:
    """Drafted tokens of all answers."""
    found: Counter[str] = Counter()
    for drafts in (drafts for one in stats for drafts in one.drafted_by):
        found[drafts.source] += drafts.drafted
    return dict(found)


def _peer_rows(
    rounds: list[dict[str, llama_cpp_drafts.PeerAnswer]],
) -> dict[str, dict[str, float]]:
    """Return rows for the peer's kinds of drafts: gains over none within a round."""
    rows = {}
    for kind in rounds[0]:
        gains = [one[kind].rate / one[llama_cpp_drafts.NONE].rate for one in rounds]
        drafted = sum(one[kind].drafted for one in rounds)
        rows[kind] = {
            "gain": statistics.median(gains),
            "least": min(gains),
            "most": max(gains),
            "tok_s": statistics.median(one[kind].rate for one in rounds),
            "acceptance": sum(one[kind].accepted for one in rounds) / max(drafted, 1),
        }
    return rows


def _tokens_of(runner: Runner, prompt: Prompt) -> list[int]:
    """What our own answer goes on with: the question in the template, the beginning."""
    file = runner.model_file
    encoded = encode(file, (ChatMessage("user", prompt.question),), False)
    if not prompt.begin:
        return list(encoded.ids)
    begin = ChatMessage("assistant", prompt.begin)
    return [*encoded.ids, *begun_with(file.tokenizer, begin, encoded)]


def _pairs(
    runner: Runner,
    prompt: Prompt,
    drafting: Speculation | None,
    rounds: int,
    clock: Callable[[], float],
) -> Iterator[tuple[Timed, Timed]]:
    """Run without drafts and with them, in turns; a first pair warms up."""
    for number in range(rounds + 1):
        found = {}
        for drafts in (False, True) if number % 2 else (True, False):
            runner.session.speculation = drafting if drafts else None
            found[drafts] = answered(runner, prompt, clock)
        if number:
            yield found[False], found[True]


def answered(runner: Runner, prompt: Prompt, clock: Callable[[], float]) -> Timed:
    runner.session.clear()
    events: list[Event] = []
    command = Generate(
        (ChatMessage("user", prompt.question),),
        GREEDY,
        begin=ChatMessage("assistant", prompt.begin) if prompt.begin else None,
    )
    answer = Answer(command, events.append, lambda: False)
    answer.begin(runner)
    while not any(isinstance(event, TokenDecoded) for event in events):
        answer.step()
    began = clock()
    while answer.step():
        pass
    seconds = clock() - began
    answer.finish()
    (finished,) = [event for event in events if isinstance(event, GenerationFinished)]
    tokens = tuple(event.token for event in events if isinstance(event, TokenDecoded))
    return Timed(tokens, seconds, finished.stats)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--speculate", default="auto", metavar="{auto,lookup,MODEL}")
    parser.add_argument("--task", choices=("", *tasks()), default="", metavar="TASK")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--peer", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
