"""The long form: `python -m tests.desktop.person [--steps 10000] [--seed 1] [--persons 5]`.

Each person does an equal part of the steps, from a seed of its own, in a folder of its own. The
first thing that is not true ends it, with what was done before.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.desktop.person.person import walk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--persons", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    each = -(-arguments.steps // arguments.persons)
    for number in range(arguments.persons):
        seed = arguments.seed + number
        with tempfile.TemporaryDirectory(prefix="person-", ignore_cleanup_errors=True) as folder:
            person = walk(Path(folder), seed, each)
        print(f"seed {seed}: {each} steps, {len(person.seen)} conversations", flush=True)


if __name__ == "__main__":
    main()
