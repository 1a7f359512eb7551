"""Encodes a text that the model continues; and the roles that a model without a chat template
invents in what it writes."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.generation.prompts.prompt import Encoded, RoleEnds, text_begin, without_end
from llm_lite.core.messages import ChatMessage
from llm_lite.core.text.continued import pieces
from llm_lite.core.text.tokenizer import Tokenizer

_NAMES = ("User", "Human", "Assistant", "USER", "HUMAN", "ASSISTANT")
_HEADINGS = ("User", "Human", "Assistant", "Instruction", "Response", "System")
_TAGS = (
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
)
# Of the format that a conversation has where the model brings none: `chat_template.PLAIN`.
_PLAIN_NAMES = ("System", "Tool")


def encode_text(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> Encoded:
    """Return the text's tokens: answers whose tokens are known enter as these. Control tokens that
    are typed are plain text."""
    encoded = Encoded([], [])
    encoded.add(text_begin(tokenizer), -1)
    for index, (message, piece) in enumerate(zip(messages, pieces(messages), strict=True)):
        known = without_end(tokenizer, message.tokens)
        encoded.add(known or tokenizer.encode(piece, parse_special=False), index)
    joined = "".join(pieces(messages))
    encoded.roles = role_ends(tokenizer, begins_line=joined[-1:] in ("", "\n"))
    return encoded


def role_ends(tokenizer: Tokenizer, *, begins_line: bool, in_chat: bool = False) -> RoleEnds:
    """Return what ends an answer that begins to speak as somebody else. `in_chat`: the conversation
    is written with names of roles before each message, which all count."""
    names = (*_NAMES, *_PLAIN_NAMES) if in_chat else _NAMES
    lines = (
        *(f"\n{name}:" for name in names),
        *(f"\n**{name}:" for name in _NAMES),
        *(f"\n### {name}" for name in _HEADINGS),
    )
    tokens = frozenset(tokenizer.encode(tag)[-1] for tag in _TAGS if tokenizer.has_token(tag))
    return RoleEnds((*lines, *_TAGS), tokens, begins_line)
