"""Fuzz the doors of the program: `python -m tests.fuzz [DOOR ...] [--count N] [--seconds S]`.

A failing case is kept under build/fuzz, and `python -m tests.fuzz DOOR --case N` repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.fuzz.runner import Failure, Report, fuzz
from tests.fuzz.shares import DOORS, share

COLUMNS = (
    ("door", 12),
    ("cases", 7),
    ("ok", 7),
    ("sentence", 9),
    ("traceback", 10),
    ("signal", 7),
    ("hang", 5),
    ("memory", 7),
    ("non-finite", 11),
    ("outside", 8),
    ("slowest s", 10),
    ("MiB", 5),
)


def main() -> int:
    options = _options()
    reports = []
    print("".join(f"{name:>{width}}" for name, width in COLUMNS))
    for door in options.door or DOORS:
        count = share(door, options.count) if not options.door else options.count
        if options.case is not None:
            options.first, count = options.case, 1
        report = fuzz(
            door,
            count,
            first=options.first,
            jobs=options.jobs,
            seconds=options.seconds,
            keep=options.keep,
        )
        reports.append(report)
        print(_row(report), flush=True)
    for report in reports:
        _print_failures(report)
    if options.json:
        options.json.write_text(json.dumps([report.as_json() for report in reports], indent=1))
    return 1 if any(report.failed for report in reports) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("door", nargs="*", metavar="DOOR", help=f"of {', '.join(DOORS)}; all")
    parser.add_argument("--count", type=int, default=50_000, help="cases, shared by all doors")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--seconds", type=float, help="at most, for each door")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="for failing cases")
    options = parser.parse_args()
    doors = Path(__file__).parent / "doors"
    for door in options.door:
        if not (doors / f"{door}.py").is_file():
            parser.error(f"no door {door!r}: expected some of {', '.join(DOORS)}")
    return options


def _row(report: Report) -> str:
    told = {
        **report.as_json(),
        "slowest s": f"{report.slowest[0]:.2f}",
        "MiB": report.largest[0] >> 20,
    }
    return "".join(f"{told[name]:>{width}}" for name, width in COLUMNS)


def _print_failures(report: Report) -> None:
    """An example of each kind."""
    alike: defaultdict[tuple[str, str], list[Failure]] = defaultdict(list)
    for failure in sorted(report.failures, key=lambda f: f.number):
        alike[failure.outcome, _kind(failure.detail)].append(failure)
    for failures in sorted(alike.values(), key=len, reverse=True):
        print(f"\n{report.door}, {len(failures)} times: {failures[0]}")


def _kind(detail: str) -> str:
    """The place in our code, or else how the detail begins."""
    _, at, place = detail.rpartition(" at ")
    return place if at and ".py:" in place else detail[:40]


if __name__ == "__main__":
    sys.exit(main())
