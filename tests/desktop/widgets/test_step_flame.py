"""A profiled step: the flame's spans, its table, and the view."""

from itertools import pairwise

import pytest

from llm_lite.core.messages import ProfileStep
from llm_lite.desktop.features.quantization.step_profile import StepShown, milliseconds
from llm_lite.desktop.widgets.step_flame import kinds, lay_out, shared_parts
from tests.desktop.engine.tasks import STEP
from tests.desktop.quantization.test_quantization_views import at_rest, last, panel  # noqa: F401


def test_every_row_covers_the_whole_step_without_gaps():
    for row in lay_out(STEP).rows:
        assert row[0].first == 0 and row[-1].last == len(STEP.ops)
        assert all(a.last == b.first for a, b in pairwise(row))
        assert sum(span.seconds for span in row) == pytest.approx(3.4e-3)
        assert sum(span.read_bytes for span in row) == STEP.read_bytes


def test_rows_go_from_layers_to_operations():
    layers, parts, ops = lay_out(STEP).rows
    assert [span.words for span in layers] == ["embedding", "layer 0", "layer 1", "logits"]
    assert [span.words for span in parts][1:4] == ["attention", "feed forward", "attention"]
    assert [span.words for span in ops][1:4] == ["q", "heads", "up"]
    colours = {span.words: span.series for span in ops}
    assert colours["q"] != colours["heads"] != colours["up"]


def test_kinds_are_summed_and_the_slowest_is_first():
    found = kinds(STEP.ops)
    assert [(kind.words, kind.count) for kind in found[:2]] == [
        ("product logits", 1),
        ("product q", 2),
    ]
    assert found[1].read_bytes == 10_000_000
    assert sum(kind.seconds for kind in found) == pytest.approx(3.4e-3)


def test_what_operations_share():
    assert shared_parts(STEP.ops[1:3]) == 2
    assert shared_parts(STEP.ops[1:4]) == 1


def test_the_share_of_memory():
    assert STEP.memory_share == pytest.approx(STEP.read_bytes / 4e-3 / 20e9)


@pytest.mark.parametrize(
    ("seconds", "words"), [(2e-5, "20 µs"), (3.214e-3, "3.21 ms"), (0.25, "250 ms")]
)
def test_durations(seconds, words):
    assert milliseconds(seconds) == words


@pytest.mark.parametrize("size", [(1280, 720), (3840, 2160)])
def test_a_step_is_measured_and_a_click_looks_closer(panel, size):  # noqa: F811
    one, engine = panel(size=size)
    one.driver.click("tab.performance")
    one.driver.click("step.128")
    one.driver.click("step.measure")
    one.driver.wait("the profile", lambda s: s.quantization.profile is not None)
    one.driver.wait("the end", at_rest)
    assert last(engine, ProfileStep).tokens == 128
    one.driver.frames(2)
    one.driver.click("step.layer 0")
    assert one.ui.local(StepShown).zoom == (1, 4)
    whole, part = one.driver.rect("step.flame"), one.driver.rect("step.layer 0")
    assert part[0] == pytest.approx(whole[0]) and part[2] == pytest.approx(whole[2])
    one.driver.click("step.layer 0")
    assert one.ui.local(StepShown).zoom is None
