"""The tour leaves a conversation and comes back: what was kept of it is offered and taken."""

from __future__ import annotations

import time
from collections.abc import Callable

from llm_lite.desktop.actions.chatting import NewChat, Send
from llm_lite.desktop.actions.history import OpenConversation
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver

Picture = Callable[[str], None]
KEEP_LIMIT = 5.0  # seconds; a file is there in one
QUESTION = "What would a sailor a thousand years ago have said about it?"


def look_at_resume(driver: InputDriver, picture: Picture, after: str = "") -> None:
    """A conversation in the list, with one more turn; then as it was found again."""
    row = next(row for row in driver.state.history.rows if not row.pinned)
    driver.program.do(OpenConversation(row.id))
    driver.wait("the conversation", lambda s: s.history.opening is None, PATIENCE)
    driver.program.do(Send(QUESTION))
    driver.wait("an answer", lambda s: not s.busy, PATIENCE)
    driver.frames(2)
    driver.program.do(NewChat())
    end = time.monotonic() + KEEP_LIMIT
    driver.wait("the file", lambda s: _kept(s, row.id) or time.monotonic() > end, PATIENCE)
    if not _kept(driver.state, row.id):  # a tiny context, of which there is nothing to keep
        return
    driver.program.do(OpenConversation(row.id))
    driver.wait("the offer", lambda s: driver.shows("chat.resume"), PATIENCE)
    driver.point("chat.resume")
    picture(f"07-resume{after}")
    driver.click("chat.resume")
    driver.wait("the cache", lambda s: bool(s.owners), PATIENCE)
    driver.leave()
    picture(f"07-resumed{after}")
    driver.click("rail.memory")
    driver.leave()
    picture(f"07-kept{after}")
    driver.click("memory.close")


def _kept(state: AppState, conversation: int) -> bool:
    return any(cache.conversation == conversation for cache in state.resume.kept)
