"""`llm-lite kernels`: what it measures here, and its sentences."""

import json

import pytest

from llm_lite.cli.main import main
from llm_lite.core.metrics.kernel_study.forms import CPU, OWN

WORDS = ["kernels", "--on", "cpu", "--threads", "1", "--size"]


def test_as_one_object(capsys):
    assert main([*WORDS, "64", "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert {"backend": "cpu", "software": False, "m": 64, "n": 64, "k": 64}.items() <= study.items()
    assert study["device"] and study["roof_gflop_s"] > 0
    assert [row["name"] for row in study["forms"]] == [*(form.name for form in CPU), OWN]
    for row in study["forms"]:
        seconds = row["seconds"]
        assert 0 < seconds["min"] <= seconds["median"] <= seconds["max"]
        rate = 2 * 64**3 / seconds["median"] / 1e9
        assert row["gflop_s"] == pytest.approx(rate)
        assert row["share_of_roof"] == pytest.approx(rate / study["roof_gflop_s"])
    assert study["forms"][0]["times_naive"] == 1


def test_as_a_table(capsys):
    assert main([*WORDS, "32"]) == 0
    said = capsys.readouterr()
    assert "32 x 32 x 32, float32" in said.out and "GFLOP/s" in said.out
    assert said.out.count(" x naive") == 5
    assert "cpu, measuring: naive" in said.err


@pytest.mark.vulkan
def test_shaders_are_held_against_the_study_on_a_gpu(capsys):
    assert main(["kernels", "--on", "vulkan", "--size", "32"]) == 0
    assert "13.6 x in a study on a GPU" in capsys.readouterr().out


def test_a_size_that_cannot_be(capsys):
    assert main([*WORDS, "40"]) == 1
    assert capsys.readouterr().err == (
        "llm-lite: size: expected a multiple of 32 from 32 to 4096, found 40\n"
    )
