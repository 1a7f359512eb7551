"""The tour of models that hold no conversation, with the real engine."""

import json
import time

import numpy as np
import pytest

from llm_lite.desktop.render.png import read_png
from tests.fixtures.seq2seq import t5
from tests.paths import FIXTURES
from tests.runners import exact
from tests.seq2seq_checks import write_case
from tools.tour.input_driver import InputDriver
from tools.tour.tour import run_tour

pytestmark = pytest.mark.vulkan


def told(folder, source, language="en"):
    """The report, and the names of the pictures, each of which has colours."""
    report = run_tour(folder, None, exact("cpu"), str(source), time.monotonic(), language=language)
    assert json.loads((folder / "report.json").read_text("utf-8")) == report
    assert report["answer"] == "" and report["tokens"] == []
    for name in report["pictures"]:
        pixels = read_png(folder / name)
        assert np.unique(pixels.view(np.uint32)[::3, ::3]).size > 40, name
    return {name.removesuffix(".png") for name in report["pictures"]}


def test_an_encoder_with_a_head_in_korean(tmp_path, monkeypatch):
    """Its model is there before the prompt is typed, as it is on a busy machine."""
    click = InputDriver.click

    def late(driver, name):
        if name == "chat.input":
            driver.wait("the model", lambda state: state.model is not None)
        click(driver, name)

    monkeypatch.setattr(InputDriver, "click", late)
    names = told(tmp_path, FIXTURES / "fill", "ko")
    for theme in ("dark", "light"):
        for page in ("text", "figure", "pairs", "fill"):
            assert f"17-encoder-{page}-{theme}" in names
        assert f"17-encoder-fill-{theme}-filled" in names
        assert f"17-encoder-lesson-{theme}-11-filling" in names
    assert not any(name.endswith("pooling") for name in names)


def test_an_encoder_decoder(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    names = told(tmp_path / "tour", write_case(t5.FAMILY, "gated", model))
    for theme in ("dark", "light"):
        for page in ("looks", "looked-at", "encoder", "decoder", "cross"):
            assert f"18-target-{page}-{theme}" in names
    assert "18-target-begin" in names
