"""The page of an encoder-decoder in both themes: a source and its target, where a token of it looks
in the source, the maps of cross-attention, and the other hypotheses of a beam."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from llm_lite.core.messages import AttentionPart
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.model import DismissNotice, SetAttention, SetTheme
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.translator.model import ChooseBeams, WriteTarget
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver

SOURCE = "The house is wonderful."
BEAMS = 4


def look_at_targets(
    driver: InputDriver, picture: Callable[[str], None], complete: Callable[[], None]
) -> None:
    """From the empty page; `complete` draws until the maps are there."""
    for notice in driver.state.notices:
        driver.program.do(DismissNotice(notice.id))
    driver.leave()
    picture("18-target-begin")
    driver.program.do(ChooseBeams(BEAMS))
    driver.program.do(WriteTarget(SOURCE))
    driver.wait("the target", _is_written, PATIENCE)
    for theme in ("dark", "light"):
        driver.program.do(SetTheme(theme))
        _point(driver, picture, "target", f"18-target-looks-{theme}")
        _point(driver, picture, "source", f"18-target-looked-at-{theme}")
        for part in get_args(AttentionPart):
            driver.program.do(SetAttention(driver.state.attention.showing(part)))
            driver.leave()
            complete()
            picture(f"18-target-{part}-{theme}")
    driver.program.do(SetAttention(replace(driver.state.attention, row=None)))


def _point(driver: InputDriver, picture: Callable[[str], None], side: str, name: str) -> None:
    """Show the attention of a token in the target or in the source."""
    driver.point("tab.attention")
    driver.point(f"translating.{side}.1")
    driver.wait("where it looks", lambda s: s.attention_rows is not None, PATIENCE)
    driver.frames(3)
    picture(name)
    driver.leave()


def _is_written(state: AppState) -> bool:
    return state.translating.result is not None and not state.busy
