"""A defect of the program itself: a line in the log, a toast, and everything else goes on."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.messages import Command
from desktop.notices import add_log, notify
from desktop.state import AppState, LogLine


@dataclass(frozen=True, slots=True)
class ReportDefect:
    """`part` of the program raised what it never should; `text` is the traceback."""

    part: str
    text: str
    time: float  # since the epoch


def defect_of(part: str, error: Exception) -> ReportDefect:
    return ReportDefect(part, "".join(traceback.format_exception(error)), time.time())


def report(
    action: ReportDefect, state: AppState, now: float
) -> tuple[AppState, tuple[Command, ...]]:
    words = f"A defect of the program, please report it: {action.part}."
    state = add_log(state, LogLine("error", f"{words}\n{action.text}", action.time))
    return notify(state, "error", f"{words} The log has the details.", now), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Any]] = {ReportDefect: report}
