"""Tests on a machine that is busy with something else, several times over.

    python -m tools.cross.busy [--times 10] [--isa avx2] [pytest's arguments]

As many loops as there are cores run all the while, at the usual priority: every other one computes,
the rest stream through memory. Tells how often the tests passed and which failed how often; ends
with 1 where any did. With `--isa` the kernels are of that instruction set at most.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

COMPUTES = "while True: sum(range(100_000))"
STREAMS = """
import numpy as np
here, there = np.zeros((2, 8 << 20))
while True: here[:] = there
"""


@contextmanager
def busy(cores: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run so many busy loops until the block ends."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    codes = [(COMPUTES, STREAMS)[core % 2] for core in range(cores)]
    loops = [subprocess.Popen([sys.executable, "-c", code], env=environment) for code in codes]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def failures(output: str) -> list[str]:
    """The ids of the tests that failed, from pytest's short summary (`-rfE`)."""
    lines = (line.split() for line in output.splitlines())
    return [words[1] for words in lines if words[:1] in (["FAILED"], ["ERROR"]) and words[1:]]


def run_once(arguments: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of one run of the tests."""
    command = [sys.executable, "-m", "pytest", "-rfE", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--isa", help="the highest instruction set that kernels may use")
    options, arguments = parser.parse_known_args(words)
    environment = dict(os.environ)
    if options.isa:
        environment["LLM_LITE_ISA"] = options.isa
    passed, fell = 0, Counter[str]()
    with busy(os.cpu_count() or 1) as loops:
        for number in range(1, options.times + 1):
            began = time.monotonic()
            code, output = run_once(arguments, environment)
            assert all(loop.poll() is None for loop in loops), "a loop has ended: not busy"
            passed += code == 0
            found = failures(output)
            fell.update(found or ([f"pytest ended with {code}"] if code else []))
            words_of = "passed" if code == 0 else f"failed: {', '.join(found) or output[-2000:]}"
            print(f"{number}: {words_of} ({time.monotonic() - began:.0f} s)", flush=True)
    for test, count in fell.most_common():
        print(f"{count} x {test}")
    print(f"{passed} of {options.times} passed")
    return int(passed < options.times)


if __name__ == "__main__":
    sys.exit(main())
