"""What must be true of the screen, whatever was done: each check is of what a view draws."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from msgspec import Struct

from llm_lite.core.messages import NO_CHANGES, ChatMessage, Command, Interventions
from llm_lite.desktop.features.cache.unread import unread_part
from llm_lite.desktop.features.cache.view import others
from llm_lite.desktop.features.chat.composer import steered
from llm_lite.desktop.features.program import status_bar
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.scopes import scopes
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import FEATURES
from tests.desktop.person.engine import FAST, STAMP, Served

TAG = re.compile(r"\bc(\d+)(?:w|a|b|d|lens|trace)")
MOST_TAGS = 1_000_000
SLOTS = tuple(slot for feature in FEATURES for slot in feature.asks)


def stamps(value, path="") -> Iterator[tuple[str, int, bool]]:
    """Where a conversation's stamp stands, whose it is, and whether it is a word."""
    if value is None or isinstance(value, bool | int):
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


def of_conversation(state: AppState) -> Iterator[tuple[str, object]]:
    """What the state says of the conversation in front: all that the next one does not have."""
    for name, scope in scopes(AppState).items():
        value = getattr(state, name)
        if scope in ("conversation", "reading") and name != "asks":
            yield name, value
        elif scope == "divided":
            after = value.of_next_conversation()
            for part in value.__struct_fields__:
                own = getattr(value, part)
                if own is not getattr(after, part):
                    yield f"{name}.{part}", own


def state_is_in_front(
    state: AppState, own: int, words: set[int], served: Mapping[int, Served]
) -> None:
    """Nothing in the state is of another conversation; a fork has what its parent said, and what
    was found about that, but nothing that was asked about more."""
    for name, value in (*of_conversation(state), ("positions", state.positions)):
        for path, tag, _ in stamps(value, name):
            assert tag in words, f"{path} is of conversation {tag}, and {own} is in front"
    for slot in SLOTS:
        if slot.subject is None:
            answer_is_of_shown_tokens(slot, state, served)
            continue
        for path, tag, is_word in stamps(drawn(slot, state), slot.name):
            allowed = words if is_word else {own}
            assert tag in allowed, f"{path} is of conversation {tag}, and {own} is in front"


def answer_is_of_shown_tokens(slot: Slot, state: AppState, served: Mapping[int, Served]) -> None:
    """What is drawn of a slot was found about the tokens that views show."""
    known = slot.answered(state)
    if known is None or drawn(slot, state) is None:
        return
    assert id(known.question) in served, f"{slot.name}: nobody was asked {known}"
    of, extent = served[id(known.question)], slot.extent(known.question)
    length = extent if isinstance(extent, int) else known.stamp.length
    found, shown = of.texts[:length], state.positions[:length]
    assert found == shown, f"{slot.name} is of {found[-12:]}, {shown[-12:]} is in front"


def drawn(slot: Slot, state: AppState) -> object:
    """What a view draws of a slot."""
    answer, problem = slot.answer(state), slot.problem(state)
    return (answer, problem) if answer is not None or problem else None


def begins(text: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether a text begins with these words. An answer that a person edited may be cut into
    other tokens when it is read again."""
    return joined(text).startswith(joined(words))


def joined(words: Sequence[str]) -> str:
    return "".join(words).replace(" ", "")


def answers_are_of_what_is_in_front(
    state: AppState, served: Mapping[int, Served], expected: Sequence[str], mode: str
) -> None:
    """Every answer that is drawn was given of the first tokens of the conversation as it is told
    now, by the weights that run and under the interventions that hold."""
    for slot in SLOTS:
        known = slot.answered(state)
        if known is None or slot.subject is not None or drawn(slot, state) is None:
            continue
        assert id(known.question) in served, f"{slot.name}: nobody was asked {known}"
        of = served[id(known.question)]
        extent = slot.extent(known.question)
        whole = extent in ("all", "at-rest")
        length = extent if isinstance(extent, int) else known.stamp.length
        assert begins(expected, of.texts[:length]), (
            f"{known.question} is of {of.texts[:length][-12:]}, "
            f"{expected[max(length - 12, 0) : length]} is in front: {extent}, {known.stamp.runs}"
        )
        assert not whole or len(of.texts) == state.context_used, f"{slot.name} is of more or less"
        assert of.mode == mode, f"{slot.name} is of {of.mode}, and {mode} runs"
        changes = state.steering.interventions
        stamped = NO_CHANGES if slot.recorded else changes
        assert known.stamp.interventions == stamped, f"{slot.name} is stamped by others"
        assert slot.recorded or of.changes == changes, f"{slot.name} is of other interventions"


def text_is_in_front(state: AppState, expected: Sequence[str], maps: Sequence[str]) -> None:
    """What views show of the cache is the beginning of the conversation as it is told now."""
    assert state.context_used <= len(state.positions), "more is used than the conversation has"
    for shown, words in (("the cache", state.positions), ("maps", maps)):
        assert begins(expected, words), f"{shown}: {words}, and {expected} is in front"


def what_is_unread_is_told(
    state: AppState, expected: Sequence[str], cached: Sequence[str], rows: range
) -> None:
    """Every view says the same of what the cache lacks, and that is true."""
    maps = SimpleNamespace(
        problem="", layers=(None,), length=len(cached), rows=rows, ring_rows=MOST_TAGS
    )
    held = next((n for n in range(len(cached), 0, -1) if begins(expected, cached[:n])), 0)
    told = unread_part(state, cast(Any, maps))
    behind = joined(expected)[len(joined(cached[:held])) :].removesuffix("<end>")
    if told is None:
        assert not behind, f"the cache lacks {behind}, and no view says so"
        assert not rows.start, f"queries before {rows.start} are gone, and no view says so"
    else:
        assert told.held <= held, f"{told.held} tokens are told, the cache has {held} of them"
        assert told.queries in (0, rows.start), f"{told}, and queries are kept from {rows.start} on"
        assert not (behind and told.queries), f"the cache lacks {behind}, and {told} is told"


def maps_are_in_front(shown: tuple[str, ...], words: set[int]) -> None:
    for path, tag, _ in stamps(shown, "maps"):
        assert tag in words, f"{path} are of conversation {tag}, and {words} is in front"


def meter(state: AppState) -> int | None:
    """What the status bar says of the context; None: that it is not known."""
    shown = next(value for name, value, _ in status_bar._measures(state) if name == "context")
    used = shown.partition(" / ")[0].replace(",", "")
    return int(used) if used.isdigit() else None


def no_model_has_no_cache(state: AppState) -> None:
    if state.model is None:
        assert not state.cached.length, f"no model, and {state.cached.length} tokens in its cache"


def meter_is_in_front(state: AppState, counted: int) -> None:
    assert meter(state) == counted, f"the context meter: {meter(state)}, not {counted}"


def interventions_are_told(state: AppState, changes: Interventions) -> None:
    """In Steer, under the input, and nowhere else."""
    assert state.steering.interventions == changes, "interventions are another conversation's"
    assert bool(steered(state)) == bool(changes), "the line under the input"


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
        if not given.tokens and given.role == "assistant":  # its text may be cut otherwise by now
            assert begins(words, texts), f"message {owner} is read as {texts}, not {words}"
        else:
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
