"""Frames of a long prompt, with a scripted engine."""

import pytest

from llm_lite.core.messages import EngineOptions
from tests.desktop.engine.engine import ScriptedEngine
from tools.bench.prompt_frames import long_prompt, measure

pytestmark = pytest.mark.vulkan


def test_frames_are_counted_by_phase(monkeypatch):
    monkeypatch.setenv("LLM_LITE_VALIDATION", "1")
    found = measure(
        EngineOptions(),
        None,
        30,
        40,
        lambda device, wake: ScriptedEngine(wake=wake, steps_per_poll=1),
    )
    assert found["validation_messages"] == []
    assert found["device"]["name"] and found["stats"]["new_tokens"] > 0
    for phase in ("idle", "prefill", "decode"):
        assert found["frame_ms"][phase]["frames"] > 0


def test_a_prompt_has_its_words():
    assert len(long_prompt(500).split()) == 504
