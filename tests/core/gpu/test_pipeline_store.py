"""Pipelines are shared by their users and kept a while after the last one."""

import pytest

from llm_lite.core.errors import OutOfDeviceMemoryError
from llm_lite.core.gpu import pipeline_store
from llm_lite.core.gpu.pipeline_store import Pipelines, PipelineStore


class Pipeline:
    made: list["Pipeline"]
    while_made = None  # called once, within the next making

    def __init__(self, device, variant, constants):
        if waiting := Pipeline.while_made:
            Pipeline.while_made = None
            waiting()
        self.variant, self.constants, self.closed = variant, constants, False
        Pipeline.made.append(self)

    def close(self):
        self.closed = True


class Device:
    def __init__(self):
        self.pipelines = PipelineStore(self)


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(pipeline_store, "ComputePipeline", Pipeline)
    monkeypatch.setattr(pipeline_store, "MOST_UNUSED", 2)
    monkeypatch.setattr(Pipeline, "made", [], raising=False)
    return Device()


def test_what_is_the_same_is_made_once(device):
    one, other = Pipelines(device), Pipelines(device)
    first = one.get("add", {"A": 1, "B": 2.0})
    assert first is one.get("add", {"B": 2.0, "A": 1}) is other.get("add", {"A": 1, "B": 2.0})
    assert other.get("add", {"A": 2, "B": 2.0}) is not first
    assert other.get("mul", {"A": 1, "B": 2.0}) is not first
    assert len(Pipeline.made) == 3 and first.constants == {"A": 1, "B": 2.0}


def test_the_oldest_that_nobody_uses_go(device):
    one, other = Pipelines(device), Pipelines(device)
    made = {name: one.get(name, {}) for name in "abcd"}
    other.get("a", {})
    one.close()
    assert [name for name in made if made[name].closed] == ["b"]
    assert other.get("b", {}) is not made["b"] and other.get("d", {}) is made["d"]
    other.close()
    assert [name for name in made if made[name].closed] == ["a", "b", "c"]
    device.pipelines.close()
    assert all(pipeline.closed for pipeline in Pipeline.made)


def test_one_that_cannot_be_made_is_tried_again(device):
    def refuse():
        raise OutOfDeviceMemoryError("There is not enough memory.")

    Pipeline.while_made, one = refuse, Pipelines(device)
    with pytest.raises(OutOfDeviceMemoryError):
        one.get("add", {})
    assert one.get("add", {}).variant == "add"


def test_two_threads_that_make_one_at_a_time_get_the_same(device):
    one, other = Pipelines(device), Pipelines(device)
    Pipeline.while_made = lambda: other.get("add", {})
    assert one.get("add", {}) is other.get("add", {})
    assert [pipeline.closed for pipeline in Pipeline.made] == [False, True]
