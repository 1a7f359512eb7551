"""Tables of block formats: aims, what the pages show, and where the peer's files lie."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench import files, peers
from tests.bench.files_table import AIMS, MARKERS, SUMMARY_MARKERS, markdown, summary
from tests.bench.table import insert
from tests.paths import ROOT

STORED = Path(__file__).with_name("results") / "files.json"


def result(model: str, name: str, ratio: float = 2.0, share: float = 0.8) -> dict[str, Any]:
    def spread(middle: float) -> dict[str, float]:
        return {"median": middle, "min": middle - 0.1, "max": middle + 0.1}

    return {
        "model": model,
        "peer": name,
        "ours": {key: spread(50 * ratio) for key in AIMS},
        "theirs": {key: spread(50) for key in AIMS},
        "ratio": {key: spread(ratio) for key in AIMS},
        "read_bytes": {"decode": 105_000_000, "deep": 120_000_000},
        "bandwidth_share": {"decode": spread(share), "deep": spread(share)},
    }


def report(*results: dict[str, Any]) -> dict[str, Any]:
    machine = {"processor": "P", "threads": 2, "instructions": "I", "system": "S"}
    return {
        "date": "2026-01-02",
        "machine": machine | {"load_before": 0.04},
        "peer": "llama.cpp",
        "tokens": {"prompt": 512, "new": 128, "depth": 1024},
        "repeat": 3,
        "read_gb_s": {"median": 20.0, "min": 19.0, "max": 21.0},
        "results": [*results],
    }


def row_of(table: str, name: str) -> str:
    return next(line for line in table.splitlines() if line.startswith(f"| {name} |"))


def test_a_row_has_both_rates_the_ratio_with_its_spread_bytes_and_share():
    row = row_of(markdown(report(result("M", "Q4_K_M"))), "M, Q4_K_M")
    assert "100 / 50 = **2.00x** (1.90 to 2.10)" in row
    assert row.endswith("| 105 MB | **80%** |")


def test_a_missed_aim_is_in_italics():
    table = markdown(report(result("M", "Q6_K", ratio=1.3, share=0.7)))
    decode, prefill, deep, _, share = row_of(table, "M, Q6_K").split(" | ")[1:]
    assert "= **1.30x** (" in decode  # its aim is the lowest
    assert all("= *1.30x* (" in cell for cell in (prefill, deep))
    assert share == "*70%* |"


def test_the_head_says_the_aims():
    head = markdown(report(result("M", "Q6_K"))).splitlines()[0]
    for words in ("decode 128 (aim 1.25x)", "prefill 512 (aim 1.5x)", "at 1024 (aim 1.5x)"):
        assert words in head
    assert "(aim 75%)" in head


def test_the_summary_has_a_line_for_each_type_with_all_models():
    table = summary(report(result("A", "Q6_K"), result("B", "Q6_K", ratio=1.0), result("B", "X")))
    assert table.startswith("| A / B | decode 128 | prefill 512 | at 1024 |\n")
    assert row_of(table, "Q6_K") == "| Q6_K |" + " **2.00x** / *1.00x* |" * 3
    assert row_of(table, "X") == "| X |" + " **2.00x** |" * 3


@pytest.mark.parametrize(
    ("page", "write", "markers"),
    [("docs/speed.md", markdown, MARKERS), ("README.md", summary, SUMMARY_MARKERS)],
)
def test_the_pages_show_the_stored_report(page, write, markers):
    """Where there is one; before the first there is nothing between the markers."""
    shown = (ROOT / page).read_text("utf-8")
    table = write(json.loads(STORED.read_text())) if STORED.exists() else ""
    assert insert(shown, table, markers) == shown


def test_each_file_has_a_name_of_its_own():
    folder = Path("peers")
    paths = [
        peers.block_file(folder, model, name)
        for model in peers.BLOCK_MODELS
        for name in peers.BLOCK_TYPES
    ]
    assert len({*paths}) == len(paths) == 10
    assert paths[0] == folder / "models" / "smollm2-q4_k_m.gguf"
    assert {path.name for path in paths}.isdisjoint(peers.FILES.values())


def test_every_model_has_a_source(tmp_path, monkeypatch):
    written: dict[str, Path] = {}
    monkeypatch.setattr(peers, "write_synthetic", lambda name, path, **_: path.write_bytes(b""))
    monkeypatch.setattr(
        peers,
        "write_file",
        lambda python, source, path, name: written.__setitem__(path.name, source),
    )
    (tmp_path / "models").mkdir()
    peers.write_block_files(tmp_path, Path("smollm2.gguf"), Path("python"))
    assert written["smollm2-q6_k.gguf"] == tmp_path / "models" / "f32.gguf"
    assert written["llama-1b-mxfp4.gguf"] == tmp_path / "models" / "llama-1b.gguf"
    assert len(written) == len(peers.BLOCK_MODELS) * len(peers.BLOCK_TYPES)


def test_a_file_that_is_there_is_kept(tmp_path):
    there = tmp_path / "there.gguf"
    there.write_bytes(b"kept")
    peers.write_file(Path("no python"), Path("no source"), there, "Q6_K")
    assert there.read_bytes() == b"kept"


def test_a_missing_file_is_named_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["files", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"no .*smollm2-q4_k_m\.gguf: run .*peers --files first"):
        files.main()
