"""Tokens with their texts, as events tell them."""

from __future__ import annotations

from collections.abc import Sequence

from llm_lite.core.generation import prompt
from llm_lite.core.generation.sampling import Allowed
from llm_lite.core.messages import AllowedTokens, Alternative, PromptToken
from llm_lite.core.text.tokenizer import Tokenizer


def labelled(tokenizer: Tokenizer, encoded: prompt.Encoded) -> tuple[PromptToken, ...]:
    """The tokens with their texts and owners, by position."""
    return tuple(
        PromptToken(token, text_of(tokenizer, token), owner)
        for token, owner in zip(encoded.ids, encoded.owners, strict=True)
    )


def alternatives(
    tokenizer: Tokenizer, best: Sequence[tuple[int, float]]
) -> tuple[Alternative, ...]:
    return tuple(Alternative(token, text_of(tokenizer, token), p) for token, p in best)


def allowed_tokens(tokenizer: Tokenizer, allowed: Allowed | None) -> AllowedTokens | None:
    if allowed is None:
        return None
    best = alternatives(tokenizer, allowed.best)
    return AllowedTokens(allowed.count, allowed.probability, best)


def text_of(tokenizer: Tokenizer, token: int) -> str:
    """What the token stands for, by itself: U+FFFD for a part of a character."""
    return tokenizer.token_bytes(token).decode(errors="replace")
