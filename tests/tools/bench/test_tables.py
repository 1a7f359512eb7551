"""Tables and charts of the documentation are made from stored reports, between markers."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from llm_lite.core.metrics.kernel_study.forms import OWN
from tests.paths import ROOT
from tools.bench import files_table, kernels, quantization_table, table
from tools.bench.depth_chart import apart, chart
from tools.bench.depth_table import markdown as depth_table
from tools.bench.peers import check_avx2
from tools.bench.quantization import CASES
from tools.bench.quantization import RESULTS as QUANTIZATION

RESULTS = ROOT / "tools" / "bench" / "results"
RATES = ("prefill", "decode", "deep")


def stored(name):
    return json.loads((RESULTS / name).read_text("utf-8"))


def spread(median, width=0.1):
    return {"median": median, "min": median - width, "max": median + width}


def report(*results, **others):
    machine = {"processor": "P", "threads": 2, "instructions": "avx2", "system": "Linux 6"}
    return {
        "date": "2026-01-02",
        "machine": machine | {"load_before": 0.04},
        "model": "M <random>",
        "peer": "llama.cpp",
        "tokens": {"prompt": 512, "new": 128, "depth": 1024},
        "repeat": 3,
        "read_gb_s": spread(20, 1),
        "results": [*results],
    } | others


def result(ratio=2.0, share=0.756, theirs=150, **others):
    return {
        "mode": "int4",
        "peer": "Q4_0",
        "ours": {key: spread(150 * ratio) for key in RATES},
        "theirs": {key: spread(theirs) for key in RATES},
        "ratio": {key: spread(ratio) for key in RATES},
        "read_bytes": {"decode": 105_000_000, "deep": 120_000_000},
        "bandwidth_share": {"decode": spread(share), "deep": spread(share)},
    } | others


def row_of(text, name):
    return next(line for line in text.splitlines() if line.startswith(f"| {name} |"))


SHOWN = [
    ("docs/speed.md", "cpu.json", table.markdown, table.MARKERS),
    ("docs/speed.md", "avx2.json", table.markdown, table.AVX2_MARKERS),
    ("docs/speed.md", "vulkan.json", table.markdown, table.VULKAN_MARKERS),
    *(
        ("docs/speed.md", f"{name.replace('-', '_')}.json", files_table.markdown, about.markers)
        for name, about in files_table.TABLES.items()
        if (RESULTS / f"{name.replace('-', '_')}.json").exists()
    ),
    ("README.md", "llamas_avx2.json", files_table.summary, files_table.SUMMARY_MARKERS),
    (
        *("docs/quantization.md", QUANTIZATION.name, quantization_table.markdown),
        (quantization_table.BEGIN, quantization_table.END),
    ),
    ("docs/kernels.md", kernels.RESULTS.name, kernels.markdown, kernels.MARKERS),
]


@pytest.mark.parametrize(("page", "name", "write", "markers"), SHOWN)
def test_the_pages_show_the_stored_reports(page, name, write, markers):
    """Where there is one; before the first there is nothing between the markers."""
    text = write(stored(name)) if (RESULTS / name).exists() else ""
    shown = (ROOT / page).read_text("utf-8")
    assert table.insert(shown, text, markers) == shown


@pytest.mark.parametrize("markers", [table.MARKERS, table.VULKAN_MARKERS, table.AVX2_MARKERS])
def test_the_table_replaces_only_what_is_between_the_markers(markers):
    begin, end = markers
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    once = table.insert(page, "new", markers)
    assert once == f"before\n{begin}\nnew\n{end}\nafter\n"
    assert table.insert(once, "new", markers) == once
    with pytest.raises(ValueError, match="bench: begin"):
        table.insert("no markers", "new")


# Us beside llama.cpp


def test_a_row_has_both_rates_the_ratio_with_its_spread_bytes_and_share():
    row = next(line for line in table.markdown(report(result())).splitlines() if "int4" in line)
    assert "300 / 150 = **2.00x** (1.90 to 2.10)" in row
    assert row.endswith("| 105 MB | 76% |")


def test_a_report_of_a_device_names_it_and_gives_slow_rates_a_digit():
    page = table.markdown(report(result(theirs=2.44), device="D"))
    assert "both on Vulkan's D, P, 2 threads" in page
    assert "300 / 2.4 = " in page
    assert "make bench-vulkan" in page
    assert "Vulkan" not in table.markdown(report(result()))


def test_a_report_of_a_limit_names_it():
    page = table.markdown(report(result(), isa="avx2"))
    assert "both limited to avx2, P, 2 threads, avx2" in page
    assert "make bench-avx2" in page
    assert "limited" not in table.markdown(report(result()))


def test_each_kind_of_report_has_a_place_of_its_own():
    reports = report(), report(isa="avx2"), report(device="D", isa="")
    expected = [table.MARKERS, table.AVX2_MARKERS, table.VULKAN_MARKERS]
    assert [table.markers_of(one) for one in reports] == expected


def test_the_report_of_avx2_is_of_avx2_on_both_sides():
    found = stored("avx2.json")
    assert found["isa"] == found["machine"]["instructions"] == "avx2"
    check_avx2(found["peer_system"])


# Files of block formats


def of_file(model, name, ratio=2.0, share=0.8, **others):
    return result(ratio, share, model=model, peer=name, **others)


def of_files(*results, table="files", **others):
    return report(*results, table=table, **others)


def beside_ik(ratio):
    of_ik = {"rates": {key: spread(200) for key in RATES}}
    return {files_table.IK: of_ik | {"ratio": {key: spread(ratio) for key in RATES}}}


def test_a_row_of_a_file_has_its_aims():
    text = files_table.markdown(of_files(of_file("M", "Q4_K_M")))
    row = row_of(text, "M, Q4_K_M")
    assert "300 / 150 = **2.00x** (1.90 to 2.10)" in row
    assert row.endswith("| 105 MB | **80%** |")
    for words in ("decode 128 (aim 1.25x llama.cpp)", "at 1024 (aim 1.5x llama.cpp)"):
        assert words in text.splitlines()[0]
    assert "(aim 75%)" in text.splitlines()[0]
    assert "make bench-files" in text


def test_a_missed_aim_of_a_file_is_in_italics():
    text = files_table.markdown(of_files(of_file("M", "Q6_K", ratio=1.3, share=0.7)))
    decode, prefill, deep, _, share = row_of(text, "M, Q6_K").split(" | ")[1:]
    assert "= **1.30x** (" in decode  # its aim is the lowest
    assert all("= *1.30x* (" in cell for cell in (prefill, deep))
    assert share == "*70%* |"


def test_another_peer_has_its_rate_our_ratio_and_aims_of_its_own():
    rows = of_file("M", "Q4_0", others=beside_ik(1.2), cached_gb_s=50.0)
    found = of_files(rows, table="llamas-avx2", others={files_table.IK: "the fork"})
    text = files_table.markdown(found)
    decode, prefill, deep, *_, limit = row_of(text, "M, Q4_0").split(" | ")[1:]
    assert decode == "300 / 150 / 200 = 2.00x (1.90 to 2.10), **1.20x** (1.10 to 1.30)"
    assert prefill.endswith("= **2.00x** (1.90 to 2.10), *1.20x* (1.10 to 1.30)")
    assert deep.endswith("= 2.00x (1.90 to 2.10), 1.20x (1.10 to 1.30)")  # no aims
    assert limit == "memory (50 GB/s in the cache) |"
    assert "prefill 512 (aim 2x llama.cpp, 1.25x ik_llama.cpp)" in text
    assert "ours / llama.cpp / the fork" in text
    assert "all limited to avx2" in text


def test_decode_waits_for_instructions_where_the_cache_is_no_quicker():
    slow = of_file("M", "X", others=beside_ik(1.0), cached_gb_s=24.0)
    found = of_files(slow, table="llamas")
    assert "instructions (24 GB/s in the cache)" in files_table.markdown(found)


def test_the_summary_has_a_line_for_each_file_with_all_peers():
    results = of_file("A", "Q6_K", others=beside_ik(1.0)), of_file("B", "X", others=beside_ik(1.3))
    found = of_files(*results, table="llamas", others={files_table.IK: "the fork"})
    text = files_table.summary(found)
    assert text.startswith(
        "| times llama.cpp / ik_llama.cpp | decode 128 | prefill 512 | at 1024 |"
    )
    cells = " 2.00x / *1.00x* | **2.00x** / *1.00x* | 2.00x / 1.00x |"
    assert row_of(text, "A, Q6_K") == "| A, Q6_K |" + cells
    assert row_of(text, "B, X").startswith("| B, X | 2.00x / **1.30x** |")


# Quantization and kernels


def test_every_aim_is_shown_beside_what_was_found():
    found = stored(QUANTIZATION.name)
    text = quantization_table.markdown(found)
    assert [row["name"] for row in found["divergence"]] == [case.name for case in CASES]
    for row, case in zip(found["divergence"], CASES, strict=True):
        line = row_of(text, case.name)
        assert ("(aim" in line) == (case.limit is not None)
        if case.limit is not None:
            assert f"(aim {case.limit:g})" in line
            assert line.count("**") == (2 if row["kld_mean"] <= case.limit else 0)
    found["divergence"][0]["kld_mean"] = 0.5
    assert "| *0.5* (aim" in quantization_table.markdown(found)


def test_memory_stayed_within_its_bound():
    for row in stored(QUANTIZATION.name)["memory"]:
        assert row["limit_bytes"] == int(1.5 * row["largest_tensor_bytes"]) + 300_000_000
        assert row["peak_bytes"] <= row["limit_bytes"]


def test_each_study_has_its_device_and_all_forms():
    for study in stored(kernels.RESULTS.name)["studies"]:
        assert study["device"] in kernels.markdown({"studies": [study]})
        assert len(study["forms"]) == 5 and study["forms"][-1]["name"] == OWN
        first = study["forms"][0]["seconds"]["median"]
        for form in study["forms"]:
            rate = 2 * study["m"] * study["n"] * study["k"] / form["seconds"]["median"] / 1e9
            assert abs(form["gflop_s"] / rate - 1) < 1e-9
            assert abs(form["times_naive"] - first / form["seconds"]["median"]) < 1e-9


def test_a_newer_study_of_a_device_takes_the_place_of_the_older_one():
    one, other = {"backend": "vulkan", "device": "A"}, {"backend": "cpu", "device": "A"}
    new = one | {"date": "later"}
    assert kernels.merged([one, other], [new]) == [other, new]


# Far into a context


def point(depth, ours, share=0.75, what="decode"):
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


POINTS = [point(0, 60), point(4096, 100), point(16384, 70, 0.6), point(16384, 90, 0, "prefill")]
DEEP = report(points=POINTS, read_gb_s=40.0)
SVG = "{http://www.w3.org/2000/svg}"


def test_an_aim_that_is_missed_far_into_a_context_is_in_italics():
    text = depth_table(DEEP)
    assert "| int8 beside Q8_0, 0 | 60 / 50 = 1.20x (1.10 to 1.30) | 275 MB | 75% |" in text
    assert "4,096 | 100 / 50 = **2.00x** (1.90 to 2.10) | 275 MB | **75%** |" in text
    assert "16,384 | 70 / 50 = *1.40x* (1.30 to 1.50) | 275 MB | *60%* |" in text
    assert "A prompt of 512 tokens behind 16,384, int8 beside Q8_0: 90 / 50 = 1.80x" in text


def test_the_chart_has_a_point_for_every_depth_and_higher_is_faster():
    root = ElementTree.fromstring(chart(DEEP))
    dots = [dot.attrib for dot in root.iter(f"{SVG}circle")]
    ours = [float(dot["cy"]) for dot in dots if "ours" in dot["class"]]
    assert len(dots) == 6 and ours[1] < ours[2] < ours[0]
    words = "".join(text.text or "" for text in root.iter(f"{SVG}text"))
    assert "M <random>" in words and "16,384" in words and "llm-lite, int8: 70" in words


def test_a_third_cache_has_a_stroke_of_its_own():
    caches = ("fp16", "int8", "int4")
    points = [{**point(depth, 60), "cache": cache} for cache in caches for depth in (0, 4096)]
    root = ElementTree.fromstring(chart({**DEEP, "points": points}))
    assert len({line.attrib["class"] for line in root.iter(f"{SVG}polyline")}) == 6


def test_labels_do_not_lie_on_each_other():
    placed = apart([(50.0, "ours", "b"), (48.0, "ours", "a"), (90.0, "ours", "c")])
    assert [text for _, _, text in placed] == ["a", "b", "c"]
    assert min(np.diff([y for y, _, _ in placed])) >= 15


def test_the_committed_run_can_be_drawn_again():
    found = stored("depth.json")
    assert ElementTree.fromstring(chart(found)).tag.endswith("svg")
    assert f"{found['repeat']} rounds" in depth_table(found)
