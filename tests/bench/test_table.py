"""The table of docs/speed.md is made from a report, between markers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.peers import check_avx2
from tests.bench.table import (
    AVX2_MARKERS,
    MARKERS,
    VULKAN_MARKERS,
    insert,
    markdown,
    markers_of,
)
from tests.paths import ROOT

RESULTS = Path(__file__).with_name("results")
PAGE = ROOT / "docs" / "speed.md"


def spread(*values: float) -> dict[str, float]:
    low, median, high = values
    return {"median": median, "min": low, "max": high}


REPORT = {
    "date": "2026-01-02",
    "machine": {
        "processor": "P",
        "threads": 2,
        "instructions": "avx2",
        "system": "Linux 6",
        "load_before": 0.04,
    },
    "model": "M",
    "peer": "llama.cpp",
    "tokens": {"prompt": 512, "new": 128, "depth": 1024},
    "repeat": 3,
    "read_gb_s": spread(19, 20, 21),
    "results": [
        {
            "mode": "int4",
            "peer": "Q4_0",
            "ours": {k: spread(290, 300, 310) for k in ("prefill", "decode", "deep")},
            "theirs": {k: spread(145, 150, 155) for k in ("prefill", "decode", "deep")},
            "ratio": {k: spread(1.9, 2.0, 2.1) for k in ("prefill", "decode", "deep")},
            "read_bytes": {"decode": 76_000_000, "deep": 99_000_000},
            "bandwidth_share": {"decode": spread(0.7, 0.756, 0.8), "deep": spread(0, 0, 0)},
        }
    ],
}


def test_a_row_has_both_rates_the_ratio_with_its_spread_bytes_and_share() -> None:
    row = next(line for line in markdown(REPORT).splitlines() if "int4" in line)
    assert "300 / 150 = **2.00x** (1.90 to 2.10)" in row
    assert row.endswith("| 76 MB | 76% |")


def test_a_report_of_a_device_names_it_and_gives_slow_rates_a_digit() -> None:
    slow = {k: spread(2.3, 2.44, 2.5) for k in ("prefill", "decode", "deep")}
    result = {**REPORT["results"][0], "theirs": slow}
    page = markdown({**REPORT, "device": "D", "results": [result]})
    assert "both on Vulkan's D, P, 2 threads" in page
    assert "300 / 2.4 = " in page
    assert "make bench-vulkan" in page
    assert "Vulkan" not in markdown(REPORT)


def test_a_report_of_a_limit_names_it() -> None:
    page = markdown({**REPORT, "isa": "avx2"})
    assert "both limited to avx2, P, 2 threads, avx2" in page
    assert "make bench-avx2" in page
    assert "limited" not in markdown(REPORT)


def test_each_kind_of_report_has_a_place_of_its_own() -> None:
    reports = (REPORT, {**REPORT, "isa": "avx2"}, {**REPORT, "device": "D", "isa": ""})
    assert [markers_of(r) for r in reports] == [MARKERS, AVX2_MARKERS, VULKAN_MARKERS]


@pytest.mark.parametrize("name", ["cpu", "avx2", "vulkan"])
def test_the_page_shows_the_stored_report(name: str) -> None:
    report = json.loads((RESULTS / f"{name}.json").read_text())
    page = PAGE.read_text()
    assert insert(page, markdown(report), markers_of(report)) == page


def test_the_report_of_avx2_is_of_avx2_on_both_sides() -> None:
    report = json.loads((RESULTS / "avx2.json").read_text())
    assert report["isa"] == report["machine"]["instructions"] == "avx2"
    check_avx2(report["peer_system"])


@pytest.mark.parametrize("markers", [MARKERS, VULKAN_MARKERS, AVX2_MARKERS])
def test_the_table_replaces_only_what_is_between_the_markers(markers: tuple[str, str]) -> None:
    begin, end = markers
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    assert insert(page, "new", markers) == f"before\n{begin}\nnew\n{end}\nafter\n"
    page = f"before\n{MARKERS[0]}\nold\n{MARKERS[1]}\nafter\n"
    assert insert(insert(page, "new"), "new") == insert(page, "new")
    with pytest.raises(ValueError, match="bench: begin"):
        insert("no markers", "new")
