"""A toy setting of the program that is on or off."""

from __future__ import annotations

from tests.recipes.recipe import Copy, Edits, passed

SETTING = "toy"
EDITS: Edits = {
    "desktop/features/program/switches.py": {
        '"""The state and the settings have these fields."""': """
    toy: bool = switch(True, "A toy", "It does nothing.")
""",
    },
    "tests/desktop/app/test_toy.py": '''"""The toy setting."""

from llm_lite.desktop.features.program.model import SetSwitch
from llm_lite.desktop.features.program.state import AppState


def test_it_is_turned_off_in_the_panel(headless):
    one = headless(AppState())
    assert one.state.toy
    one.driver.click("rail.settings")
    one.driver.click("settings.toy")
    assert one.did(SetSwitch) == [SetSwitch("toy", False)]
    assert not one.state.toy
''',
}


def works(copy: Copy) -> bool:
    """It is turned in the panel, and kept for the next start as all of its kind are."""
    kept = "test_a_switch_is_turned_and_kept_for_the_next_start[toy]"
    tests = ("tests/desktop/app/test_toy.py", f"tests/desktop/program/test_switches.py::{kept}")
    return passed(copy.tests(*tests))
