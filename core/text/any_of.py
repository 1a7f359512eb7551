"""A pattern that matches any of many texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WORTH_A_TREE, _DEEPEST_TREE = 256, 100  # tokens; characters of one


def any_of(tokens: Iterable[str]) -> re.Pattern[str] | None:
    """Matches any of `tokens`, the longest first; of thousands (Gemma has 6400) as a tree, which
    compiles and matches ten times as fast."""
    ordered = sorted(tokens, key=len, reverse=True)
    if not ordered:
        return None
    if len(ordered) < _WORTH_A_TREE or len(ordered[0]) > _DEEPEST_TREE:
        return re.compile("|".join(map(re.escape, ordered)))
    return re.compile(_tree_pattern([token for token in ordered if token]))


def _tree_pattern(tokens: Sequence[str]) -> str:
    """Of texts that differ: their first characters, and behind each the pattern of what follows."""
    tails: dict[str, list[str]] = {}
    for token in tokens:
        tails.setdefault(token[:1], []).append(token[1:])
    ends = "" in tails
    branches = [re.escape(c) + _tree_pattern(tails[c]) for c in tails if c]
    if not branches:
        return ""
    body = "(?:" + "|".join(branches) + ")" if ends or len(branches) > 1 else branches[0]
    return body + "?" if ends else body
