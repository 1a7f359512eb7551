"""The marks at which an answer ends, as it begins to speak as somebody else."""

from __future__ import annotations

from msgspec import Struct

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


class RoleEnds(Struct, frozen=True):
    """The ends of an answer that begins to speak as somebody else: before these `texts`, and at
    these `tokens` or `runs` of them. Texts that begin a line count at the answer's start too where
    it `begins_line`; those that `may_be_quoted` do not count in code and behind quotes."""

    texts: tuple[str, ...]
    tokens: frozenset[int]
    begins_line: bool
    runs: tuple[tuple[int, ...], ...] = ()
    may_be_quoted: bool = False


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
