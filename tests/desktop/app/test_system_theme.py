"""The theme follows the system, and a system that does not answer holds nothing up."""

import sys
import threading

import pytest

from llm_lite.core.records import replace
from llm_lite.desktop import system_theme
from llm_lite.desktop.app.settings import parse, remember, restore
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.model import SetTheme, TellSystemTheme
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.system_theme import MOST_FAILURES, SystemTheme, ask_system
from tests.children import PATIENCE


class Asked:
    """A system whose theme is what the test says."""

    def __init__(self, answer):
        self.answer, self.count = answer, 0
        self.told = threading.Event()
        self.theme = SystemTheme(self.told.set, self, period=0.001)

    def __call__(self):
        self.count += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def next(self):
        assert self.told.wait(PATIENCE)
        self.told.clear()
        return self.theme.take()


def do(action, state):
    return act(action, state, 0.0)[0]


def test_changes_are_told_once_and_only_where_they_are_followed():
    asked = Asked("dark")
    assert not asked.told.wait(0.05) and asked.count == 0
    asked.theme.watch(True)
    assert asked.next() == "dark" and asked.theme.take() is None
    asked.answer = "light"
    assert asked.next() == "light"
    asked.theme.close()


@pytest.mark.parametrize("answer", [None, OSError("no such setting"), ValueError("nonsense")])
def test_a_system_without_an_answer_is_asked_no_more(answer):
    asked = Asked(answer)
    asked.theme.watch(True)
    asked.theme._thread.join(PATIENCE)
    assert asked.count == MOST_FAILURES and asked.theme.take() is None


def test_a_question_that_hangs_is_left_behind():
    release = threading.Event()
    theme = SystemTheme(lambda: None, lambda: release.wait(PATIENCE) and None)
    theme.watch(True)
    theme.close()
    assert theme.take() is None and theme._thread.is_alive(), "it asks still"
    release.set()


def test_without_the_system_s_own_tool_there_is_no_answer(monkeypatch):
    monkeypatch.setattr(system_theme.sys, "platform", "linux")
    monkeypatch.setattr(system_theme.shutil, "which", lambda name: None)
    assert ask_system() is None


def test_the_system_s_theme_is_shown_until_another_is_chosen():
    state = AppState()
    assert (state.appearance, state.theme) == ("system", "dark")
    state = do(TellSystemTheme("light"), state)
    assert state.theme == "light"
    state = do(SetTheme("dark"), state)
    assert do(TellSystemTheme("light"), state).theme == "dark"
    assert do(SetTheme("system"), state).theme == "light"


def test_what_was_never_chosen_follows_the_system():
    """Files of before say "dark" where nothing was chosen."""
    old = {"dark": "system", "light": "light"}
    for theme, appearance in old.items():
        problems = []
        settings = parse({"theme": theme}, Settings(), problems)
        assert (settings.appearance, settings.theme, problems) == (appearance, theme, [])
    chosen = replace(AppState(), appearance="dark", theme="dark")
    kept = remember(chosen, Settings())
    assert (
        restore(
            parse({"theme": kept.theme, "appearance": kept.appearance}, Settings(), []), AppState()
        ).appearance
        == "dark"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the tool is that of Linux")
@pytest.mark.parametrize(
    ("script", "theme"),
    [
        ("echo \"'prefer-dark'\"", "dark"),
        ("echo \"'default'\"", "light"),
        ("echo 'No such schema' >&2; exit 1", None),
        ("exec sleep 30", None),
    ],
)
def test_what_the_tool_of_linux_says(tmp_path, monkeypatch, script, theme):
    """An answer, none, and a tool that hangs."""
    tool = tmp_path / "gsettings"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(system_theme, "LONGEST", 1.0)
    assert ask_system() == theme
