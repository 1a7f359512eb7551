"""Another weight mode every few tokens, in the middle of an answer: memory, waiting, and the text.

    python -m tools.bench.mode_switches [--switches 20] [--every 24] [--backends cpu] [--model M]

With more than one of `--backends cpu,vulkan`, the executor changes too. The window is small and
full before the first switch, so that what is said meanwhile takes no memory. The resident memory
some tokens after each switch is compared with that of the first time in the same mode.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product

from llm_lite.core.engine.engine import Engine
from llm_lite.core.memory import trim_heap
from llm_lite.core.messages import (
    ChatMessage,
    Ended,
    EngineOptions,
    Event,
    ExecutorChanged,
    Generate,
    GenerationFinished,
    LoadModel,
    Reconfigure,
    SamplingOptions,
    TokenDecoded,
)
from tests.resident import resident_bytes

MODES = ("int4", "fp16", "int8")
QUESTION = "Write a long story about a lighthouse keeper and the sea."
SETTLED = 6  # tokens after a switch
PATIENCE = 300.0  # seconds
CONTEXT = 512  # tokens


class Talk:
    """A conversation that never ends: asked to go on whenever the model stops."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.answers = 0
        self.text = ""
        self._messages = [ChatMessage("user", QUESTION)]
        self._said = ""
        self._begin()

    def _begin(self) -> None:
        sampling = SamplingOptions(seed=1, max_new_tokens=100_000)
        self.answers += 1
        command = Generate(tuple(self._messages), sampling, overflow="rolling")
        self.answer = self.engine.submit(command)

    def until(self, kind: type[Event], count: int = 1) -> Event:
        """Wait for so many events of a kind from now on, and return the last."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for report in self.engine.wait(0.05):
                self._hear(report.event)
                if isinstance(report.event, kind):
                    count -= 1
                    if not count:
                        return report.event
        raise SystemExit(f"waited {PATIENCE:.0f} s for {kind.__name__}")

    def _hear(self, event: Event) -> None:
        if isinstance(event, Ended) and event.problem:
            raise SystemExit(event.problem)
        if isinstance(event, TokenDecoded):
            self.text += event.text
            self._said += event.text
        elif isinstance(event, GenerationFinished) and event.stop_reason == "end":
            self.text += "\n[asked to go on]\n"
            said, self._said = ChatMessage("assistant", self._said), ""
            self._messages += [said, ChatMessage("user", "Go on with the story.")]
            self._begin()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=int, default=20)
    parser.add_argument("--every", type=int, default=24, metavar="TOKENS")
    parser.add_argument("--backends", default="cpu")
    parser.add_argument("--model")
    arguments = parser.parse_args()
    backends = arguments.backends.split(",")
    kinds = list(product(MODES, backends))
    engine = Engine(None)
    engine.submit(LoadModel(arguments.model, _options(MODES[-1], backends[0]))).result()
    talk = Talk(engine)
    talk.until(TokenDecoded, CONTEXT)
    rows = [
        _switch(talk, *kinds[n % len(kinds)], arguments.every) for n in range(arguments.switches)
    ]
    talk.answer.cancel()
    engine.close(60.0)
    print(talk.text)
    print(json.dumps(_report(rows, len(kinds)), indent=1))


def _options(mode: str, backend: str) -> EngineOptions:
    """Return options without a pool of prefixes: it would fill up with what the window forgets."""
    return EngineOptions(
        backend=backend,  # type: ignore[arg-type]
        mode=mode,  # type: ignore[arg-type]
        context=CONTEXT,
        pool_budget=0,
    )


def _switch(talk: Talk, mode: str, backend: str, every: int) -> dict[str, object]:
    before, started = len(talk.text), time.perf_counter()
    talk.engine.submit(Reconfigure(_options(mode, backend)))
    changed = talk.until(ExecutorChanged)
    assert isinstance(changed, ExecutorChanged) and changed.executor.mode == mode
    seconds, meanwhile = time.perf_counter() - started, len(talk.text) - before
    talk.until(TokenDecoded, SETTLED)
    trim_heap()
    resident = resident_bytes()
    talk.text += f" [{mode} {backend}] "
    talk.until(TokenDecoded, max(1, every - SETTLED))
    return {
        "mode": mode,
        "backend": changed.executor.backend,
        "seconds": round(seconds, 2),
        "characters_meanwhile": meanwhile,
        "resident_mib": round(resident / 2**20, 1),
    }


def _report(rows: list[dict[str, object]], period: int) -> dict[str, object]:
    """`growth`: the last of every kind over the first of it, less 1."""
    growth = {}
    for first, row in enumerate(rows[:period]):
        same = [float(str(each["resident_mib"])) for each in rows[first::period]]
        growth[f"{row['mode']} {row['backend']}"] = round(same[-1] / same[0] - 1, 4)
    return {"switches": rows, "growth": growth}


if __name__ == "__main__":
    main()
