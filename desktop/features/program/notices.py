"""Toasts, which show for a while, lines of the log, and defects of the program, which are both."""

from __future__ import annotations

import time
import traceback

from llm_lite.core.messages import Level
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import LOG_LINES, NOTICES, AppState, LogLine, Notice
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.incoming import fit_line, fit_lines
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import sentence

NOTICE_SECONDS: dict[Level, float] = {"info": 5.0, "warning": 9.0, "error": 15.0}
DEFECT = "A defect of the program"  # how its line in the log begins


def notify(state: AppState, level: Level, text: str, now: float, undo: bool = False) -> AppState:
    """Return the state with one more toast; the same sentence again only lasts longer."""
    text, until = sentence(translated(fit_line(text))), now + NOTICE_SECONDS[level]
    others = tuple(n for n in state.notices if n.text != text)
    notice = Notice(state.next_notice, level, text, until, undo)
    return replace(state, notices=(*others, notice)[-NOTICES:], next_notice=state.next_notice + 1)


def add_log(state: AppState, line: LogLine) -> AppState:
    line = replace(line, text=fit_lines(line.text))
    return replace(state, log=(*state.log, line)[-LOG_LINES:])


def expire(state: AppState, now: float) -> AppState:
    """Return the state without the toasts whose time is over."""
    if all(notice.until > now for notice in state.notices):
        return state
    return replace(state, notices=tuple(n for n in state.notices if n.until > now))


class ReportDefect(Action, frozen=True):
    """`part` of the program raised what it never should; `text` is the traceback."""

    part: str
    text: str
    time: float  # since the epoch


def defect_of(part: str, error: Exception) -> ReportDefect:
    return ReportDefect(part, "".join(traceback.format_exception(error)), time.time())


def report(action: ReportDefect, state: AppState, now: float) -> Result:
    words = f"{DEFECT}, please report it: {action.part}."  # English, for those who read the report
    state = add_log(state, LogLine("error", f"{words}\n{action.text}", action.time))
    shown = tr("A defect of the program, please report it: {part}. The log has the details.")
    return notify(state, "error", shown.format(part=action.part), now), ()


def defects(state: AppState) -> tuple[str, ...]:
    """Return the lines of the log that tell of defects."""
    return tuple(line.text for line in state.log if line.text.startswith(DEFECT))
