"""The tour's way through the window: layouts, command palette, shortcuts, and Korean at both ends
of the range of text sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from imgui_bundle import imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.desktop.features.chat.model import SetSampling
from llm_lite.desktop.features.layouts.model import UseLayout
from llm_lite.desktop.features.layouts.state import LayoutName
from llm_lite.desktop.features.program.model import SetFontSize, SetLanguage, SetTheme
from tools.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
KOREAN = "Please repeat this Korean greeting exactly: 안녕하세요! 하늘이 파랗습니다."
EXACT = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=48)
LIMIT = 900.0  # seconds
LAYOUTS: tuple[LayoutName, ...] = ("read", "compare", "inspect")
SETTLING = 5  # frames in which panels take their places
PALETTE_WORDS = "comp"
KEY = imgui.Key


def look_at_layouts(driver: InputDriver, picture: Callable[[str], None], after: str) -> None:
    """Show the layouts, the palette and the shortcuts; a conversation must be in the chat."""
    for name in LAYOUTS:
        driver.program.do(UseLayout(name))
        driver.frames(SETTLING)
        driver.leave()
        picture(f"14-layout-{name}-{after}")
    driver.press(KEY.mod_ctrl, KEY.k)
    driver.frames(2)
    picture(f"14-palette-{after}")
    driver.type(PALETTE_WORDS)
    driver.wait("what is found", lambda s: s.palette.found_for == PALETTE_WORDS, PATIENCE)
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


@contextmanager
def _in_korean(driver: InputDriver) -> Iterator[None]:
    before = driver.state.language
    driver.program.do(SetLanguage("ko"))
    driver.frames(3)
    yield
    driver.program.do(SetLanguage(before))


def ask_in_korean(driver: InputDriver, picture: Picture) -> None:
    """Ask at 13 pixels, with the keyboard alone; small models know no Korean but can repeat it."""
    from imgui_bundle import imgui

    driver.program.do(SetFontSize(13))
    driver.program.do(SetSampling(EXACT))
    with _in_korean(driver):
        driver.press(imgui.Key.mod_ctrl, imgui.Key.l)
        driver.type(KOREAN)
        driver.press(imgui.Key.enter)
        driver.wait("the Korean answer", lambda s: not s.busy, LIMIT)
        driver.leave()
        picture("08-korean-13px-light")
        driver.program.do(SetTheme("dark"))
        picture("09-korean-13px-dark")


def look_at_large_korean(driver: InputDriver, picture: Picture) -> None:
    """Take the same pictures on a dense screen; the light theme stays."""
    with _in_korean(driver):
        picture("10-korean-26px-dark")
        driver.program.do(SetTheme("light"))
        picture("11-korean-26px-light")
