"""The lines of Python of the product by folder, and what changed since a commit.

python -m tests.house           how many lines each folder has
python -m tests.house main~20   and how many more or fewer since that commit
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.paths import ROOT, program_files

Lines = Counter[str]  # by folder, two levels deep


def lines_now() -> Lines:
    counts = Lines()
    for path in program_files():
        counts[folder(path.relative_to(ROOT))] += path.read_text("utf-8").count("\n")
    return counts


def lines_since(commit: str) -> Lines:
    """Return how many lines were added less those removed, by folder, from `commit` to the files
    that lie here. Raises CalledProcessError where there is no such commit."""
    words = ["git", "diff", "--numstat", "--no-renames", commit, "--"]
    words += ["core/*.py", "desktop/*.py", "llm_lite/*.py"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    counts = Lines()
    for row in listed.splitlines():
        added, removed, place = row.split("\t")
        counts[folder(Path(place))] += int(added) - int(removed)
    return counts


def folder(path: Path) -> str:
    return "/".join(path.parts[:-1][:2])


def table(now: Lines, change: Lines | None = None) -> str:
    """Return a row for each folder, and the sums."""
    rows = []
    for name in sorted({*now, *(change or ())}):
        rows.append((name, now[name], change[name] if change else 0))
    rows.append(("sum", now.total(), change.total() if change else 0))
    if change is None:
        return "\n".join(f"{name:24}{count:9,}" for name, count, _ in rows)
    return "\n".join(f"{name:24}{count:9,}{grown:+9,}" for name, count, grown in rows)


def main(arguments: list[str]) -> None:
    print(table(lines_now(), lines_since(arguments[0]) if arguments else None))


if __name__ == "__main__":
    main(sys.argv[1:])
