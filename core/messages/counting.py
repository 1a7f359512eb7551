"""How many tokens texts have, by the tokenizer of the model that is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CountTokens:
    """Count each of `texts`. With `most`, in tokens, also say how much of each would fit."""

    request: int
    texts: tuple[str, ...]
    most: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TokensCounted:
    request: int
    tokens: tuple[int, ...] = ()  # of each text; where it was cut, of what is left
    kept: tuple[int, ...] = ()  # of each text, the first characters that fit
    message: str = ""  # a sentence where they could not be counted
