"""Texts of encoder-decoders: a source to tokens, and a target's tokens to text."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.errors import TooLongError
from llm_lite.core.generation.prompts.prompt import utf8_bytes
from llm_lite.core.generation.targets.beam_search import Hypothesis
from llm_lite.core.generation.token_texts import alternatives, completed_texts, text_of
from llm_lite.core.messages import SourceToken, TargetToken
from llm_lite.core.text.tokenizer import Tokenizer


def encode_source(tokenizer: Tokenizer, text: str, context: int) -> list[int]:
    """Return the ids of a source with the tokens that end it. TooLongError, without tokenizing it,
    for a text that is certainly longer than `context` tokens."""
    most, found = context * tokenizer.longest_token_bytes, utf8_bytes(text)
    if found > most:
        raise TooLongError(
            f"the source has {found} bytes, but {context} tokens take no more than {most}; shorten "
            "it or load the model with a larger context"
        )
    return tokenizer.encode(text, add_special=True)


def source_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[SourceToken, ...]:
    return tuple(SourceToken(i, text_of(tokenizer, i), tokenizer.is_special(i)) for i in ids)


def target_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the target's text without special tokens and the spaces around it."""
    return tokenizer.decode(ids, skip_special=True).strip()


def target_tokens(tokenizer: Tokenizer, target: Hypothesis) -> tuple[TargetToken, ...]:
    """Return the target's tokens with the probabilities of its choices."""
    texts = completed_texts(tokenizer, target.tokens)
    return tuple(
        TargetToken(
            choice.token,
            text,
            choice.probability,
            alternatives(tokenizer, choice.best),
            tokenizer.is_special(choice.token),
        )
        for choice, text in zip(target.choices, texts, strict=True)
    )
