"""The table of commands: keys that are its own, hints that speak of them, and everything runs."""

import ast
import random
import re

import pytest
from imgui_bundle import imgui

from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.commands.keys import (
    InputKeys,
    chord,
    keys_of,
    parts,
    run,
    with_keys,
)
from llm_lite.desktop.features.commands.table import BY_NAME, COMMANDS, GLOBAL
from llm_lite.desktop.features.program.act import ACTIONS
from llm_lite.desktop.features.program.action import HostAction
from llm_lite.desktop.features.program.model import ChooseFile
from tests.desktop.program.test_any_state import random_state
from tests.paths import program_files

TYPED = re.compile(r"\b(?:Ctrl|Cmd|Shift|Alt)\s?\+|\((?:Esc|Enter|F\d{1,2})\)")
MODIFIERS = {"Ctrl": imgui.Key.mod_ctrl, "Shift": imgui.Key.mod_shift, "Alt": imgui.Key.mod_alt}


def test_no_name_and_no_chord_twice():
    assert len(BY_NAME) == len(COMMANDS)
    for place in {command.place for command in COMMANDS}:
        chords = [chord(key) for c in COMMANDS if c.place == place for key in c.keys]
        assert len(chords) == len(set(chords)), place
    everywhere = {chord(key) for command in GLOBAL for key in command.keys}
    placed = {chord(key) for command in COMMANDS if command.place for key in command.keys}
    assert not everywhere & placed


def test_each_row_runs_or_teaches():
    for command in COMMANDS:
        assert (command.run is None) == bool(command.place), command.name
        assert command.title and (command.keys or command.run)


def test_no_chord_is_typed_elsewhere():
    """Only docstrings may speak of keys; hints ask the table."""
    found = []
    for path in program_files():
        place = path.as_posix()
        if (
            "/desktop/" not in place
            or "/desktop/features/commands/" in place
            or "/input_method/" in place
        ):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        spoken = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in spoken and TYPED.search(node.value):
                    found.append((place, node.value))
            elif isinstance(node, ast.Attribute) and node.attr in ("mod_ctrl", "mod_alt"):
                found.append((place, node.attr))
    assert found == []


@pytest.mark.parametrize(
    ("written", "keys"),
    [("Ctrl++", ("Ctrl", "+")), ("Ctrl+Shift+F", ("Ctrl", "Shift", "F")), ("F1", ("F1",)),
     ("Ctrl+,", ("Ctrl", ",")), ("Shift+F6", ("Shift", "F6")), ("+", ("+",)),
     ("Ctrl+Keypad+", ("Ctrl", "Keypad+"))],
)  # fmt: skip
def test_a_chord_is_taken_apart(written, keys):
    assert parts(written) == keys
    assert chord(written) & ~int(imgui.Key.mod_mask_)


def test_hints_speak_of_the_keys():
    assert with_keys("New chat", "new_chat") == "New chat (Ctrl+N)"
    assert with_keys("Memory", "memory") == "Memory"
    assert keys_of("redo") == "Ctrl+Shift+Z"


def test_everything_runs_in_any_state(headless):
    """What is done is an action that the program knows, or nothing."""
    one, rng = headless(), random.Random(1)
    for _ in range(12):
        state = random_state(rng)
        for command in COMMANDS:
            for action in run(command, state, one.ui):
                assert type(action) in ACTIONS or isinstance(action, HostAction), command.name
    one.ui.requests.clear()


def press(one, written):
    *modifiers, _ = parts(written)
    key = imgui.Key(chord(written) & ~int(imgui.Key.mod_mask_))
    one.driver.press(*(MODIFIERS[name] for name in modifiers), key)


@pytest.mark.parametrize("name", [command.name for command in GLOBAL])
def test_its_keys_run_it(headless, monkeypatch, name):
    """Each chord of each row, through Dear ImGui's input queue, while the input has the focus,
    where they work there."""
    from llm_lite.desktop.features.commands import keys

    one, ran = headless(), []
    monkeypatch.setattr(keys, "run", lambda command, *_: ran.append(command.name) or [])
    if not BY_NAME[name].while_typing:
        press(one, "F6")
        one.driver.frames(2)
        press(one, "F6")
        one.ui.local(InputKeys).field.focus = False
        imgui.set_window_focus("##status")
        one.driver.frames(2)
    else:
        one.driver.click("chat.input")
    ran.clear()
    for written in BY_NAME[name].keys:
        press(one, written)
    assert ran == [name] * len(BY_NAME[name].keys)


def test_what_cannot_be_done_is_not(headless):
    one = headless()
    one.driver.press(imgui.Key.mod_ctrl, imgui.Key.r)  # there is no answer
    assert one.done == []
    one.driver.press(imgui.Key.mod_ctrl, imgui.Key.n)
    one.driver.press(imgui.Key.mod_ctrl, imgui.Key.o)
    assert one.did(NewChat) and one.did(ChooseFile)


def test_the_list_of_shortcuts_is_the_table_and_can_be_searched(headless):
    from llm_lite.desktop.features.palette.view import matching_shortcuts

    assert {c.name for c in matching_shortcuts("")} == {c.name for c in COMMANDS if c.keys}
    assert [c.name for c in matching_shortcuts("ctrl+shift+f")] == ["search"]
    assert "new_chat" in [c.name for c in matching_shortcuts("new")]
    assert matching_shortcuts("nothing at all like this") == []
    one = headless()
    one.driver.press(imgui.Key.f1)
    assert one.driver.shows("shortcuts") and one.driver.shows("shortcuts.new_chat")
    one.driver.type("sidebar")
    assert one.driver.shows("shortcuts.list") and not one.driver.shows("shortcuts.new_chat")
    one.driver.press(imgui.Key.escape)
    one.driver.frames(2)
    assert not one.driver.shows("shortcuts")
