"""How many tokens a second clients get alone and together, and how soon the first one comes.

python -m tools.bench.serving --mode int4 --threads 2 --clients 8

Through the engine's own service, without HTTP: prompts of 64 tokens that share nothing, answers of
128. Then a request comes while all others are being answered, again and again.
"""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import numpy as np

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import (
    AnswerRequest,
    Ended,
    EngineOptions,
    Event,
    LoadModel,
    ModelLoaded,
    SamplingOptions,
    ServingChanged,
    StartServing,
    TokenDecoded,
)
from llm_lite.core.serving.service import Service

_PATIENCE = 600.0


class Timed:
    """One request, and when its tokens came."""

    def __init__(self, service: Service, new: int, **prompt: Any) -> None:
        """`prompt`: of the AnswerRequest."""
        self.asked = time.perf_counter()
        self.came: list[float] = []
        self.tokens: list[int] = []
        self.done = threading.Event()
        sampling = SamplingOptions(temperature=0.0, max_new_tokens=new)
        request = AnswerRequest("bench", sampling=sampling, client=str(id(self)), **prompt)
        self.handle = service.submit(request, self._hear)

    def wait(self) -> Timed:
        self.done.wait(_PATIENCE)
        return self

    @property
    def seconds(self) -> float:
        """Behind the first token."""
        return self.came[-1] - self.came[0]

    @property
    def first_ms(self) -> float:
        return 1e3 * (self.came[0] - self.asked)

    def _hear(self, event: Event) -> None:
        if isinstance(event, TokenDecoded):
            self.came.append(time.perf_counter())
            self.tokens.append(event.token)
        elif isinstance(event, Ended):
            self.done.set()


def main() -> None:
    arguments = _arguments()
    engine = Engine(None)
    try:
        options = EngineOptions(
            arguments.backend, mode=arguments.mode, threads=arguments.threads, context=2048
        )
        loaded = engine.submit(LoadModel(arguments.model, options)).result()
        assert isinstance(loaded, ModelLoaded), loaded
        engine.submit(StartServing(parallel=arguments.clients, speculate="off"))
        changed = until(engine, (ServingChanged,))
        service = engine.service()
        assert service is not None, changed
        _measure(service, loaded.model.vocabulary, arguments)
    finally:
        engine.close(30)


def _measure(service: Service, vocabulary: int, arguments: argparse.Namespace) -> None:
    random = np.random.default_rng(1)

    def prompt() -> tuple[int, ...]:
        return tuple(random.integers(300, vocabulary, arguments.prompt).tolist())

    def round_of(clients: int) -> tuple[float, list[Timed]]:
        prompts = [prompt() for _ in range(clients)]
        began = time.perf_counter()
        asked = [Timed(service, arguments.new, tokens=tokens) for tokens in prompts]
        for one in asked:
            one.done.wait(_PATIENCE)
        return sum(len(one.tokens) for one in asked) / (time.perf_counter() - began), asked

    round_of(1)
    for _ in range(arguments.rounds):
        alone, _ = round_of(1)
        before = service.status()
        rate, asked = round_of(arguments.clients)
        after = service.status()
        steps, seconds = after.steps - before.steps, after.step_seconds - before.step_seconds
        tokens = sum(len(one.tokens) for one in asked)
        wall = tokens / rate
        print(
            f"1 client {alone:6.1f} tokens/s; "
            f"{arguments.clients}: {rate:6.1f} ({rate / alone:.2f} x), "
            f"{steps} steps of {1e3 * seconds / steps:.2f} ms, "
            f"{1e3 * (wall - seconds) / tokens:.3f} ms a token besides"
        )
    others = [Timed(service, 1500, tokens=prompt()) for _ in range(arguments.clients - 1)]
    while not all(one.came for one in others):
        time.sleep(0.01)
    firsts = []
    for _ in range(12):
        late = Timed(service, 4, tokens=prompt()).wait()
        firsts.append(late.first_ms)
    for one in others:
        one.handle.cancel()
        one.done.wait(_PATIENCE)
    print(
        f"first token while {arguments.clients - 1} decode: median {np.median(firsts):.0f} ms, "
        f"most {max(firsts):.0f} ms"
    )


def until(engine: Engine, kinds: tuple[type, ...]) -> Event:
    while True:
        for report in engine.wait(1.0):
            if isinstance(report.event, kinds):
                return report.event


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
