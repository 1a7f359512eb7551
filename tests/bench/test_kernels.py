"""The tables of docs/kernels.md are made from the stored results, between markers."""

import json

from llm_lite.core.metrics.kernel_study.forms import OWN
from tests.bench.kernels import MARKERS, PAGE, RESULTS, markdown, merged
from tests.bench.table import insert


def stored():
    return json.loads(RESULTS.read_text("utf-8"))


def test_the_page_shows_the_stored_results():
    page = PAGE.read_text("utf-8")
    assert insert(page, markdown(stored()), MARKERS) == page


def test_each_study_has_its_device_and_all_forms():
    for study in stored()["studies"]:
        assert study["device"] in markdown({"studies": [study]})
        assert len(study["forms"]) == 5 and study["forms"][-1]["name"] == OWN
        first = study["forms"][0]["seconds"]["median"]
        for form in study["forms"]:
            rate = 2 * study["m"] * study["n"] * study["k"] / form["seconds"]["median"] / 1e9
            assert abs(form["gflop_s"] / rate - 1) < 1e-9
            assert abs(form["times_naive"] - first / form["seconds"]["median"]) < 1e-9


def test_a_newer_study_of_a_device_takes_the_place_of_the_older_one():
    one, other = {"backend": "vulkan", "device": "A"}, {"backend": "cpu", "device": "A"}
    new = one | {"date": "later"}
    assert merged([one, other], [new]) == [other, new]
