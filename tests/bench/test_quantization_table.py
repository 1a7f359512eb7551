"""The page's table is the one of the stored report."""

import json

import pytest

from tests.bench.quantization import CASES, RESULTS
from tests.bench.quantization_table import BEGIN, END, markdown
from tests.bench.table import insert
from tests.paths import ROOT

PAGE = ROOT / "docs" / "quantization.md"


@pytest.fixture(scope="module")
def report():
    return json.loads(RESULTS.read_text())


def test_the_page_shows_the_stored_report(report):
    page = PAGE.read_text()
    assert insert(page, markdown(report), (BEGIN, END)) == page


def test_every_aim_is_shown_beside_what_was_found(report):
    table = markdown(report)
    assert [row["name"] for row in report["divergence"]] == [case.name for case in CASES]
    for row, case in zip(report["divergence"], CASES, strict=True):
        line = next(line for line in table.splitlines() if line.startswith(f"| {case.name} |"))
        assert ("(aim" in line) == (case.limit is not None)
        if case.limit is not None:
            assert f"(aim {case.limit:g})" in line
            assert line.count("**") == (2 if row["kld_mean"] <= case.limit else 0)


def test_a_missed_aim_is_in_italics(report):
    missed = json.loads(json.dumps(report))
    missed["divergence"][0]["kld_mean"] = 0.5
    assert "| *0.5* (aim" in markdown(missed)


def test_memory_stayed_within_its_bound(report):
    for row in report["memory"]:
        assert row["limit_bytes"] == int(1.5 * row["largest_tensor_bytes"]) + 300_000_000
        assert row["peak_bytes"] <= row["limit_bytes"]
