"""The toasts: sentences that show for a while."""

from __future__ import annotations

from dataclasses import replace

from core.messages import Level
from desktop.state import NOTICES, AppState, Notice
from desktop.units import sentence

NOTICE_SECONDS: dict[Level, float] = {"info": 5.0, "warning": 9.0, "error": 15.0}


def notify(state: AppState, level: Level, text: str, now: float, undo: bool = False) -> AppState:
    """The state with one more toast; the same sentence again only lasts longer."""
    text, until = sentence(text), now + NOTICE_SECONDS[level]
    others = tuple(n for n in state.notices if n.text != text)
    notice = Notice(state.next_notice, level, text, until, undo)
    return replace(state, notices=(*others, notice)[-NOTICES:], next_notice=state.next_notice + 1)


def expire(state: AppState, now: float) -> AppState:
    """The state without the toasts whose time is over."""
    if all(notice.until > now for notice in state.notices):
        return state
    return replace(state, notices=tuple(n for n in state.notices if n.until > now))
