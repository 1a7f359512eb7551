"""Which weight mode is recommended, and the sentence why."""

import pytest

from llm_lite.core.messages import ModeSpeed
from llm_lite.core.metrics.modes import recommend

SIZES = {"as-stored": 90, "fp32": 500, "fp16": 250, "int8": 140, "int4": 75}


def said(again=(), **speeds):
    rows = [
        ModeSpeed(name, "a32", SIZES[name], 1.0, speed, 0.8 if name in again else 0.0)
        for name, speed in ((mode.replace("_", "-"), speed) for mode, speed in speeds.items())
    ]
    best, reason = recommend(rows)
    return rows[best].mode, reason


@pytest.mark.parametrize(
    "speeds, mode, why",
    [
        ({"int4": 100, "fp16": 50, "fp32": 30}, "int4", "int4 is the fastest here: 100.0 tok/s"),
        ({"int4": 100, "int8": 95, "fp32": 30}, "int8", "int8 is more exact than int4"),
        ({"int4": 95, "fp32": 100}, "fp32", "fp32 is the fastest here"),
        ({"fp16": 95, "fp32": 100, "int4": 99}, "fp16", "fp16 takes less memory than fp32"),
        ({"as_stored": 91, "int4": 100}, "as-stored", "as-stored is more exact than int4"),
    ],
)
def test_the_most_exact_of_those_that_are_about_as_fast(speeds, mode, why):
    found, reason = said(**speeds)
    assert found == mode and reason.startswith(why)


@pytest.mark.parametrize(
    "speeds, mode, why",
    [
        (
            {"as_stored": 60, "int8": 40, "int4": 100},
            "as-stored",
            "as-stored rounds no weights a second time, as int4 does: 60.0 against 100.0 tok/s",
        ),
        ({"as_stored": 100, "int4": 90}, "as-stored", "as-stored is the fastest here"),
        ({"int4": 90}, "int4", "int4 is the fastest here"),
    ],
)
def test_a_mode_that_rounds_few_bits_once_more_is_none_to_choose(speeds, mode, why):
    found, reason = said(again=("int4",), **speeds)
    assert found == mode and reason.startswith(why)
