"""Where a step's time goes on the C++ executor, by kind of op.

python -m tools.bench.profile_step --mode int4 --tokens 1 --depth 0 [--verify]

`--verify`: tokens as drafts are verified, each with its logits and the bits of a step of its own.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.loading.loader import open_model, start
from llm_lite.core.messages import EngineOptions
from llm_lite.core.plan.plan import Plan


def main() -> None:
    arguments = _arguments()
    model = open_model(arguments.model, lambda *_: None, print)
    options = EngineOptions(
        backend="cpu",
        mode=arguments.mode,
        activations=arguments.activations,
        threads=arguments.threads,
    )
    runner = start(model, options, None, lambda *_: None)
    executor = runner.executor
    assert isinstance(executor, CpuExecutor)
    random = np.random.default_rng(0)
    tokens = random.integers(0, executor.program.vocabulary, arguments.tokens).tolist()
    if arguments.tokens > executor.program.max_tokens:
        raise SystemExit(f"--tokens: expected at most {executor.program.max_tokens}, a step's most")
    steps = runner.session.step_by_step if arguments.verify else runner.session.step
    step = steps(tokens, arguments.depth)
    plan = executor.program.plan_of(step)
    executor.run(step)
    print_profile(plan, *executor.measure(plan, step, arguments.repeat))
    runner.close()
    model.close()


def print_profile(plan: Plan, whole: float, busy: list[float]) -> None:
    seconds: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for op, taken in zip(plan.ops, busy, strict=True):
        kind = f"{op.name} {op.label.rpartition('.')[2]}" if op.name == "matmul" else op.name
        seconds[kind] += taken
        count[kind] += 1
    seconds["waiting"] = whole - sum(busy)
    for kind, taken in seconds.most_common():
        each = taken / (count[kind] or 1) * 1e6
        share = 100 * taken / whole
        print(f"{kind:24} {count[kind]:4} x {each:9.1f} us = {taken * 1e3:8.3f} ms {share:5.1f} %")
    print(f"{'the step':24} {whole * 1e3:29.3f} ms")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--mode", default="as-stored")
    parser.add_argument("--activations", default="auto")
    parser.add_argument("--tokens", type=int, default=1)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
