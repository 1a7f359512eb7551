"""Text that a person selects in the conversation: what is selected, and what of it is copied.

A place is a message, which of its two texts, and a number of characters in what is shown of that.
So a selection stays where it is while the conversation is scrolled, laid out again or goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from llm_lite.core.records import replace
from llm_lite.core.tools.fences import SHOWN, result_as_code
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.widgets.markdown.blocks import Block
from llm_lite.desktop.widgets.markdown.characters import (
    Span,
    formula_at,
    markdown_source,
    page_text,
    paragraph_at,
    plain_text,
    step,
    step_word,
    word_at,
)
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.ui import Ui

THOUGHT, SAID = 0, 1  # a message's texts, from the top
Unit = Literal["letter", "word", "paragraph"]
Place = tuple[int, int, int]  # message, text, character
Range = tuple[Place, Place]


class Selection(Struct, frozen=True):
    anchor: Range  # where it began: a place, or the word or paragraph that was clicked on
    head: Range  # where it was extended to
    chat: int
    messages: tuple[Message, ...]  # from the first of the chat to the last one selected
    unit: Unit = "letter"

    @property
    def low(self) -> Place:
        return min(self.anchor[0], self.head[0])

    @property
    def high(self) -> Place:
        return max(self.anchor[1], self.head[1])

    @property
    def empty(self) -> bool:
        return self.low == self.high

    @property
    def caret(self) -> Place:
        """Return the end that moves."""
        return self.head[1] if self.head >= self.anchor else self.head[0]

    def of(self, index: int, text: int) -> Span | None:
        """Return what is selected of a text; its end may lie behind that of the text."""
        low, high, at = self.low, self.high, (index, text)
        if self.empty or not low[:2] <= at <= high[:2]:
            return None
        first = low[2] if low[:2] == at else 0
        return first, high[2] if high[:2] == at else 1 << 60


class Selected(Struct):
    """The selection of the window, from frame to frame."""

    selection: Selection | None = None


def selection(state: AppState, ui: Ui) -> Selection | None:
    """Return what is selected, and forget it where one of its messages was replaced by another;
    a message may have grown."""
    kept = ui.local(Selected)
    held = kept.selection
    if held is None:
        return None
    now = state.messages[: len(held.messages)]
    if held.chat == state.chat and now == held.messages:
        return held
    if held.chat == state.chat and len(now) == len(held.messages):
        pairs = zip(held.messages, now, strict=True)
        if all(old is new or _went_on(old, new) for old, new in pairs):
            kept.selection = replace(held, messages=now)
            return kept.selection
    kept.selection = None
    return None


def _went_on(old: Message, new: Message) -> bool:
    thoughts = [one.thought.text if one.thought else "" for one in (old, new)]
    grown = new.text.startswith(old.text) and thoughts[1].startswith(thoughts[0])
    return grown and old.role == new.role


def select(state: AppState, ui: Ui, anchor: Range, head: Range, unit: Unit = "letter") -> None:
    """Select from one to the other, both included."""
    last = max(anchor[1], head[1])[0]
    messages = state.messages[: last + 1]
    ui.local(Selected).selection = Selection(anchor, head, state.chat, messages, unit)


def clear(ui: Ui) -> None:
    ui.local(Selected).selection = None


def texts(message: Message) -> list[int]:
    """List the texts of a message that are in sight, from the top."""
    thought = message.thought
    unfolded = thought is not None and thought.unfolded and bool(thought.text)
    return [THOUGHT, SAID] if unfolded else [SAID]


def blocks_of(state: AppState, ui: Ui, index: int, text: int) -> Sequence[Block]:
    """Return the blocks that show a message's text."""
    message = state.messages[index]
    if text == THOUGHT:
        words = message.thought.text if message.thought else ""
        return rich_text(ui, "thoughts").blocks(words, quoted=True)
    if message.reply is not None:
        return rich_text(ui).blocks(result_as_code(message.text, SHOWN))
    return rich_text(ui).blocks(message.markdown, plain=message.role != "assistant")


def whole(state: AppState, ui: Ui, first: int, last: int) -> Range:
    """Return the range from the beginning of one message to the end of another."""
    begin = (first, texts(state.messages[first])[0], 0)
    return begin, (last, SAID, len(page_text(blocks_of(state, ui, last, SAID))))


def unit_at(state: AppState, ui: Ui, place: Place, unit: Unit) -> Range:
    """Return the letter's place, or the word or paragraph around it."""
    index, text, at = place
    if unit == "letter":
        return place, place
    blocks = blocks_of(state, ui, index, text)
    if unit == "word":
        low, high = formula_at(blocks, at + 1) or word_at(page_text(blocks), at)
    else:
        low, high = paragraph_at(blocks, at)
    return (index, text, low), (index, text, high)


def moved(state: AppState, ui: Ui, place: Place, forward: bool, by_word: bool) -> Place:
    """Return the place a letter or a word further; from the end of a text that is in the next."""
    index, text, at = place
    blocks = blocks_of(state, ui, index, text)
    words = page_text(blocks)
    there = (step_word if by_word else step)(words, min(at, len(words)), forward)
    if formula := formula_at(blocks, there):
        there = formula[1 if forward else 0]
    if there != at:
        return index, text, there
    places = [(n, t) for n, message in enumerate(state.messages) for t in texts(message)]
    if (index, text) not in places:  # thoughts that were folded meanwhile
        return place
    beside = places.index((index, text)) + (1 if forward else -1)
    if not 0 <= beside < len(places):
        return place
    found = places[beside]
    return (*found, 0 if forward else len(page_text(blocks_of(state, ui, *found))))


def selected_text(state: AppState, ui: Ui, markdown: bool = False) -> str:
    """Return what is copied: text as it is seen, or the Markdown that made the blocks; "" where
    nothing is selected."""
    held = selection(state, ui)
    if held is None or held.empty:
        return ""
    parts: list[str] = []
    for index in range(held.low[0], held.high[0] + 1):
        message = state.messages[index]
        for text in texts(message):
            span = held.of(index, text)
            if span is None:
                continue
            blocks = blocks_of(state, ui, index, text)
            if markdown and text == SAID and message.role == "assistant":
                parts.append(markdown_source(message.markdown, blocks, *span))
            else:
                parts.append(plain_text(blocks, *span))
    return "\n\n".join(part for part in parts if part)
