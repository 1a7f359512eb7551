"""A conversation -> token ids, so that what a person types can never act as a control token."""

from __future__ import annotations

from collections.abc import Sequence

from core.chat_template import ChatTemplate
from core.errors import RequestError
from core.messages import ChatMessage
from core.tokenizer import Tokenizer


def encode_raw(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> list[int]:
    """The messages' texts one after the other, without a template; control tokens count here."""
    ids = tokenizer.encode("", add_special=True)
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
    spoken = [m for m in turns if m.role == "assistant" and m.tokens]
    rendered = [{"role": m.role, "content": m.content} for m in turns]
    ids: list[int] = []
    pending: list[tuple[str, bool]] = []
    for text, trusted in template.render_segments(
        rendered, add_generation_prompt=True, control_tokens=tokenizer.control_tokens
    ):
        if trusted or not spoken or text != spoken[0].content:
            pending.append((text, trusted))
            continue
        ids += tokenizer.encode_segments(pending)
        ids += _without_end(tokenizer, spoken.pop(0).tokens)
        pending = []
    ids += tokenizer.encode_segments(pending)
    return _with_begin(tokenizer, ids) + opened


def _with_begin(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The begin token in front where the file asks for one and the template wrote none."""
    begin = tokenizer.encode("", add_special=True)[:1]
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
