"""A conversation of the history as the chat has it: messages with their versions beside them.

In the history messages are a tree; in the chat they are what is shown, and each holds what else was
said from there on. Nothing here recurses: a tree may be as deep as it has messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import get_args

from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT, Attachment, ConversationExtras
from llm_lite.core.history import ConversationTree, StoredConversation, StoredMessage
from llm_lite.core.plain_text import lines
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import MARKS, CallSplit, read_calls
from llm_lite.desktop.features.attachments.state import MOST_FILES
from llm_lite.desktop.features.chat.thoughts import Thought
from llm_lite.desktop.features.history.host_recorder import Kept, Opened
from llm_lite.desktop.features.program.state import Message, Token
from llm_lite.desktop.features.tools.state import How, ToolReply
from llm_lite.desktop.language.incoming import fit_line, fit_to_show, typed

# A message, and those that are shown behind it.
Chain = tuple[Message, "Chain | None"]


def in_chat(conversation: StoredConversation) -> tuple[tuple[Message, ...], Opened]:
    """The messages for the chat, and what the recorder must know of them."""
    tree = ConversationTree.of(conversation)
    tokens: dict[int, Token] = {}
    made = {m.id: _message(m, tokens) for m in conversation.messages}
    shown: dict[int | None, Chain] = {}  # what is shown behind a message
    parents: list[int | None] = [m.id for m in reversed(conversation.messages)]
    for parent in [*parents, None]:
        children = tree.children.get(parent, ())
        if not children:
            continue
        wanted = conversation.summary.selected if parent is None else tree.by_id[parent].selected
        # Where none is chosen, none would be seen, nor could be chosen.
        place = next((i for i, c in enumerate(children) if c.id == wanted), len(children) - 1)
        others = tuple(
            tuple(_walk((made[c.id], shown.get(c.id))))
            for i, c in enumerate(children)
            if i != place
        )
        first = children[place]
        made[first.id] = replace(made[first.id], versions=others, place=place)
        shown[parent] = (made[first.id], shown.get(first.id))
    selected: dict[int | None, int | None] = {m.id: m.selected for m in conversation.messages}
    selected[None] = conversation.summary.selected
    kept = {
        made[m.id].key: Kept(m, made[m.id], m.finished or m.role != "assistant")
        for m in conversation.messages
    }
    prompt = typed(conversation.summary.system_prompt)
    extras = fit_extras(conversation.extras)
    opened = Opened(conversation.summary.id, prompt, kept, selected, extras)
    return tuple(_walk(shown.get(None))), opened


def _walk(chain: Chain | None) -> Iterator[Message]:
    while chain is not None:
        message, chain = chain
        yield message


def _message(stored: StoredMessage, tokens: dict[int, Token]) -> Message:
    """Its tokens are known by their ids; `tokens` are those that there are already."""
    text = typed(stored.text)
    if stored.role == "tool" and stored.run is not None:
        return Message("tool", text, reply=_reply(stored))
    if stored.role != "assistant":
        return Message(stored.role, text, attachments=tuple(map(_attachment, stored.attachments)))
    thought = typed(stored.thought)
    spelled = [tokens.get(n) or tokens.setdefault(n, Token(n, "", math.nan)) for n in stored.tokens]
    end = stored.end
    calls, spoken = _calls(stored, text), text
    text = calls.visible_text if calls else text
    return Message(
        "assistant",
        text,
        tuple(spelled),
        stop_reason=(end.stop_reason if end else None) or ("end" if stored.finished else "stopped"),
        stats=fit_to_show(end.stats) if end and end.stats else None,
        problem=fit_line(end.problem) if end else "",
        sampling=stored.run.sampling if stored.run else None,
        thought=Thought.told(thought, spoken) if thought else None,
        calls=calls,
        written=fit_to_show(replace(stored.run, sampling=None)) if stored.run else None,
        edited=stored.run is None and stored.based_on is not None,
        restored=bool(spelled),
        likelihoods=stored.likelihoods[: len(spelled)],
    )


def fit_extras(kept: ConversationExtras) -> ConversationExtras:
    files = tuple(
        replace(
            one,
            name=fit_line(one.name, LONGEST_NAME),
            attached=one.attached and _attachment(one.attached),
        )
        for one in kept.files[:MOST_FILES]
        if one.attached or one.path
    )
    return replace(kept, draft=typed(kept.draft), files=files)


def _attachment(stored: Attachment) -> Attachment:
    """What a file of conversations says may be anything."""
    name, text = fit_line(stored.name, LONGEST_NAME), lines(stored.text[:LONGEST_TEXT])
    return replace(stored, name=name, text=text)


def _calls(stored: StoredMessage, text: str) -> CallSplit | None:
    style = next((s for s in MARKS if stored.run is not None and s == stored.run.tools), None)
    return None if style is None else read_calls(style, text)


def _reply(stored: StoredMessage) -> ToolReply:
    assert stored.run is not None
    run = stored.run
    how: How = next((how for how in get_args(How) if how == run.backend), "hand")
    seconds = stored.end.seconds if stored.end else 0.0
    return ToolReply(fit_line(run.model.name, 100), how, fit_line(run.device, 100), seconds)
