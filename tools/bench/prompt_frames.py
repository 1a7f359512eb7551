"""Frame times while a long prompt is read and answered, on the device that computes.

    python -m tools.bench.prompt_frames [--words 2000] [--tokens 128] [--device N] [--model FILE]

The interface is drawn offscreen, with the views that a new window shows. Prints an object as JSON.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from llm_lite.core.messages import EngineOptions, SamplingOptions
from tools.tour.clock import process_start
from tools.tour.stage import Stage

PROSE = "the light of the morning comes over the hills and asks for nothing"
WORD_TOKENS = 2  # at most: one, but two of a vocabulary of random pieces
SPARE = 256  # positions for the template


class Asked(Stage):
    """Asks and looks at nothing else."""

    def play(self, source: str | None, prompt: str, engine: Any) -> None:
        self._begin(source, engine)
        self._load(prompt)
        self._send_prompt()
        self._reported = self._report()


def measure(
    options: EngineOptions, model: str | None, words: int, tokens: int, engine: Any = None
) -> dict[str, Any]:
    """Percentiles of milliseconds a frame by phase, rates, what drew and what computed."""
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=tokens)
    stage = Asked(options, sampling, process_start())
    try:
        stage.play(model, long_prompt(words), engine)
        report = stage.report()
        kept = ("device", "executor", "stats", "frame_ms")
        found = {key: report[key] for key in kept}
    finally:
        stage.close()
    return {**found, "validation_messages": list(stage.device.validation_messages)}


def long_prompt(words: int) -> str:
    text = PROSE.split()
    return "What is this about? " + " ".join(text[i % len(text)] for i in range(words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--backend", choices=("auto", "vulkan", "cpu"), default="vulkan")
    parser.add_argument("--device", type=int)
    parser.add_argument("--model")
    a = parser.parse_args()
    context = WORD_TOKENS * a.words + a.tokens + SPARE
    options = EngineOptions(backend=a.backend, device=a.device, context=context)
    print(json.dumps(measure(options, a.model, a.words, a.tokens)))


if __name__ == "__main__":
    main()
