"""The kernel study as a task of the engine: told form by form, and stopped between two pieces."""

import pytest

from llm_lite.core.messages import (
    Cancel,
    CommandProgress,
    KernelsStudied,
    StudyKernels,
)
from llm_lite.core.metrics.kernel_study import study


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(study, "SMALLEST", 32)
    monkeypatch.setattr(study, "LONGEST_S", 0.0)


def test_each_form_is_told_when_it_was_measured(client, tiny_llama):
    client.load(tiny_llama)
    handle = client.send(StudyKernels("cpu"))
    assert client.end_of(handle) == ""
    told = client.of(KernelsStudied)
    assert [len(event.study.forms) for event in told] == [1, 2, 3, 4, 5, 5]
    assert "measuring: naive" in {event.stage for event in client.of(CommandProgress)}


def test_without_a_device_that_draws_there_are_no_shaders(client, tiny_llama):
    client.load(tiny_llama)
    handle = client.send(StudyKernels("vulkan"))
    assert "no Vulkan device" in client.end_of(handle)


def test_a_person_stops_it(client, tiny_llama, monkeypatch):
    """Also while the size is chosen, which goes on for minutes here."""
    monkeypatch.setattr(study, "LONGEST_S", 1e9)
    client.load(tiny_llama)
    handle = client.send(StudyKernels("cpu"))
    client.until(CommandProgress)
    client.send(Cancel(handle.command))
    assert client.end_of(handle) == "it was stopped"
