"""The tour's way through the layouts, the command palette and the list of shortcuts."""

from __future__ import annotations

from collections.abc import Callable

from imgui_bundle import imgui

from llm_lite.desktop.features.layouts.model import UseLayout
from llm_lite.desktop.features.layouts.state import LayoutName
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver

NAMES: tuple[LayoutName, ...] = ("read", "compare", "inspect")
SETTLING = 5  # frames in which panels take their places
WORDS = "comp"
KEY = imgui.Key


def look_at_layouts(driver: InputDriver, picture: Callable[[str], None], after: str) -> None:
    """Show the layouts, the palette and the shortcuts; a conversation must be in the chat."""
    for name in NAMES:
        driver.program.do(UseLayout(name))
        driver.frames(SETTLING)
        driver.leave()
        picture(f"14-layout-{name}-{after}")
    driver.press(KEY.mod_ctrl, KEY.k)
    driver.frames(2)
    picture(f"14-palette-{after}")
    driver.type(WORDS)
    driver.wait("what is found", lambda s: s.palette.found_for == WORDS, PATIENCE)
    driver.frames(2)
    picture(f"14-palette-found-{after}")
    driver.press(KEY.escape)
    driver.press(KEY.f1)
    driver.frames(2)
    picture(f"14-shortcuts-{after}")
    driver.press(KEY.escape)
    driver.press(KEY.f6)
    driver.press(KEY.f6)
    driver.press(KEY.tab)
    picture(f"14-keyboard-{after}")
    driver.click("chat.input")
    driver.leave()
