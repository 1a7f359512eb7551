"""The lists among the sampling options, as JSON has them."""

from __future__ import annotations

from typing import Any

from llm_lite.core.messages.sampling_options import (
    LONGEST_TEXT,
    MOST_BIAS,
    MOST_BIASES,
    MOST_TEXTS,
    OPTIONS,
)
from llm_lite.core.plain_text import lines

_TEXTS = tuple(name for name, row in OPTIONS.items() if row.kind == "texts")
FIELDS = tuple(name for name, row in OPTIONS.items() if row.kind in ("texts", "biases"))


def read_lists(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The lists of `data` that can be used, and what was expected of each of the others."""
    good: dict[str, Any] = {}
    wrong: list[str] = []
    for name in FIELDS:
        if name not in data:
            continue
        value = _texts(data[name]) if name in _TEXTS else _biases(data[name])
        if value is not None:
            good[name] = value
        elif name in _TEXTS:
            limits = f"at most {MOST_TEXTS} texts of 1 to {LONGEST_TEXT} characters"
            wrong.append(f"{name}: expected a list of {limits}")
        else:
            pairs = f"at most {MOST_BIASES} pairs of a token id and a number up to {MOST_BIAS:g}"
            wrong.append(f"{name}: expected a list of {pairs}")
    return good, wrong


def read_chosen(value: Any, problems: list[str]) -> tuple[str, ...]:
    """Names of the sampling options; what is none is left out, and said."""
    names = value if isinstance(value, list) else [value]
    good = tuple(name for name in names if isinstance(name, str) and name in OPTIONS)
    if len(good) < len(names):
        problems.append("settings: sampling_chosen: expected a list of names of sampling options.")
    return good


def _texts(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > MOST_TEXTS:
        return None
    if not all(isinstance(text, str) and 0 < len(text) <= LONGEST_TEXT for text in value):
        return None
    texts = tuple(lines(text) for text in value)
    return texts if all(texts) else None


def _biases(value: Any) -> tuple[tuple[int, float], ...] | None:
    if not isinstance(value, list) or len(value) > MOST_BIASES:
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return None
    if not all(type(token) is int and type(bias) in (int, float) for token, bias in value):
        return None
    if not all(0 <= t < 1 << 31 and -MOST_BIAS <= bias <= MOST_BIAS for t, bias in value):
        return None
    return tuple((token, float(bias)) for token, bias in value)
