"""How likely tokens were, in the two forms that OpenAI's protocol has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llm_lite.core.messages import TokenDecoded

_LEAST = -9999.0  # OpenAI's for what has no probability


def logprob(probability: float) -> float:
    return max(_LEAST, math.log(probability)) if probability > 0 else _LEAST  # of NaN, too


def of_chat(tokens: Sequence[TokenDecoded], most: int) -> dict[str, Any]:
    return {"content": [_entry(token, most) for token in tokens], "refusal": None}


def _entry(token: TokenDecoded, most: int) -> dict[str, Any]:
    return {
        **_one(text_of(token), token.probability),
        "top_logprobs": [_one(a.text, a.probability) for a in token.alternatives[:most]],
    }


def _one(text: str, probability: float) -> dict[str, Any]:
    """Parts of characters have no bytes here: what they are is not known."""
    known = None if "�" in text else list(text.encode())
    return {"token": text, "logprob": logprob(probability), "bytes": known}


def text_of(token: TokenDecoded) -> str:
    """Its own, which may be a part of a character."""
    own = (a.text for a in token.alternatives if a.token == token.token)
    return next(own, token.text)


def of_completion(tokens: Sequence[TokenDecoded], most: int, offset: int) -> dict[str, Any]:
    """`offset` is how many characters stand before the first token's text."""
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
