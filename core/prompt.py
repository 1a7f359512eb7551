"""A conversation -> token ids, so that what a person types can never act as a control token."""

from __future__ import annotations

from collections.abc import Sequence

from core.chat_template import ChatTemplate, Message
from core.errors import RequestError
from core.messages import ChatMessage
from core.tokenizer import Tokenizer


def encode_raw(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> list[int]:
    """The messages' texts one after the other, without a template; control tokens count here."""
    ids = _begin(tokenizer)
    for message in messages:
        ids += list(message.tokens) or tokenizer.encode(message.content)
    return ids


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[ChatMessage],
    *,
    continue_last: bool = False,
) -> list[int]:
    """The template's own text with its control tokens, the messages' contents as plain text.

    An assistant's message that knows its tokens enters as these, so that the cache still fits.
    With `continue_last` the last message is an assistant's, and stays open.
    """
    opened = _open_tail(tokenizer, messages) if continue_last else []
    turns = messages[:-1] if continue_last else messages
    spoken, rendered = _stand_ins(template, turns)
    ids: list[int] = []
    pending: list[tuple[str, bool]] = []
    for text, trusted in template.render_segments(
        rendered, add_generation_prompt=True, control_tokens=tokenizer.control_tokens
    ):
        if trusted or text not in spoken:
            pending.append((text, trusted))
            continue
        ids += tokenizer.encode_segments(pending)
        ids += _without_end(tokenizer, spoken[text].tokens)
        pending = []
    ids += tokenizer.encode_segments(pending)
    return _with_begin(tokenizer, ids) + opened


def _stand_ins(
    template: ChatTemplate, turns: Sequence[ChatMessage]
) -> tuple[dict[str, ChatMessage], list[Message]]:
    """Answers whose tokens are known, by a text that stands for each; the messages with these.

    A text of its own for each answer is found again whatever the template trims and whoever else
    said the same. Where a template writes the contents otherwise than as they are (it drops the
    thoughts of earlier answers, say), there are no stand-ins: the contents are encoded anew.
    """
    mark = "\uf8ff"  # a private-use character; more of them where a message has it too
    while any(mark in m.content for m in turns):
        mark += "\uf8ff"
    plain: list[Message] = [{"role": m.role, "content": m.content} for m in turns]
    spoken: dict[str, ChatMessage] = {}
    rendered = list(plain)
    for index, m in enumerate(turns):
        if m.role == "assistant" and m.tokens:
            name = f"{mark}{index}{mark}"
            spoken[name] = m
            rendered[index] = {"role": m.role, "content": name}
    if not spoken:
        return {}, plain
    expected, found = template.render(plain), template.render(rendered)
    untrimmed, trimmed = found, found
    for name, message in spoken.items():
        untrimmed = untrimmed.replace(name, message.content)
        trimmed = trimmed.replace(name, message.content.strip())
    return (spoken, rendered) if expected in (untrimmed, trimmed) else ({}, plain)


def _begin(tokenizer: Tokenizer) -> list[int]:
    """The begin token where the file asks for one."""
    special = tokenizer.encode("", add_special=True)[:1]  # an end token, if that is all it wants
    return special if special == [tokenizer.bos_id] else []


def _with_begin(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The begin token in front where the template wrote none."""
    begin = _begin(tokenizer)
    return ids if ids[:1] == begin else begin + ids


def _open_tail(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> list[int]:
    if not messages or messages[-1].role != "assistant":
        raise RequestError("there is no answer to continue")
    last = messages[-1]
    if last.tokens:
        return _without_end(tokenizer, last.tokens)
    return tokenizer.encode(last.content, parse_special=False)


def _without_end(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    ids = list(tokens)
    while ids and ids[-1] in tokenizer.end_ids:
        ids.pop()
    return ids
