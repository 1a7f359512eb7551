"""Answers of a model: Markdown that was changed, read at once and while it grows; formulas, set."""

from __future__ import annotations

import random
import time
from functools import cache

import numpy as np

from llm_lite.desktop.widgets.markdown.growing import GrowingText
from llm_lite.desktop.widgets.markdown.reading import Reader
from llm_lite.desktop.widgets.markup.formulas import coverage
from llm_lite.desktop.widgets.markup.process import FAILED, LIMITS, MarkupProcess
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.mutations import odd_text

SECONDS_A_KIB = 0.05
LEAST_SECONDS = 0.5  # a busy machine may be away for so long
MARKDOWN = """# A *title*

Words, **bold _both_**, `code`, [a link](https://x.y "t"), ![p](q.png), $x^2$ and \\(y\\). ~~no~~

- one
  1. two

     > three
- [ ] task

| a | b |
|:--|--:|
| 1 | `2` |

```python
def f(x):  # comment
    return x
```

$$
\\frac{a}{b}
$$

    code
[r]: http://z
---
한국어 **굵게**는 <b>x</b> &amp; \\*
"""
TEX = (
    r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
    r"\sum_{i=1}^{n} \int_0^1 x_i \, dx = \left( \text{ok} \right]",
    r"\underbrace{a+b}_{n} \overline{x} \mathbb{R} \color{red}{y} \tag{1}",
)
MARKS = (
    *("**", "*", "_", "`", "```", "\n", "\n\n", "    ", "- ", "1. ", "> ", "|", "|-|", "$", "$$"),
    *("\\[", "\\(", "[", "](", ")", "![", "#", "~~", "---", "<", "&#", "\t", "\\", "\r", "\0"),
)
PARTS = (
    "{",
    "}",
    "^",
    "_",
    "&",
    "\\\\",
    "\\frac",
    "\\sqrt[",
    "\\left(",
    "\\begin{array}{",
    "#",
    "%",
)


def use(case: Case) -> Result | None:
    rng = case.rng
    if rng.random() < 0.3:
        return formula(rng)
    text = mutated(MARKDOWN, rng, MARKS)
    began = time.process_time()
    whole = GrowingText(Reader()).read(text)
    took = time.process_time() - began
    assert took < LEAST_SECONDS + SECONDS_A_KIB * len(text) / 1024, f"it took {took:.2f} s"
    growing, at = GrowingText(Reader()), 0
    while at < len(text):
        at += rng.choice((1, 3, 10, 50))
        growing.read(text[:at], live=rng.random() < 0.5)
    grown = growing.read(text)
    assert grown == whole if text else not whole
    return None


@cache
def process() -> MarkupProcess:
    return MarkupProcess()


def formula(rng: random.Random) -> Result | None:
    """Of what cannot be set, or takes too much, a person sees the source."""
    text = mutated(rng.choice(TEX), rng, PARTS)
    if rng.random() < 0.1:
        language = rng.choice(("python", "rust", "c++", "html", "tex", "diff", "json"))
        process().highlight(language, text)
        assert process().wait(), "no answer"
        return None
    display = rng.random() < 0.5
    process().formula(text, display)
    assert process().wait(), "no answer"
    answer = process().formula(text, display)
    if not answer:
        assert answer is FAILED
        return None
    contours = [np.array(flat).reshape(-1, 2) * 0.015 for flat in answer["contours"]]
    return Result([coverage(contours, 100, 40)] if contours else [])


def mutated(text: str, rng: random.Random, marks: tuple[str, ...]) -> str:
    for _ in range(rng.choice((1, 2, 5, 20))):
        at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        end = min(end, at + rng.choice((0, 0, 1, 5, 40)))
        mark = rng.choice(marks) if rng.random() < 0.9 else odd_text(rng)
        text = text[:at] + mark * rng.choice((1, 1, 1, 2, 30)) + text[end:]
    return text


DOOR = Door("markdown", use, prepare=process, seconds=LIMITS.wall_seconds + 5)
