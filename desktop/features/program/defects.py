"""A defect of the program itself: a line in the log, a toast, and everything else goes on."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Command
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import add_log, notify
from llm_lite.desktop.features.program.state import AppState, LogLine
from llm_lite.desktop.language.translate import tr

MARK = "A defect of the program"  # how its line in the log begins


class ReportDefect(Action, frozen=True):
    """`part` of the program raised what it never should; `text` is the traceback."""

    part: str
    text: str
    time: float  # since the epoch


def defect_of(part: str, error: Exception) -> ReportDefect:
    return ReportDefect(part, "".join(traceback.format_exception(error)), time.time())


def report(
    action: ReportDefect, state: AppState, now: float
) -> tuple[AppState, tuple[Command, ...]]:
    words = f"{MARK}, please report it: {action.part}."  # English, for those who read the report
    state = add_log(state, LogLine("error", f"{words}\n{action.text}", action.time))
    told = tr("A defect of the program, please report it: {part}. The log has the details.")
    return notify(state, "error", told.format(part=action.part), now), ()


def defects(state: AppState) -> tuple[str, ...]:
    """Return the lines of the log that tell of defects."""
    return tuple(line.text for line in state.log if line.text.startswith(MARK))


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Any]] = {ReportDefect: report}
