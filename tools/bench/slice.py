"""What drafts by a slice cost on Gemma 3n E4B in int4, with random weights of the real shapes.

    python -m tools.bench.slice [--large FOLDER] [--threads 2] [--clock wall|cpu] [--repeat 9]
        [--depth 64] [--answer 128] [--json tools/bench/results/slice.json]

T(n), a pass of the whole model over n tokens, in turns with steps of two slices of its weights:
E2B, and one that only narrows feed-forwards. Random weights accept nothing: what counts is which
share of drafted tokens would have to be right (`core.metrics.pass_costs.break_even`), and what two
answers lose, whose drafts are all wrong, until the policy has learned that. Memory is that of
processes of their own, without and with drafts, after a prompt and some drafts. GB are 10^9 bytes.
`--clock cpu` counts the time that the process computed, with one thread: what a machine that others
use can still tell.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.speculation.slice_source import SLICE, SliceDraftSource
from llm_lite.core.generation.speculation.speculation import Speculation
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.loading import backends, loader
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions, SamplingOptions, Speculate
from llm_lite.core.metrics.bench import Spread
from llm_lite.core.metrics.pass_costs import break_even
from llm_lite.core.models.model import Slice
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.processor import default_threads
from llm_lite.core.records import asdict, replace
from tools.bench.compare import machine
from tools.bench.gemma3n import memory
from tools.bench.speculation import CLOCKS
from tools.bench.start import large_model

SIZES = (1, 2, 3, 4, 8)  # tokens of a pass
SLICES = {"E2B": None, "feed-forwards only": Slice((), 8192)}  # None: the model's own
CONTEXT = 1024
HELD_TOKENS = 512  # of the prompt whose memory is told


def main() -> None:
    arguments = _arguments()
    model = large_model(arguments.large)
    if arguments.hold:
        print(json.dumps(_hold(model, arguments)))
        return
    arguments.threads = 1 if arguments.clock == "cpu" else arguments.threads
    about = machine(arguments.threads) | {"clock": arguments.clock}
    with _running(model, "slice", arguments.threads) as runner:
        clock = CLOCKS[arguments.clock]
        report = _measured(runner, arguments.repeat, arguments.depth, clock)
        report["answers"] = [_answered(runner, arguments.answer) for _ in range(2)]
    held = {kind: _held(arguments, kind) for kind in ("lookup", "slice")}
    report["memory"] = held | {
        "file_gb": runner.model_file.size / 1e9,
        "added_share": (held["slice"]["private_gb"] - held["lookup"]["private_gb"])
        / held["lookup"]["resident_gb"],
    }
    report = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": about,
        "model": "gemma-3n-e4b in int4, random",
        "depth": arguments.depth,
        "repeat": arguments.repeat,
        **report,
    }
    _say(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


@contextmanager
def _running(model: Path, speculate: Speculate, threads: int) -> Iterator[Runner]:
    options = EngineOptions(backend="cpu", context=CONTEXT, threads=threads, speculate=speculate)
    file = loader.open_model(str(model), lambda *_: None, print, check_weights=False)
    try:
        runner = loader.start(file, options, None, lambda *_: None)
        try:
            yield runner
        finally:
            runner.close()
    finally:
        file.close()


def _measured(
    runner: Runner, repeat: int, depth: int, clock: Callable[[], float]
) -> dict[str, object]:
    """Milliseconds of passes and of drafted tokens, in turns, after one turn that warms up."""
    sessions = {name: _session(runner, cut) for name, cut in SLICES.items()}
    text = np.random.default_rng(3).integers(300, 200_000, depth + max(SIZES)).tolist()
    for session in (runner.session, *sessions.values()):
        session.prefill(text[:depth])
    passes: dict[int, list[float]] = {n: [] for n in SIZES}
    drafts: dict[str, list[float]] = {name: [] for name in sessions}
    for turn in range(repeat + 1):
        for n in SIZES:
            began = clock()
            runner.session.decode(text[depth], draft=text[depth + 1 : depth + n])
            passes[n] += [1e3 * (clock() - began)] if turn else []
            runner.session.forget_after(depth)
        for name, session in sessions.items():
            began = clock()
            session.draft_by_slice(text[depth], 2)
            drafts[name] += [500 * (clock() - began)] if turn else []
    whole = runner.executor.program.plans[0]
    single = Spread.of(passes[1]).median
    report: dict[str, object] = {
        "pass_ms": {str(n): asdict(Spread.of(ms)) for n, ms in passes.items()},
        "ratio": {str(n): Spread.of(ms).median / single for n, ms in passes.items()},
    }
    report["slices"] = {
        name: {
            "token_ms": asdict(Spread.of(ms)),
            "share": Spread.of(ms).median / single,
            "read_share": _read(sessions[name], depth) / token_read_bytes(whole, depth),
            "break_even": _break_evens(passes, Spread.of(ms).median),
        }
        for name, ms in drafts.items()
    }
    for session in sessions.values():
        if session is not runner.session:
            session.executor.close()
    return report


def _answered(runner: Runner, tokens: int) -> dict[str, float]:
    """A greedy answer with drafts by the slice alone; what they lost, by the policy's own count,
    whose clock is the wall's."""
    session = runner.session
    if session.speculation is None or session.speculation.sources[0].name != SLICE:
        session.speculation = Speculation((SliceDraftSource(session),))
    greedy = SamplingOptions(temperature=0.0, max_new_tokens=tokens)
    session.clear()
    counts, began = AnswerDrafts(speculation=session.speculation), time.perf_counter()
    for _ in generate_items(session, range(300, 316), greedy, frozenset(), drafts=counts):
        pass
    seconds = time.perf_counter() - began
    return {
        "tokens": tokens,
        "passes": counts.passes,
        "drafted": counts.drafted,
        "accepted": counts.accepted,
        "seconds": seconds,
        "lost_share": -counts.saved_seconds / seconds,
    }


def _session(runner: Runner, cut: Slice | None) -> Session:
    """Return a session that runs this slice, over the same mapped weights."""
    if cut is None:
        return runner.session
    program = runner.model.build(replace(runner.build, draft_slice=cut))
    threads = runner.executor_info.threads
    executor = backends.make_executor(
        runner.choice, program, runner.weights, threads, lambda _: None
    )
    return Session(executor, runner.weights)


def _read(session: Session, depth: int) -> int:
    plans = session.executor.program.plans
    return token_read_bytes(next(plan for plan in plans if plan.sliced), depth)


def _break_evens(passes: dict[int, list[float]], drafted: float) -> dict[str, float]:
    """By the number of drafted tokens: a pass over these and one more, and drafting each, against
    passes over one token (Leviathan et al. 2023, theorem 3.8, with costs as measured)."""
    single = Spread.of(passes[1]).median
    return {
        str(n - 1): break_even(n - 1, (Spread.of(ms).median + (n - 1) * drafted) / single)
        for n, ms in passes.items()
        if n > 1
    }


def _held(arguments: argparse.Namespace, kind: str) -> dict[str, float]:
    own = [sys.executable, "-m", "tools.bench.slice", "--hold", kind]
    own += ["--large", str(arguments.large), "--threads", str(arguments.threads)]
    ran = subprocess.run(own, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _hold(model: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """In a process of its own: what is held after a prompt, an answer and its drafts."""
    text = np.random.default_rng(3).integers(300, 200_000, HELD_TOKENS).tolist()
    with _running(model, arguments.hold, arguments.threads) as runner:
        runner.session.prefill(text)
        for token in text[:4]:
            runner.session.draft_by_slice(token, 2)
            runner.session.decode(token, draft=text[4:6])
        return memory()


def _say(report: dict[str, object]) -> None:
    print(json.dumps(report, indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", type=Path, default=Path("build/large"), metavar="FOLDER")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--depth", type=int, default=64, help="tokens of context")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--answer", type=int, default=128, help="tokens")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--hold", choices=("lookup", "slice"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
