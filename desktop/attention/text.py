"""The text that maps are of, the source that its cross-attention sees, and what of it is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_lite.core.inspect.attention import AttentionSource


class MapText:
    """The tokens that an AttentionSource held at the last call of `update`."""

    def __init__(self) -> None:
        self.tokens: tuple[int, ...] = ()
        self.source_tokens: tuple[int, ...] = ()
        self.rows = range(0)  # positions whose queries are held
        self.version = -1
        self.ids: tuple[int, ...] | None = None  # of what is in front; None: whatever there is
        self._epoch = 0

    @property
    def positions(self) -> int:
        """Return the length of the longer of both texts: what a row needs room for."""
        return max(len(self.tokens), len(self.source_tokens))

    def is_current(self, source: AttentionSource, ids: tuple[int, ...] | None) -> bool:
        """Return True if nothing has changed since the last call of `update`."""
        return source.version == self.version and ids == self.ids

    def update(self, source: AttentionSource, ids: tuple[int, ...] | None = None) -> int:
        """Take over the tokens that the source has now, as far as they are the first of `ids`, what
        is in front; return how many of the first tokens have the rows that they had."""
        self.version, self.ids = source.version, ids
        tokens, seen = source.tokens()[: source.length], source.source_tokens()
        if ids is not None:
            tokens = tokens[: _common(ids, tokens)]
        kept = _common(self.tokens, tokens)
        if source.epoch != self._epoch or seen != self.source_tokens:
            kept = 0
        if tokens != self.tokens and any(layer.bidirectional for layer in source.layers):
            kept = 0  # each row sees all that has changed
        self.tokens, self.source_tokens = tokens, seen
        rows, self._epoch = source.rows, source.epoch
        self.rows = range(min(rows.start, len(tokens)), min(rows.stop, len(tokens)))
        return kept


def _common(old: tuple[int, ...], new: tuple[int, ...]) -> int:
    """Count the tokens that both begin with."""
    most = min(len(old), len(new))
    if old[:most] == new[:most]:
        return most
    return next(i for i in range(most) if old[i] != new[i])
