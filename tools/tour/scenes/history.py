"""The tour's way through the conversations that are kept: list, search, rename, versions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from imgui_bundle import imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.features.history.model import (
    BeginRename,
    OpenConversation,
    Reveal,
    SearchHistory,
)
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.tokens import has_versions
from tools.tour.input_driver import PATIENCE, InputDriver

KEEP_LIMIT = 5.0  # seconds; a file is there in one
QUESTION = "What would a sailor a thousand years ago have said about it?"
Picture = Callable[[str], None]
DAY = 86400.0
MODEL = "SmolLM2-135M-Instruct"
# Days ago, question, answer, whether it is pinned.
TALKS = (
    (9.0, "What is a key and value cache?", "It keeps what each layer needs of past tokens.", True),
    (0.1, "How many moons has Jupiter?", "Ninety-five are known; four are large.", False),
    (
        1.0,
        "A haiku about rain",
        "Rain on the tin roof / a light that scatters slowly / tea.",
        False,
    ),
    (1.1, "Explain int4 to a friend", "Sixteen steps for each weight, and a scale.", False),
    (3.0, "Names for a small sailing boat", "Petrel, Tern, Dabchick, Second Wind.", False),
    (5.0, "비 오는 날의 산책", "우산 위로 떨어지는 빗소리를 들으며 걷습니다.", False),
    (40.0, "Why do leaves turn red?", "They make anthocyanins, which scatter no green.", False),
    (75.0, "Bread without kneading", "Time does what hands would do.", False),
    (400.0, "The first program that I wrote", "Was it a greeting?", False),
)
WORDS = "scatter"


def fill(path: Path) -> None:
    """Store example conversations of several days and months."""
    from llm_lite.core import history as kept  # after the first frame

    run = kept.AnswerRun(kept.ModelIdentity(MODEL), "as-stored", sampling=SamplingOptions(seed=1))
    history = kept.History(path)
    now = time.time()
    for days, question, answer, pinned in reversed(TALKS):
        when = now - days * DAY
        asked = kept.StoredMessage(1, 1, None, "user", question, created=when, selected=2)
        answered = kept.StoredMessage(
            2, 1, 1, "assistant", answer, created=when, run=run, end=kept.AnswerEnd("end")
        )
        about = kept.ConversationSummary(
            1, question, "message", when, when, pinned=pinned, selected=1
        )
        history.add(kept.StoredConversation(about, (asked, answered)))
    history.close()


def look_at_history(driver: InputDriver, picture: Picture, name: str, after: str = "") -> None:
    """Show the versions of a question in the chat, its map, the list and the search."""
    driver.wait("the list", lambda s: len(s.history.rows) > len(TALKS), PATIENCE)
    _show_versions(driver)
    picture(f"{name}-versions{after}")
    _look_at_the_tree(driver, picture, name, after)
    row = driver.state.history.rows[3].id
    driver.point(f"history.row.{row}")
    driver.click(f"history.row.{row}.more")
    picture(f"{name}{after}")
    driver.click("history.menu.rename")
    driver.leave()
    picture(f"{name}-rename{after}")
    driver.program.do(BeginRename(None))
    driver.program.do(SearchHistory(WORDS))
    driver.wait("the search", lambda s: s.history.found_for == WORDS, PATIENCE)
    driver.point("history.found.0")
    picture(f"{name}-search{after}")
    driver.program.do(SearchHistory(""))
    driver.leave()
    look_at_resume(driver, picture, after)


def _look_at_the_tree(driver: InputDriver, picture: Picture, name: str, after: str) -> None:
    """Show the conversation's map, and the menu that forks from a word of an answer."""
    driver.click("chat.map")
    picture(f"{name}-map{after}")
    driver.press(imgui.Key.escape)
    index = next((i for i, m in enumerate(driver.state.messages) if m.role == "assistant"), None)
    if index is None:
        return
    driver.program.do(Reveal(driver.state.messages[index].id))
    driver.frames(6)
    x0, y0, _, _ = driver.rect(f"message.{index}")
    line = driver.program.interface.ui.theme.line
    driver.point_at(x0 + 2 * line, y0 + 2 * line)
    driver.press_button(1)
    picture(f"{name}-fork{after}")
    driver.press(imgui.Key.escape)
    driver.leave()


def open_first(driver: InputDriver) -> None:
    """Bring back the conversation in which a question was edited."""
    rows = driver.state.history.rows
    for row in [row for row in rows if not row.pinned]:
        driver.program.do(OpenConversation(row.id))
        driver.wait("the conversation", lambda s: s.history.opening is None, PATIENCE)
        if _edited(driver.state) is not None:
            return


def _edited(state: AppState) -> int | None:
    asked = (i for i, m in enumerate(state.messages) if m.role == "user")
    edited = (i for i in asked if has_versions(state, i))
    return next(edited, None)


def _show_versions(driver: InputDriver) -> None:
    index = _edited(driver.state)
    if index is not None:
        driver.program.do(Reveal(driver.state.messages[index].id))
        driver.frames(4)
        driver.point(f"message.{index}")


def look_at_resume(driver: InputDriver, picture: Picture, after: str = "") -> None:
    """Add a turn to the first conversation in the list, then open it again and resume its cache."""
    row = next(row for row in driver.state.history.rows if not row.pinned)
    driver.program.do(OpenConversation(row.id))
    driver.wait("the conversation", lambda s: s.history.opening is None, PATIENCE)
    driver.program.do(Send(QUESTION))
    driver.wait("an answer", lambda s: not s.busy, PATIENCE)
    driver.frames(2)
    driver.program.do(NewChat())
    end = time.monotonic() + KEEP_LIMIT
    driver.wait("the file", lambda s: _kept(s, row.id) or time.monotonic() > end, PATIENCE)
    if not _kept(driver.state, row.id):  # a tiny context leaves nothing to keep
        return
    _read_another(driver, row.id)  # what is still in the cache needs no file
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


def _read_another(driver: InputDriver, conversation: int) -> None:
    """Bring another conversation of the list into the cache."""
    other = next(row for row in driver.state.history.rows if row.id != conversation)
    driver.program.do(OpenConversation(other.id))
    driver.wait("another", lambda s: s.history.open == other.id, PATIENCE)
    driver.program.do(ReadAgain())
    driver.wait("its tokens", lambda s: s.reading is None and bool(s.owners), PATIENCE)


def _kept(state: AppState, conversation: int) -> bool:
    return any(cache.conversation == conversation for cache in state.resume.kept)
