"""Toasts, which show for a while, and lines of the log."""

from __future__ import annotations

from llm_lite.core.messages import Level
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import LOG_LINES, NOTICES, AppState, LogLine, Notice
from llm_lite.desktop.language.core_words import said
from llm_lite.desktop.language.incoming import fit_line, fit_lines
from llm_lite.desktop.language.units import sentence

NOTICE_SECONDS: dict[Level, float] = {"info": 5.0, "warning": 9.0, "error": 15.0}


def notify(state: AppState, level: Level, text: str, now: float, undo: bool = False) -> AppState:
    """Return the state with one more toast; the same sentence again only lasts longer."""
    text, until = sentence(said(fit_line(text))), now + NOTICE_SECONDS[level]
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
