"""A conversation that is one text, which the model continues.

Messages of the role "text" are what a person wrote of it, answers are what a model did. They follow
each other as they are. Where no whitespace parts a person's text from what stands before it, it
begins a paragraph.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.messages import ChatMessage

PARAGRAPH = "\n\n"


def is_text(messages: Sequence[ChatMessage]) -> bool:
    """Return True if the conversation is a text that is continued."""
    return any(message.role == "text" for message in messages)


def pieces(messages: Sequence[ChatMessage]) -> list[str]:
    """Return what each message adds to the text."""
    found: list[str] = []
    before = ""
    for message in messages:
        own = message.content
        parted = not before or not own or before[-1].isspace() or own[0].isspace()
        found.append(own if parted or message.role == "assistant" else PARAGRAPH + own)
        before = found[-1] or before
    return found
