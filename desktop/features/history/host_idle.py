"""What is done when nobody wants anything: a cache is kept, a title made."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.resume.model import AskTitle, KeepNow, ResumeAction, idle

KEEP_SECONDS = 15.0  # without a word
TITLE_SECONDS = 3.0
TRIES = 3  # a title that was interrupted is asked for again


class IdleWork(Struct):
    """Looked at again and again, with a time in seconds; what is due then is done once."""

    _messages: tuple[Message, ...] = ()
    _since: float = 0.0  # when the messages changed, or the engine had something to do
    _kept: bool = True  # these messages, or it was tried
    _tries: int = 0
    _open: int | None = None

    def look(self, state: AppState, now: float) -> list[ResumeAction]:
        if state.messages is not self._messages or not idle(state):
            self._messages, self._since, self._kept = state.messages, now, False
            return []
        if state.history.open != self._open:
            self._open, self._tries = state.history.open, 0
        return [*self._title(state, now), *self._keep(state, now)]

    def _title(self, state: AppState, now: float) -> list[ResumeAction]:
        number, first = state.history.open, _is_first(state.messages)
        if number is None or not first or not state.history.titles or self._tries >= TRIES:
            return []
        if number == state.history.title_asked:
            return []
        if now - self._since < TITLE_SECONDS * (1 + self._tries):
            return []
        self._tries += 1
        return [AskTitle(number)]

    def _keep(self, state: AppState, now: float) -> list[ResumeAction]:
        if self._kept or now - self._since < KEEP_SECONDS:
            return []
        self._kept = True
        return [KeepNow()] if state.resume.kept_tokens != state.context_used else []


def _is_first(messages: tuple[Message, ...]) -> bool:
    """Whether one question was answered, and nothing more."""
    return len(messages) == 2 and messages[1].role == "assistant" and bool(messages[1].text)
