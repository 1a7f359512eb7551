"""Settings that are on or off."""

import json

import pytest

from llm_lite.desktop.app.settings import load, remember, restore, save
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.program.switches import SWITCHES


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_turned_and_kept_for_the_next_start(headless, tmp_path, name):
    usual, path = getattr(AppState(), name), tmp_path / "settings.json"
    one = headless(AppState())
    one.driver.click("rail.settings")
    one.driver.click(f"settings.{name}")
    assert getattr(one.state, name) is not usual
    assert save(remember(one.state, Settings()), path) == ""
    assert json.loads(path.read_text("utf-8"))[name] is not usual
    settings, problems = load(path)
    assert problems == []
    assert getattr(restore(settings, AppState()), name) is not usual


@pytest.mark.parametrize("value", ["true", 1, None])
def test_what_is_no_switch_is_named(tmp_path, value):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"less_motion": value}))
    settings, (problem,) = load(path)
    assert not settings.less_motion
    assert problem.startswith("settings: less_motion")
