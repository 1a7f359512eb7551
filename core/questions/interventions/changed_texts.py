"""Runs all that a model has read of a sequence under changes: the tokens of a decoder, the text of
an encoder, or the source and the target of an encoder-decoder, whose decoder sees what the changed
encoder makes."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.interventions import Interventions
from llm_lite.core.plan.plan import Plan
from llm_lite.core.questions.interventions.changed_encoding import encode
from llm_lite.core.questions.interventions.changed_run import ChangedRun
from llm_lite.core.questions.interventions.table import PlacedChange, PlacedText, placed_in
from llm_lite.core.questions.question import Where
from llm_lite.core.questions.replay import PART, Inspected, decodes
from llm_lite.core.questions.sites import Site, Stack, is_behind_layers, logits_of, sites_of

F32 = NDArray[np.float32]
_LOGITS = ""  # names the site of logits among those of a run: no site has this name


class Positions(Struct, frozen=True):
    """Positions of tokens of an encoder, and of a decoder; one of both may not be there."""

    encoded: tuple[int, ...] = ()
    decoded: tuple[int, ...] = ()


class OtherTokens(Struct, frozen=True):
    """Tokens that are read in the place of a sequence's own, where they are given."""

    encoded: tuple[int, ...] | None = None
    decoded: tuple[int, ...] | None = None


class ChangedTexts:
    """The texts of a sequence, by what reads them. Tokens are predicted behind those of a decoder,
    else in the place of those of an encoder, by its head."""

    def __init__(self, replay: Inspected) -> None:
        self._replay, self._encoded = replay, replay.encoded
        self._decoded = replay if decodes(replay) else None
        self._texts = _texts_of(replay)
        self.sites = tuple(site for text in self._texts for site in text.sites)

    def is_encoded(self, site: Site) -> bool:
        """Return whether the encoder makes what the site is."""
        return site.of_source or self._decoded is None

    def length_of(self, site: Site) -> int:
        """Return how many tokens the text of a site has."""
        encoded = self._encoded
        return encoded.length if encoded and self.is_encoded(site) else self._replay.length

    def placed(
        self, interventions: Interventions, end: int | None = None
    ) -> tuple[PlacedChange, ...]:
        """Return the changes with their places. `end`: of a decoder, the token behind the last that
        runs. RequestError where one does not fit."""
        texts = self._texts
        if end is not None and self._decoded is not None:
            texts = (*texts[:-1], PlacedText(texts[-1].plan, texts[-1].sites, end))
        return placed_in(interventions, texts, self._replay.model)

    @property
    def vocabulary(self) -> int:
        """Return how many tokens the model knows."""
        text = self._decoded or self._encoded
        assert text is not None
        return text.executor.program.vocabulary

    def predicting_length(self, tokens: OtherTokens, end: int | None = None) -> int:
        """Return how many tokens there are of what predicts, where `tokens` are read, else up to
        `end` of a decoder's own."""
        if self._decoded is None:
            return self._replay.length if tokens.encoded is None else len(tokens.encoded)
        own = self._replay.length if end is None else end
        return own if tokens.decoded is None else len(tokens.decoded)

    def check_predicts(self) -> None:
        """Raise RequestError unless the model predicts tokens."""
        if self._decoded is None and not (self._encoded and self._encoded.has_head):
            raise RequestError(
                "the model has no masked-token head, only hidden states: it predicts no tokens, so "
                "ask for activations"
            )

    def tokens_to_run(self, site: Site, position: int, end: int) -> int:
        """Return how many tokens run until token `end`-1 predicts, where one is changed."""
        encoded = self._encoded.length if self._encoded and self.is_encoded(site) else 0
        if self._decoded is None:
            return encoded
        return encoded + end if encoded else end - position

    def logits(
        self, position: int, changes: Sequence[PlacedChange] = ()
    ) -> Generator[Where, None, F32]:
        """Return logits float32 [V] at a token, under changes. NotFiniteError where they are no
        numbers."""
        early = [one for one in changes if self.is_encoded(one.place.site)]
        handed, found = None, np.empty(0, np.float32)
        if self._encoded is not None and (early or self._decoded is None):
            sites = self._logits if self._decoded is None else {}
            encoding = yield from encode(self._encoded, sites, early, None, (position,))
            if self._decoded is None:
                return self._checked(encoding.rows[_LOGITS][0], position)
            handed = encoding.handed
            yield "executor"
        assert self._decoded is not None
        late = [one for one in changes if one not in early]
        run = ChangedRun(self._decoded, late, source=handed)
        for part in run.last_values(position + 1, self._logits):
            found = part.get(_LOGITS, found)
            yield "executor"
        return self._checked(found[0], position)

    def values(
        self, sites: Mapping[str, Site], wanted: Positions, tokens: OtherTokens, position: int
    ) -> Generator[Where, None, tuple[dict[str, F32], F32]]:
        """Return by name what sites make of the positions `wanted` where `tokens` are read, float32
        [positions, columns], and the logits float32 [V] at `position`, the last that runs of a
        decoder. RequestError for tokens that do not fit."""
        early = {name: one for name, one in sites.items() if self.is_encoded(one)}
        late = {name: one for name, one in sites.items() if name not in early}
        found, handed = dict[str, F32](), None
        if self._encoded is not None and (early or tokens.encoded or self._decoded is None):
            of_head = {} if self._decoded else self._logits
            shown = sorted({*wanted.encoded, *([] if self._decoded else [position])})
            encoding = yield from encode(
                self._encoded, {**early, **of_head}, (), tokens.encoded, shown
            )
            places = [shown.index(one) for one in wanted.encoded]
            found = {name: encoding.rows[name][places] for name in early}
            if self._decoded is None:
                row = encoding.rows[_LOGITS][shown.index(position)]
                return found, self._checked(row, position)
            handed = encoding.handed
            yield "executor"
        assert self._decoded is not None
        run, at = ChangedRun(self._decoded, (), tokens.decoded, handed), np.array(wanted.decoded)
        rows = {name: np.zeros((len(at), one.columns), np.float32) for name, one in late.items()}
        alone = any(is_behind_layers(self._plan, one) for one in late.values())
        end, logits = position + 1, np.empty(0, np.float32)
        done = min([*wanted.decoded, position]) if run.first_changed else 0
        for part in run.values(done, end, {**late, **self._logits}, 1 if alone else PART):
            if part:  # nothing of tokens that run for the states behind them
                stop = min(done + (1 if alone else PART), end)
                logits = part.pop(_LOGITS)[0]
                here = (done <= at) & (at < stop)
                for name, values in part.items():
                    rows[name][here] = values[at[here] - done]
                done = stop
            yield "executor"
        return {**found, **rows}, self._checked(logits, position)

    @property
    def _plan(self) -> Plan:
        """Return the plan of what predicts tokens."""
        return self._texts[-1].plan

    @property
    def _logits(self) -> dict[str, Site]:
        return {_LOGITS: logits_of(self._plan)}

    def _checked(self, logits: F32, position: int) -> F32:
        return self._replay.checked(logits, f"the logits of token {position}")


def _texts_of(replay: Inspected) -> tuple[PlacedText, ...]:
    """Return the texts of a sequence, that of a decoder last."""
    encoded, both, found = replay.encoded, decodes(replay), list[PlacedText]()
    if encoded is not None:
        stack: Stack = "encoder" if both else ""
        found.append(PlacedText(encoded.plan, sites_of(encoded.plan, stack), encoded.length))
    if decodes(replay):
        plan = replay.executor.program.plans[0]
        stack = "decoder" if encoded is not None else ""
        found.append(PlacedText(plan, sites_of(plan, stack), replay.length))
    return tuple(found)
