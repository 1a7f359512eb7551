"""What must be true of the screen, whatever was done: each check is of what a view draws."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from llm_lite.core.messages import ChatMessage, Command
from llm_lite.desktop.features.cache.view import others
from llm_lite.desktop.features.chat.composer import steered
from llm_lite.desktop.features.program import status_bar
from llm_lite.desktop.features.program.scopes import scopes
from llm_lite.desktop.features.program.state import AppState
from tests.desktop.person.engine import FAST, STAMP

TAG = re.compile(r"\bc(\d+)(?:w|a|b|d|lens|trace)")
MOST_TAGS = 1_000_000
# What is of other conversations on purpose, and says itself of which.
NAMES_ITS_OWN = {
    "history.rows",
    "history.found",
    "undoing",
    "new_draft",
    "notices",
    "log",
    "resume.kept",
    "gains_told",
}
# What holds a conversation's own words: those of a fork are its parent's too.
OF_WORDS = {
    "tree",
    "positions",
    "cache.prompt",
    "counted.messages",
    "draft",
    "aside",
    "files",
    "running.forced",
}


def stamps(value, path="") -> Iterator[tuple[str, int, bool]]:
    """Where a conversation's stamp stands, whose it is, and whether it is a word."""
    if path in NAMES_ITS_OWN or value is None or isinstance(value, bool | int):
        return
    if isinstance(value, Command):
        return  # nothing of it is drawn
    if isinstance(value, str):
        for tag in TAG.findall(value):
            yield path, int(tag), True
    elif isinstance(value, float):
        if STAMP - MOST_TAGS < value <= STAMP:
            yield path, int(STAMP - value), False
        elif FAST <= value < FAST + MOST_TAGS:
            yield path, int(value - FAST), False
    elif isinstance(value, np.ndarray):
        for one in np.unique(value).tolist():
            yield from stamps(float(one), path)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            inner = f"{path}.{name}" if path.count(".") < 2 else path
            yield from stamps(getattr(value, name), inner)
    elif isinstance(value, dict):
        for one in value.items():
            yield from stamps(one, path)
    elif isinstance(value, tuple | list | frozenset | set):
        for one in value:
            yield from stamps(one, path)


def state_is_in_front(state: AppState, own: int, words: set[int]) -> None:
    """Nothing in the state is of another conversation, unless it says so."""
    for name in scopes(AppState):
        for path, tag, is_word in stamps(getattr(state, name), name):
            of_words = any(path == one or path.startswith(f"{one}.") for one in OF_WORDS)
            allowed = words if of_words else {own}
            assert tag in allowed, f"{path} is of conversation {tag}, and {own} is in front"
            del is_word


def maps_are_in_front(shown: tuple[str, ...], words: set[int]) -> None:
    for path, tag, _ in stamps(shown, "maps"):
        assert tag in words, f"{path} are of conversation {tag}, and {words} is in front"


def meter(state: AppState) -> int | None:
    """What the status bar says of the context; None: that it is not known."""
    shown = next(value for name, value, _ in status_bar._measures(state) if name == "context")
    used = shown.partition(" / ")[0].replace(",", "")
    return int(used) if used.isdigit() else None


def meter_is_in_front(state: AppState, counted: int) -> None:
    assert meter(state) == counted, f"the context meter: {meter(state)}, not {counted}"


def gains_are_told(state: AppState, gains: object) -> None:
    """In Steer, under the input, and nowhere else."""
    assert state.steering.gains == gains, "gains are another conversation's"
    assert bool(steered(state)) == (gains is not None), "the line under the input"


def cache_is_told(state: AppState, held: int) -> None:
    """What the cache view says: of this conversation, and of others."""
    told = state.context_used, others(state)
    assert sum(told) == held, f"the cache holds {held} tokens, and {told} are told"


def told_is_shown(state: AppState, told: Sequence[ChatMessage], spell: Sequence[str]) -> None:
    """What the engine is given of an answer is all that stands there."""
    lead = len(told) - len(state.messages)
    for message, given in zip(state.messages, told[lead:], strict=True):
        if given.tokens:
            said = "".join(spell[number] for number in given.tokens)
            assert said == message.whole, f"the engine is told {said!r}, {message.whole!r} is shown"


def read_is_shown(state: AppState, told: Sequence[ChatMessage], spell: Sequence[str]) -> None:
    """What of the cache is shown beside messages are their words, from the first on."""
    lead, read = len(told) - len(state.messages), dict[int, list[str]]()
    for owner, text in zip(state.owners, state.positions, strict=False):
        if owner >= 0:
            read.setdefault(owner, []).append(text)
    for owner, texts in read.items():
        given = told[lead + owner]
        words = [spell[number] for number in given.tokens]
        words = words or [f"{word} " for word in given.content.split()]
        if not state.messages[owner].untokenized:
            assert texts == words[: len(texts)], f"message {owner} is read as {texts}, not {words}"


def performance_is_in_front(state: AppState) -> None:
    """Its figures are those of the newest answer that was measured."""
    measured = [m.stats for m in state.messages if m.stats is not None and m.stats.new_tokens]
    stats = state.last_stats
    assert stats is None or (measured and stats == measured[-1]), "figures of another answer"


def setting_is_shown(state: AppState) -> None:
    """The weight mode that is chosen is the one that runs, once no change is under way."""
    if state.load is None and state.executor is not None and not state.elsewhere:
        chosen, used = state.options.mode, state.executor.mode
        assert chosen == used, f"weight mode {chosen} is chosen, {used} runs"
