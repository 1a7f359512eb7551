"""A conversation as its model reads it: what the chat template writes around each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_lite.core.generation.prompt import ChatFile, chat_segments
from llm_lite.core.messages import ChatMessage, ToolSpec
from llm_lite.core.messages.inspecting.tokenizing import TokenizedText
from llm_lite.core.records import replace
from llm_lite.core.text.continued import is_text, pieces
from llm_lite.core.text.stages import tokenized


def prompt_stages(
    file: ChatFile,
    name: str,
    messages: Sequence[ChatMessage],
    thinking: bool = True,
    tools: Sequence[ToolSpec] = (),
    values: Mapping[str, Any] = {},
) -> TokenizedText:
    """Return the tokenizer's stages of a prompt, from the text that the template makes, or that is
    continued. LlmLiteError as of `encode_chat`."""
    tokenizer = file.tokenizer
    if is_text(messages):
        segments = [("".join(pieces(messages)), False)]
    else:
        segments = chat_segments(
            tokenizer, file.template, messages, thinking=thinking, tools=tools, values=values
        )
    result = tokenized(tokenizer, name, segments, around=False)
    begin = tokenized(tokenizer, name, []).before
    if result.pieces[:1] and begin and result.pieces[0].id == begin[0].id:
        return result  # the template has written it
    return replace(result, before=begin, tokens=result.tokens + len(begin))
