"""Conversations as Markdown: the path that is shown, and one answer alone."""

from __future__ import annotations

import time

from llm_lite.core.attached_text import Attachment, attachment_text
from llm_lite.core.history.records import StoredConversation, StoredMessage
from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import ToolCall
from llm_lite.core.plain_text import one_line
from llm_lite.core.tools.calls import MARKS, read_calls
from llm_lite.core.tools.fences import fenced, result_as_code
from llm_lite.core.tools.json_values import pretty

ROLES = {"system": "System", "user": "User", "assistant": "Model", "tool": "Tool", "text": "Text"}


def to_markdown(conversation: StoredConversation, *, thoughts: bool = False) -> str:
    """Return what is shown of a conversation as Markdown; with `thoughts` also the thoughts, as
    quotations."""
    summary = conversation.summary
    title = one_line(summary.title).strip() or "Conversation"
    parts = [f"# {title}"]
    if summary.created:
        parts.append(f"{moment(summary.created)}")
    if summary.system_prompt:
        parts += ["## System prompt", summary.system_prompt.strip("\n")]
    for message in ConversationTree.of(conversation).path:
        parts.append(f"## {speaker(message)}")
        parts += map(_attached, message.attachments)
        if thoughts and message.thought:
            parts.append(quoted(message.thought))
        parts.append(answer_to_markdown(message))
        if not message.finished:
            parts.append("*This answer was not finished.*")
    return "\n\n".join(part for part in parts if part) + "\n"


def _attached(attachment: Attachment) -> str:
    """Return an attachment's name and its text, if it has one, in a fence."""
    return (
        attachment_text(attachment) if attachment.text else f"Attached: {one_line(attachment.name)}"
    )


def answer_to_markdown(message: StoredMessage) -> str:
    """Return a message as the Markdown that models answer in. A fence that is still open is closed,
    so that what follows is no code."""
    calls = ""
    text = message.text.strip("\n")
    style = next((s for s in MARKS if message.run and s == message.run.tools), None)
    if style is not None and message.role == "assistant":
        split = read_calls(style, message.text)
        text = split.visible_text.strip("\n")
        calls = "".join(f"\n\n{_call_to_markdown(call)}" for call in split.calls)
    elif message.role == "tool" and message.run:
        return result_as_code(text)
    opened = ""
    for line in text.splitlines():
        bare = line.strip()
        mark = bare[: len(bare) - len(bare.lstrip("`~"))]
        if not opened and len(mark) >= 3 and len(set(mark)) == 1 and line[:4].strip():
            opened = mark
        elif opened and bare.startswith(opened) and bare.strip(opened[0]) == "":
            opened = ""
    return (f"{text}\n{opened}" if opened else text) + calls


def _call_to_markdown(call: ToolCall) -> str:
    return f"Call of `{call.name or '?'}`:\n\n{fenced(pretty(call.arguments), 'json')}"


def speaker(message: StoredMessage) -> str:
    """Return "User", or "Model: name of its file"."""
    name = message.run.model.name if message.run else ""
    return f"{ROLES[message.role]}: {one_line(name)}" if name else ROLES[message.role]


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").splitlines())


def moment(seconds: float) -> str:
    """Return the local time; "" for one that no calendar has."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, OSError, ValueError):
        return ""
