"""The table and the chart of speed at depth; states of llama.cpp that are made longer."""

from __future__ import annotations

import importlib
import json
import struct
import sys
import types
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.bench.depth_chart import apart, chart
from tests.bench.depth_table import markdown

RESULTS = Path(__file__).with_name("results") / "depth.json"


def spread(median: float) -> dict[str, float]:
    return {"median": median, "min": median - 0.1, "max": median + 0.1}


def point(depth: int, ours: float, share: float = 0.75, what: str = "decode") -> dict[str, object]:
    return {
        "cache": "int8",
        "peer": "Q8_0",
        "depth": depth,
        "what": what,
        "ours": spread(ours),
        "theirs": spread(50),
        "ratio": spread(ours / 50),
        "read_bytes": 275_000_000,
        "bandwidth_share": spread(share),
        "read_gb_s": spread(40),
    }


REPORT = {
    "date": "2026-01-02",
    "machine": {
        "processor": "P",
        "threads": 2,
        "instructions": "avx2",
        "system": "Linux 6",
        "load_before": 0.04,
    },
    "model": "M <random>",
    "peer": "llama.cpp",
    "tokens": {"prompt": 512, "new": 16},
    "repeat": 3,
    "read_gb_s": 40.0,
    "points": [
        point(0, 60),
        point(4096, 100),
        point(16384, 70, 0.6),
        point(16384, 90, 0, "prefill"),
    ],
}


def test_an_aim_that_is_missed_is_in_italics() -> None:
    table = markdown(REPORT)
    assert "| int8 beside Q8_0, 0 | 60 / 50 = 1.20x (1.10 to 1.30) | 275 MB | 75% |" in table
    assert "4,096 | 100 / 50 = **2.00x** (1.90 to 2.10) | 275 MB | **75%** |" in table
    assert "16,384 | 70 / 50 = *1.40x* (1.30 to 1.50) | 275 MB | *60%* |" in table
    assert "A prompt of 512 tokens behind 16,384, int8 beside Q8_0: 90 / 50 = 1.80x" in table


def test_the_chart_has_a_point_for_every_depth_and_higher_is_faster() -> None:
    root = ElementTree.fromstring(chart(REPORT))
    name = "{http://www.w3.org/2000/svg}"
    dots = [dot.attrib for dot in root.iter(f"{name}circle")]
    ours = [float(dot["cy"]) for dot in dots if "ours" in dot["class"]]
    assert len(dots) == 6 and ours[1] < ours[2] < ours[0]
    words = "".join(text.text or "" for text in root.iter(f"{name}text"))
    assert "M <random>" in words and "16,384" in words and "llm-lite, int8: 70" in words


def test_a_third_cache_has_a_stroke_of_its_own() -> None:
    caches = ("fp16", "int8", "int4")
    points = [{**point(depth, 60), "cache": cache} for cache in caches for depth in (0, 4096)]
    root = ElementTree.fromstring(chart({**REPORT, "points": points}))
    kinds = [line.attrib["class"] for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert len(set(kinds)) == 6


def test_labels_do_not_lie_on_each_other() -> None:
    placed = apart([(50.0, "ours", "b"), (48.0, "ours", "a"), (90.0, "ours", "c")])
    assert [text for _, _, text in placed] == ["a", "b", "c"]
    heights = [y for y, _, _ in placed]
    assert min(np.diff(heights)) >= 15


def test_the_committed_run_can_be_drawn_again() -> None:
    report = json.loads(RESULTS.read_text("utf-8"))
    assert ElementTree.fromstring(chart(report)).tag.endswith("svg")
    assert f"{report['repeat']} rounds" in markdown(report)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The peer's worker, without the library that it drives."""
    monkeypatch.setitem(sys.modules, "llama_cpp", types.ModuleType("llama_cpp"))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield importlib.import_module("llama_cpp_depth")
    for name in ("llama_cpp_depth", "llama_cpp_worker"):
        sys.modules.pop(name, None)


def test_a_state_of_llama_cpp_becomes_longer(peer: types.ModuleType) -> None:
    cells, layers, row = 3, 2, 5
    head = struct.pack("<4I", 99, 0, 1, cells)
    head += b"".join(struct.pack("<3i", i, 1, 0) for i in range(cells))
    head += struct.pack("<2I", 0, layers)
    rows = np.arange(2 * layers * cells * row, dtype=np.uint8).reshape(2 * layers, cells, row)
    body = b"".join(struct.pack("<iQ", 8, row) + part.tobytes() for part in rows)
    state = np.frombuffer(head + body, np.uint8)
    longer = peer.longer_state(state, cells, 7, layers)
    assert struct.unpack_from("<4I", longer) == (99, 0, 1, 7)
    assert struct.unpack_from("<3i", longer, 16 + 12 * 6) == (6, 1, 0)
    assert peer.longer_state(state, cells, cells, layers).tobytes() == state.tobytes()
    first = longer[16 + 12 * 7 + 8 + 12 :][: 7 * row].reshape(7, row)
    assert (first == rows[0][[0, 1, 2, 0, 1, 2, 0]]).all()
    turned = rows[layers:].transpose(0, 2, 1)  # of values: [layers, columns, cells]
    body = b"".join(struct.pack("<iQ", 8, row) + part.tobytes() for part in rows[:layers])
    body += b"".join(struct.pack("<i2I", 8, 1, row) + part.tobytes() for part in turned)
    state = np.frombuffer(head[:-8] + struct.pack("<2I", 1, layers) + body, np.uint8)
    longer = peer.longer_state(state, cells, 7, layers)
    last = longer[-7 * row :].reshape(row, 7)
    assert (last == turned[-1][:, [0, 1, 2, 0, 1, 2, 0]]).all()
    with pytest.raises(ValueError, match="expected"):
        peer.longer_state(state, cells, 7, layers + 1)
