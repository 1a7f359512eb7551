"""What drafts gain a single client of a server: the same requests without and with them, in turns.

    python -m tools.bench.served_drafts [MODEL] [--mode int4] [--threads 2] [--rounds 3]

The tasks of `tools.bench.speculation`, through the engine's own service, without HTTP. Serving
begins anew for each turn, with an empty cache. Answers that differ end the run. The time is that
of the tokens behind the first one; a task's gain is the median of its pairs.
"""

from __future__ import annotations

import argparse
import os
import statistics

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import (
    ChatMessage,
    EngineOptions,
    LoadModel,
    ModelLoaded,
    ServingChanged,
    Speculate,
    StartServing,
)
from llm_lite.core.serving.service import Service
from tools.bench.serving import Timed, until
from tools.bench.speculation import CONTEXT, GREEDY, Prompt, tasks

PAIR: tuple[Speculate, Speculate] = ("off", "auto")


def main() -> None:
    arguments = _arguments()
    before = os.getloadavg()[0]
    engine = Engine(None)
    try:
        options = EngineOptions(
            arguments.backend,
            mode=arguments.mode,
            threads=arguments.threads,
            context=CONTEXT,
            speculate="off",  # of the chat, which nobody uses here
        )
        loaded = engine.submit(LoadModel(arguments.model, options)).result()
        assert isinstance(loaded, ModelLoaded), loaded
        for name, prompts in tasks().items():
            _measure(engine, name, prompts, arguments.rounds)
    finally:
        engine.close(30)
    print(f"load of the machine before: {before:.1f} on {os.cpu_count()} cores")


def _measure(engine: Engine, name: str, prompts: tuple[Prompt, ...], rounds: int) -> None:
    gains, rates = [], []
    for number in range(rounds + 1):
        turns = PAIR if number % 2 else PAIR[::-1]
        found = {speculate: _answers(engine, speculate, prompts) for speculate in turns}
        for plain, drafted in zip(found["off"], found["auto"], strict=True):
            if plain.tokens != drafted.tokens:
                raise SystemExit(f"{name}: answers differ")
            if number:  # the first turn warms up
                gains.append(plain.seconds / drafted.seconds)
                rates.append((len(drafted.tokens) - 1) / drafted.seconds)
    print(
        f"{name:24} {statistics.median(gains):.2f}x ({min(gains):.2f} to {max(gains):.2f}), "
        f"{statistics.median(rates):.0f} tok/s",
        flush=True,
    )


def _answers(engine: Engine, speculate: Speculate, prompts: tuple[Prompt, ...]) -> list[Timed]:
    engine.submit(StartServing(parallel=1, speculate=speculate))
    is_on = False
    while not is_on:  # what was on ends first
        changed = until(engine, (ServingChanged,))
        assert isinstance(changed, ServingChanged) and not changed.problem, changed
        is_on = changed.is_on
    service = engine.service()
    assert service is not None
    return [_answered(service, prompt) for prompt in prompts]


def _answered(service: Service, prompt: Prompt) -> Timed:
    messages = [ChatMessage("user", prompt.question)]
    if prompt.begin:
        messages.append(ChatMessage("assistant", prompt.begin))
    return Timed(
        service,
        GREEDY.max_new_tokens,
        messages=tuple(messages),
        continue_last=bool(prompt.begin),
    ).wait()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
