"""Kills processes that talk into a history at random moments, and checks what is left.

    python -m tools.cross.history_kills [--times 200] [--jobs 2]

After each kill SQLite's integrity check must find nothing, all that was acknowledged must be there,
and all that was said a second before the kill. Several kills in a row hit one file. Tells how much
was checked and how old the oldest lost word was; ends with 1 where anything was missing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from tests.core.history.killing import Left, kill_once, lives

GRACE = 1.0  # seconds
ON_ONE_FILE = 5


def kill_file(path: Path, first: int, times: list[float]) -> list[Left | str]:
    """Kills one after the other on one file: what each left, or what was wrong."""
    found: list[Left | str] = []
    for number, life in enumerate(times, first):
        try:
            found.append(kill_once(path, number, life, GRACE))
        except AssertionError as error:
            found.append(f"kill {number} of {path}: {error}")
    return found


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(words)
    times = lives(options.times, options.times, 0.05, 4.0)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        begins = range(0, options.times, ON_ONE_FILE)
        files = [Path(folder) / f"{first}.db" for first in begins]
        groups = [times[first : first + ON_ONE_FILE] for first in begins]
        results = [left for group in pool.map(kill_file, files, begins, groups) for left in group]
    wrong = [result for result in results if isinstance(result, str)]
    for sentence in wrong:
        print(sentence)
    left = [result for result in results if isinstance(result, Left)]
    lost = [kill.lost for kill in left if kill.lost]
    finished, answers = sum(k.finished for k in left), sum(k.streamed for k in left)
    print(
        f"{len(results)} kills, {len(wrong)} wrong; {answers} answers, of which {finished} were "
        "finished, were looked for and found"
    )
    if lost:
        print(
            f"{len(lost)} kills lost words: the oldest was said {median(lost):.2f} s before the "
            f"kill in the median, {max(lost):.2f} s at most"
        )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
