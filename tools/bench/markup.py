"""How long changed Markdown and formulas take to read, a KiB.

    python -m tools.bench.markup [--count 2000]

The inputs are those of the fuzzer's door (`tests/fuzz/doors/markdown.py`): three in ten are
formulas, which a process apart sets; their time is the wall's, until it has answered. Markdown's is
the thread's. A text of less than a KiB counts as one. Ends with 1 where one took more than the bar.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from statistics import median

from llm_lite.desktop.widgets.markdown.growing import GrowingText
from llm_lite.desktop.widgets.markdown.reading import Reader
from tests.fuzz.doors.markdown import (
    MARKDOWN,
    MARKS,
    PARTS,
    SECONDS_A_KIB,
    TEX,
    mutated,
    process,
)

OF_TEX = 0.3  # share of formulas


def of_markdown(rng: random.Random) -> tuple[str, float]:
    """A text, and seconds."""
    text = mutated(MARKDOWN, rng, MARKS)
    began = time.thread_time()
    GrowingText(Reader()).read(text)
    return text, time.thread_time() - began


def of_tex(rng: random.Random) -> tuple[str, float]:
    text = mutated(rng.choice(TEX), rng, PARTS)
    began = time.perf_counter()
    process().formula(text, True)
    if not process().wait():
        raise SystemExit(f"no answer: {text!r}")
    return text, time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    rng = random.Random(options.count)
    GrowingText(Reader()).read(MARKDOWN)  # the libraries are imported
    process().formula(TEX[0], True)
    process().wait()
    over = 0
    for name, work, count in (
        ("Markdown", of_markdown, round(options.count * (1 - OF_TEX))),
        ("formulas", of_tex, round(options.count * OF_TEX)),
    ):
        made = [work(rng) for _ in range(count)]
        costs = [
            seconds / max(1.0, len(text.encode(errors="replace")) / 1024) for text, seconds in made
        ]
        above = sum(cost > SECONDS_A_KIB for cost in costs)
        over += above
        print(
            f"{count} {name}: {1e3 * median(costs):.1f} ms a KiB in the median, "
            f"{1e3 * max(costs):.1f} at most; {above} over {1e3 * SECONDS_A_KIB:.0f}"
        )
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
