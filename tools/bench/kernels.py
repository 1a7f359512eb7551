"""The kernel study on this machine, with its table in docs/kernels.md.

    python -m tools.bench.kernels [--on vulkan|cpu|both] [--device N] [--json FILE] [--page PAGE]

A study of a device that the JSON already has takes the place of the older one; others stay, so that
several machines can stand side by side. For a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_lite.core.messages.inspecting.profiling import REFERENCE_SPEEDUP
from tests.paths import ROOT
from tools.bench.table import insert

MARKERS = "<!-- kernels: begin -->", "<!-- kernels: end -->"
RESULTS = Path(__file__).with_name("results") / "kernels.json"
PAGE = ROOT / "docs" / "kernels.md"
TITLES = {"vulkan": "Vulkan", "cpu": "C++"}


def main() -> int:
    arguments = _arguments()
    load = os.getloadavg()[0]
    words = ["kernels", "--json", "--on", arguments.on]
    words += [] if arguments.device is None else ["--device", str(arguments.device)]
    done = subprocess.run(
        [sys.executable, "-m", "llm_lite", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    measured = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": load,
    }
    studies = [study | measured for study in json.loads(done.stdout)["studies"]]
    kept = json.loads(arguments.json.read_text())["studies"] if arguments.json.exists() else []
    report = {"studies": merged(kept, studies)}
    arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    page = arguments.page.read_text("utf-8")
    arguments.page.write_text(insert(page, markdown(report), MARKERS), "utf-8")
    print(markdown(report))
    return 0


def merged(kept: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The new ones instead of the kept ones of the same device."""
    names = {(study["backend"], study["device"]) for study in new}
    return [study for study in kept if (study["backend"], study["device"]) not in names] + new


def markdown(report: dict[str, Any]) -> str:
    return "\n\n".join(_study(study) for study in report["studies"])


def _study(study: dict[str, Any]) -> str:
    rows = [
        f"{TITLES[study['backend']]} on {study['device']}: {study['m']} x {study['n']} x "
        f"{study['k']}.",
        "",
        "| | ms | GFLOP/s | of the roof | times naive |",
        "| --- | --- | --- | --- | --- |",
        *(_row(row) for row in study["forms"]),
        "",
        f"The roof is {_rate(study['roof_gflop_s'])} GFLOP/s: arithmetic allows "
        f"{_rate(study['arithmetic_gflop_s'])}; memory is read at {study['memory_gb_s']:.1f} GB/s, "
        f"which allows {_rate(study['memory_roof_gflop_s'])} if each value is read once and "
        f"{_rate(study['without_reuse_gflop_s'])} if two are read for each multiply-add."
        f"{_tiled(study)} {study['system']}; {study['date']}, load average before it "
        f"{study['load_before']:.1f}.",
    ]
    return "\n".join(rows)


def _row(row: dict[str, Any]) -> str:
    low, middle, high = (1e3 * row["seconds"][name] for name in ("min", "median", "max"))
    return (
        f"| [{row['name']}](../{row['source']}) | {_rate(middle)} ({_rate(low)} to {_rate(high)}) "
        f"| {_rate(row['gflop_s'])} | {row['share_of_roof']:.1%} | **{row['times_naive']:.1f}** |"
    )


def _tiled(study: dict[str, Any]) -> str:
    """What a GPU gains by tiles, and what this device does."""
    if study["backend"] != "vulkan":
        return ""
    here = study["forms"][2]["times_naive"]
    return f" Naive to tiled: {here:.1f} times here, {REFERENCE_SPEEDUP} in a study on a GPU."


def _rate(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--on", choices=("vulkan", "cpu", "both"), default="both")
    parser.add_argument("--device", type=int, help="see `llm-lite doctor`")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
