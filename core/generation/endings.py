"""Ends an answer because of its text: at a stop string, where it begins to speak as somebody else,
or where it repeats itself without an end."""

from __future__ import annotations

from typing import Generic, TypeVar

from llm_lite.core.generation.prompt import Encoded
from llm_lite.core.generation.repetition import RepetitionGuard
from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.messages import SamplingOptions, StopReason

Item = TypeVar("Item")


class Endings(Generic[Item]):
    """Takes the tokens of one answer to a prompt, and returns what may be shown."""

    def __init__(self, sampling: SamplingOptions, encoded: Encoded) -> None:
        self._stops = StopStrings[Item](sampling.stop, encoded.thinking, encoded.roles)
        self._roles = encoded.roles.tokens if encoded.roles else frozenset()
        in_grammar = bool(sampling.json_schema or sampling.grammar)
        self._guard = (
            RepetitionGuard(keeps_to_grammar=in_grammar, request=encoded.request)
            if sampling.repetition_guard
            else None
        )
        self._repeats = False

    @property
    def reason(self) -> StopReason | None:
        """Return why the answer ends behind the last token; None if its text is no reason."""
        return self._stops.reason or ("repetition" if self._repeats else None)

    @property
    def dropped(self) -> int:
        """Return how many last tokens are hidden, as a stop string has begun in or before them."""
        return self._stops.dropped

    def feed_previous(self, text: str) -> None:
        """Feed the existing text of an answer that is continued."""
        self._stops.feed_previous(text)

    def feed(
        self, item: Item, token: int, text: str, *, is_chosen: bool = True
    ) -> list[tuple[Item, str]]:
        """Feed a token and return what may be shown now. Tokens that the answer was begun with are
        not chosen: they may repeat and name any role."""
        if is_chosen and token in self._roles:
            return self._stops.end_at_role()
        shown = self._stops.feed(item, text)
        if is_chosen and self._guard is not None and self._stops.reason is None:
            self._repeats = self._guard.feed(token, text)
        return shown

    def flush(self) -> list[tuple[Item, str]]:
        """Return what was held back, as nothing follows."""
        return self._stops.flush()
