"""The likelihoods of tokens are written in the two forms that OpenAI's protocol has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from llm_lite.core.messages import TokenDecoded
from llm_lite.server.schema import about

_LEAST = -9999.0  # OpenAI's for what has no probability


def logprob(probability: float) -> float:
    return max(_LEAST, math.log(probability)) if probability > 0 else _LEAST  # of NaN, too


class AlternativeToken(Struct, kw_only=True):
    token: str
    logprob: float
    bytes: Annotated[
        list[Annotated[int, Meta(ge=0, le=255)]] | None,
        about("Not known of a part of a character."),
    ]


class TokenLikelihood(AlternativeToken, kw_only=True):
    top_logprobs: list[AlternativeToken]


class Likelihoods(Struct):
    content: list[TokenLikelihood]
    refusal: None


def of_chat(tokens: Sequence[TokenDecoded], most: int) -> Likelihoods:
    return Likelihoods([_entry(token, most) for token in tokens], None)


def _entry(token: TokenDecoded, most: int) -> TokenLikelihood:
    text = text_of(token)
    others = [
        AlternativeToken(token=a.text, logprob=logprob(a.probability), bytes=_bytes(a.text))
        for a in token.alternatives[:most]
    ]
    return TokenLikelihood(
        token=text, logprob=logprob(token.probability), bytes=_bytes(text), top_logprobs=others
    )


def _bytes(text: str) -> list[int] | None:
    return None if "�" in text else list(text.encode())


def text_of(token: TokenDecoded) -> str:
    """Return the token's own text, which may be a part of a character."""
    own = (a.text for a in token.alternatives if a.token == token.token)
    return next(own, token.text)


def of_completion(tokens: Sequence[TokenDecoded], most: int, offset: int) -> dict[str, Any]:
    """Return the form of /v1/completions. `offset` is how many characters stand before the first
    token's text."""
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.text)
    return {
        "tokens": [text_of(token) for token in tokens],
        "token_logprobs": [logprob(token.probability) for token in tokens],
        "top_logprobs": [
            {a.text: logprob(a.probability) for a in token.alternatives[:most]} for token in tokens
        ],
        "text_offset": offsets,
    }
