"""Ends an answer because of its text: at a stop string, where it begins to speak as somebody else,
or where it repeats itself without an end."""

from __future__ import annotations

from typing import Generic, TypeVar

from llm_lite.core.generation.prompt import Encoded
from llm_lite.core.generation.repetition import RepetitionGuard
from llm_lite.core.generation.stop_strings import StopStrings
from llm_lite.core.messages import SamplingOptions, StopReason
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import Split

Item = TypeVar("Item")


class Endings(Generic[Item]):
    """Takes the tokens of one answer to a prompt, and returns what may be shown."""

    def __init__(self, sampling: SamplingOptions, encoded: Encoded) -> None:
        self._stops = StopStrings[Item](sampling.stop, encoded.thinking, encoded.roles)
        self._roles = encoded.roles.tokens if encoded.roles else frozenset()
        self._runs = encoded.roles.runs if encoded.roles else ()
        self._run: list[tuple[Item, int, str]] = []  # may be the beginning of one of these
        self._in_grammar = bool(sampling.json_schema or sampling.grammar)
        self._request = encoded.request
        self._guard = self._new_guard() if sampling.repetition_guard else None
        # An answer may say what its thought has drafted more than once.
        thinking = encoded.thinking if self._guard is not None else None
        self._thought = Split.of(thinking) if thinking is not None else None
        self._repeats = False

    def _new_guard(self) -> RepetitionGuard:
        return RepetitionGuard(keeps_to_grammar=self._in_grammar, request=self._request)

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
        self._feed_thought(text)

    def feed(
        self, item: Item, token: int, text: str, *, is_chosen: bool = True
    ) -> list[tuple[Item, str]]:
        """Feed a token and return what may be shown now. Tokens that the answer was begun with are
        not chosen: they may repeat and name any role."""
        if is_chosen and token in self._roles:
            return self._release_run() + self._stops.end_at_role()
        if not is_chosen or not self._runs:
            return self._feed(item, token, text, is_chosen)
        shown: list[tuple[Item, str]] = []
        if self._run and not self._begins((*(one for _, one, _ in self._run), token)):
            shown = self._release_run()
        if not self._begins((*(one for _, one, _ in self._run), token)):
            return shown + self._feed(item, token, text, is_chosen)
        self._run.append((item, token, text))
        if tuple(one for _, one, _ in self._run) not in self._runs:
            return shown
        count, self._run = len(self._run), []
        return shown + self._stops.end_at_role(count)

    def _begins(self, tokens: tuple[int, ...]) -> bool:
        return any(run[: len(tokens)] == tokens for run in self._runs)

    def _release_run(self) -> list[tuple[Item, str]]:
        """Return what was held back as it might have been the beginning of a run."""
        run, self._run = self._run, []
        return [shown for one in run for shown in self._feed(*one, is_chosen=True)]

    def _feed(self, item: Item, token: int, text: str, is_chosen: bool) -> list[tuple[Item, str]]:
        if self._stops.reason is not None:  # in what was held back before this token
            self._stops.dropped += 1
            return []
        shown = self._stops.feed(item, text)
        self._feed_thought(text)
        if is_chosen and self._guard is not None and self._stops.reason is None:
            self._repeats = self._guard.feed(token, text) or self._repeats
        return shown

    def _feed_thought(self, text: str) -> None:
        """Watch for repetition anew once a thought has ended and the answer begins."""
        if self._thought is None:
            return
        fed = self._thought.fed(text)
        if fed.phase != "after":
            self._thought = replace(fed, raw="", thoughts="")  # which would grow with each token
            return
        self._thought = None
        if fed.marked:
            self._guard = self._new_guard()

    def flush(self) -> list[tuple[Item, str]]:
        """Return what was held back, as nothing follows."""
        return self._release_run() + self._stops.flush()
