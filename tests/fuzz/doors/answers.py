"""What an answer's tokens say: texts of any length, as a vocabulary may have them, with stop
strings, roles, thoughts, fences and sentences without an end. The work for a token does not grow
with the answer, and what is shown is what was said."""

from __future__ import annotations

import random
import time

from llm_lite.core.generation.endings import Endings
from llm_lite.core.generation.prompt import Encoded, RoleEnds
from llm_lite.core.messages import SamplingOptions, Thinking
from llm_lite.core.text.thinking import MARKS
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import odd_text

TOKENS = 60
MOST = 2 << 20  # characters of an answer
SECONDS_A_MIB = 1.0
LEAST_SECONDS = 0.5  # a busy machine may be away for so long
_SIZES = (1, 1, 2, 5, 50, 1000, 8000, 100_000)
_UNITS = (
    *(".", "…", '!"', "?) ", "-", "> ", "* ", "1. ", "12) ", "#", "_", "[", "`", "```\n", "~~~"),
    *(
        " ",
        "\n",
        "\t",
        "|",
        "| a ",
        "a",
        "a b. ",
        "word ",
        "가",
        "다. ",
        "語",
        "。",
        "🎉",
        "\ud83d",
    ),
    *("<", "<think>", "</think>", "[THINK]", "<|channel|>", "<|im_", "\nUser:", "\n\n", "<|end|>"),
)


def use(case: Case) -> None:
    rng = case.rng
    vocabulary = [_text(rng) for _ in range(rng.randint(1, 5))]
    texts: list[str] = []
    while len(texts) < TOKENS and sum(map(len, texts)) < MOST:
        texts.append(rng.choice(vocabulary))
    thinking = rng.choice((None, *(Thinking(style, inside=i) for style in MARKS for i in (0, 1))))
    roles = RoleEnds(("\nUser:", "<|im_start|>"), frozenset(), True) if rng.random() < 0.3 else None
    stop = tuple(_text(rng)[:1000] or "x" for _ in range(rng.choice((0, 0, 1, 4))))
    asked = rng.choice(("", odd_text(rng), f"Say {vocabulary[0][:3000]} 50 times", "a" * 100_000))
    sampling = SamplingOptions(stop=stop, json_schema=rng.choice(("", "", "{}")))
    began = time.process_time()
    endings = Endings[int](sampling, Encoded([], [], thinking, roles, asked))
    shown: list[str] = []
    for number, text in enumerate(texts):
        shown += [words for _, words in endings.feed(number, vocabulary.index(text), text)]
        if endings.reason:
            break
    shown += [words for _, words in endings.flush()]
    took = time.process_time() - began
    said = "".join(texts)
    assert took < LEAST_SECONDS + SECONDS_A_MIB * len(said) / (1 << 20), f"it took {took:.2f} s"
    assert said.startswith("".join(shown)), "what is shown was not said"
    if endings.reason is None:
        assert "".join(shown) == said, "something is missing"


def _text(rng: random.Random) -> str:
    if rng.random() < 0.2:
        return odd_text(rng)
    return rng.choice(_UNITS) * rng.choice(_SIZES)


DOOR = Door("answers", use)
