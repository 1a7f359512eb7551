"""Patch: what the next token would be, were something else computed at some sites and tokens.

Rows that another text makes are put in the place of the sequence's own (activation patching, Vig et
al. 2020, https://arxiv.org/abs/2004.12265; causal tracing, Meng et al. 2022,
https://arxiv.org/abs/2202.05262), or any other changes act. Later tokens see what has become of the
changed ones. With `each` every site and position is patched by itself: a map of causes.

Of an encoder with a masked-token head all tokens see the changed ones, and what its head predicts
in the place of a token is told. Of an encoder-decoder both may be changed, and what follows the
target is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import CommandProgress, Event, StepRequest
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions, Replace, Scale, Unit
from llm_lite.core.questions.effect import log_softmax
from llm_lite.core.questions.interventions.changed_texts import (
    ChangedTexts,
    OtherTokens,
    Positions,
)
from llm_lite.core.questions.interventions.table import PlacedChange
from llm_lite.core.questions.question import TARGET, TEXT, Parts, Question, RemoteText, Where
from llm_lite.core.questions.replay import Inspected, OtherText, decodes
from llm_lite.core.questions.sites import Site, named_among
from llm_lite.core.records import about

F32 = NDArray[np.float32]
Position = Annotated[int, Meta(ge=0)]
MOST_VALUES = 4 << 20  # of the other text's rows
MOST_OF_A_CLIENT = 32 << 10  # tokens that run for one request, in parts between the steps of others
MOST_TOKENS = 1000  # whose probabilities are told


class ReadPatch(StepRequest, frozen=True):
    """Ask for Patched: the next token with rows of another text at `sites`, and with other
    interventions."""

    sites: Annotated[
        tuple[str, ...], about("Names or aliases of sites that get rows of the source.")
    ] = ()
    source: Annotated[
        tuple[Position, ...],
        Meta(
            description="Token ids of the other text, whose rows are put in, of an encoder-decoder "
            "of another source; in Python and on the command line also the text.",
            extra=TEXT,
        ),
    ] = ()
    positions: Annotated[
        tuple[Position, ...] | None, about("Positions that get rows; without them, the last.")
    ] = None
    source_positions: Annotated[
        tuple[Position, ...] | None,
        about("Where in the source the rows are from; without them, the same positions."),
    ] = None
    unit: Unit = None
    each: Annotated[bool, about("Whether each site and position is patched by itself.")] = False
    interventions: Annotated[
        Interventions,
        about(
            "Other changes: without a source those that are asked about; with one, of both runs "
            "that are compared."
        ),
    ] = NO_CHANGES
    position: Annotated[
        Position | None,
        about(
            "The token behind which the next is asked for; of an encoder, the token in whose place "
            "its head predicts one; without it, the last."
        ),
    ] = None
    tokens: Annotated[
        tuple[Position, ...], about("Token ids to tell about; without them, the likeliest.")
    ] = ()
    count: Annotated[
        int, Meta(ge=1, le=100, description="How many likeliest tokens, of each run.")
    ] = 10
    source_target: Annotated[
        tuple[Position, ...],
        Meta(
            description="Of an encoder-decoder: token ids of another target, without the token "
            "that it starts with; without it, the same target.",
            extra=TARGET,
        ),
    ] = ()
    source_response: Annotated[
        str,
        Meta(
            max_length=128,
            description="Of a server, in place of `source`: the id of another response, with its "
            "own interventions.",
        ),
    ] = ""

    @property
    def has_source(self) -> bool:
        """Return whether rows of another text are put in."""
        return bool(self.source or self.source_target or self.source_response)


class Patched(Event, frozen=True, eq=False):
    """The answer to ReadPatch: probabilities of some next tokens, and how far the distribution has
    moved. S and P are the sites and positions that were patched by themselves, else 1."""

    position: Annotated[int, about("The token that is asked about.")]
    tokens: Annotated[NDArray[np.int32], about("[n], ids.")]
    texts: Annotated[tuple[str, ...], about("Of each token.")]
    before: Annotated[F32, about("[n], probabilities without the patch.")]
    of_source: Annotated[F32, about("[n], of the source; [0] without one.")]
    after: Annotated[F32, about("[S, P, n], probabilities with the patch.")]
    logits_before: Annotated[F32, about("[n]")]
    logits_after: Annotated[F32, about("[S, P, n]")]
    kl: Annotated[F32, about("[S, P], KL(before || after) in nats, of all tokens.")]


def run(request: ReadPatch, replay: Inspected) -> Parts[Patched]:
    """Return what is predicted before and after. RequestError where something does not fit the
    model or the text, NotFiniteError where logits are no numbers."""
    with ExitStack() as stack:
        other = None
        if request.source_response:
            other = stack.enter_context(replay.response(request.source_response))
        work = _Patch(request, replay, other)
        texts, last = work.texts, work.last
        before = yield from texts.logits(last, work.changes if request.has_source else ())
        of_source: F32 | None = None
        cells: list[list[Sequence[PlacedChange]]] = [[work.changes]]
        if request.has_source:
            rows, of_source = yield from work.record_source()
            cells = work.cells(rows)
    runs, after = [one for one in (before, of_source) if one is not None], list[_Cell]()
    if not request.each:
        alone = yield from texts.logits(last, cells[0][0])
        ids = work.ids([*runs, alone])
        after.append(_Cell.of(alone, before, ids))
    else:
        ids, count = work.ids(runs), len(cells) * len(cells[0])
        for number, changes in enumerate(itertools.chain.from_iterable(cells)):
            yield CommandProgress("patching", number / count)
            found = yield from texts.logits(last, changes)
            after.append(_Cell.of(found, before, ids))
    yield "anywhere"
    shape = len(cells), len(cells[0])
    none = np.empty(0, np.float32)
    return Patched(
        last,
        ids,
        tuple(replay.token_text(token) for token in ids.tolist()),
        _probabilities(before, ids),
        none if of_source is None else _probabilities(of_source, ids),
        np.stack([one.probabilities for one in after]).reshape(*shape, len(ids)),
        before[ids],
        np.stack([one.logits for one in after]).reshape(*shape, len(ids)),
        np.array([one.kl for one in after], np.float32).reshape(shape),
    )


class _Cell(Struct, frozen=True):
    """One run gives logits and probabilities of some next tokens [n], and KL(before || after) of
    all."""

    logits: F32
    probabilities: F32
    kl: float

    @classmethod
    def of(cls, logits: F32, before: F32, ids: NDArray[np.int32]) -> _Cell:
        log_p, log_q = log_softmax(before), log_softmax(logits)
        kl = max(0.0, float(np.exp(log_p) @ (log_p - log_q)))
        return cls(logits[ids], _probabilities(logits, ids), kl)


def _probabilities(logits: F32, ids: NDArray[np.int32]) -> F32:
    return np.exp(log_softmax(logits)[ids]).astype(np.float32)


class _Patch:
    def __init__(self, request: ReadPatch, replay: Inspected, other: OtherText | None) -> None:
        if not replay.length:
            raise RequestError("there is nothing to patch: the cache is empty")
        self._request, self._replay = request, replay
        self.texts = texts = ChangedTexts(replay)
        texts.check_predicts()
        self.last = replay.length - 1 if request.position is None else request.position
        if self.last >= replay.length:
            raise RequestError(
                f"position: expected 0 to {replay.length - 1}, the tokens of the text, found "
                f"{self.last:,}"
            )
        self._sites = named_among(texts.sites, request.sites)
        self.changes = texts.placed(request.interventions, self.last + 1)
        if request.has_source and not request.sites:
            raise RequestError("sites: expected one or more, which get rows of the source")
        if not request.has_source and (request.sites or not request.interventions):
            raise RequestError("source: expected tokens of another text, found none")
        for token in (*request.source, *request.source_target, *request.tokens):
            if token >= texts.vocabulary:
                raise RequestError(f"token {token:,} is not in the vocabulary")
        if len(request.tokens) > MOST_TOKENS:
            raise RequestError(f"tokens: expected at most {MOST_TOKENS:,}")
        self._source, self._tokens = self._other(other)
        self._pairs = {name: self._paired(site) for name, site in self._sites.items()}
        for name, pairs in self._pairs.items():  # refused before anything runs
            one = Scale(name, 1.0, request.unit, tuple(pairs))
            texts.placed(Interventions((one,)), self.last + 1)
        self._check_size()

    def _other(self, other: OtherText | None) -> tuple[ChangedTexts, OtherTokens]:
        """Return what runs the source, and its tokens where these are others than that has."""
        request = self._request
        if other is not None:
            if request.source or request.source_target:
                raise RequestError("source_response: expected no source besides, found one")
            if other.replay is not None:
                return ChangedTexts(other.replay), OtherTokens()
            return self.texts, OtherTokens(other.encoded, other.decoded)
        if not decodes(self._replay):
            if request.source_target:
                raise RequestError("source_target: expected none, as an encoder writes no target")
            return self.texts, OtherTokens(encoded=request.source or None)
        if self._replay.encoded is None:
            if request.source_target:
                raise RequestError("source_target: expected none, as the model reads no source")
            return self.texts, OtherTokens(decoded=request.source or None)
        target = request.source_target
        decoded = (self._replay.tokens()[0], *target) if target else None
        return self.texts, OtherTokens(request.source or None, decoded)

    def _source_length(self, site: Site) -> int:
        """Return how many tokens of the source's text a site sees."""
        encoded = self.texts.is_encoded(site)
        tokens = self._tokens.encoded if encoded else self._tokens.decoded
        if tokens is not None:
            return len(tokens)
        if self._source is not self.texts or encoded:
            return self._source.length_of(site)
        return self.last + 1

    @property
    def _predicting_source(self) -> int:
        """Return how many tokens of the source there are of what predicts."""
        if self._source is not self.texts:
            return self._source.predicting_length(self._tokens)
        return self.texts.predicting_length(self._tokens, self.last + 1)

    def _last_of_source(self) -> int:
        """Return the token of the source where logits are told: the last of a decoder; of an
        encoder, the token whose row is put at the one that is asked about, or that itself."""
        source = self._predicting_source
        if decodes(self._replay):
            return source - 1
        pairs = next(iter(self._pairs.values()))
        return pairs.get(self.last, min(self.last, source - 1))

    def _paired(self, site: Site) -> dict[int, int]:
        """Return by position the position of the source whose row is put there."""
        request, length = self._request, self._source_length(site)
        is_predicted = not (site.of_source and decodes(self._replay))
        last = self.last if is_predicted else self.texts.length_of(site) - 1
        positions = request.positions or (last,)
        others = request.source_positions
        if others is None:
            others = positions if request.positions else (max(0, length - 1),)
        if len(others) != len(positions):
            raise RequestError(
                f"source_positions: expected {len(positions)}, one for each position, found "
                f"{len(others)}"
            )
        beyond = next((one for one in others if request.has_source and one >= length), None)
        if beyond is not None:
            raise RequestError(
                f"source_positions: expected 0 to {length - 1}, the tokens of the source, found "
                f"{beyond:,}"
            )
        return dict(zip(positions, others, strict=True))

    def _check_size(self) -> None:
        request, end = self._request, self.last + 1
        tokens = len(self._tokens.encoded or ())
        if request.has_source:
            tokens += self._predicting_source
        for name, site in self._sites.items():
            pairs = self._pairs[name]
            for start in pairs if request.each else [min(pairs)]:
                tokens += self.texts.tokens_to_run(site, start, end)
        if self._replay.is_shared and tokens > MOST_OF_A_CLIENT:
            raise RequestError(
                f"{tokens:,} tokens would run again: at most {MOST_OF_A_CLIENT:,} do for one "
                "request, so ask for fewer sites or positions"
            )
        runs = sum(map(len, self._pairs.values())) if request.each else 1
        count = len(request.tokens) or 2 * request.count
        if request.each and runs * count > MOST_VALUES:
            raise RequestError(
                f"{runs:,} runs, each with {count:,} tokens, are too many: ask for fewer sites, "
                "positions or tokens"
            )
        values = sum(len(self._pairs[name]) * one.columns for name, one in self._sites.items())
        if values > MOST_VALUES:
            raise RequestError(
                f"{values:,} values are too many, at most {MOST_VALUES:,} are put in at once: ask "
                "for fewer sites or positions"
            )

    def record_source(self) -> Generator[Where, None, tuple[Mapping[str, F32], F32]]:
        """Return what the sites make of the source's tokens at the positions wanted, float32
        [positions, columns], and the logits of the source."""
        pairs = {self.texts.is_encoded(self._sites[name]): one for name, one in self._pairs.items()}
        wanted = Positions(*(tuple(pairs.get(one, {}).values()) for one in (True, False)))
        return (
            yield from self._source.values(
                self._sites, wanted, self._tokens, self._last_of_source()
            )
        )

    def cells(self, rows: Mapping[str, F32]) -> list[list[Sequence[PlacedChange]]]:
        """Return the changes of each run, [sites, positions], or of one with all rows put in."""
        places = {name: tuple(pairs) for name, pairs in self._pairs.items()}
        if not self._request.each:
            return [[self._patched((name, places[name], rows[name]) for name in self._sites)]]
        return [
            [
                self._patched([(name, (position,), rows[name][number : number + 1])])
                for number, position in enumerate(places[name])
            ]
            for name in self._sites
        ]

    def _patched(
        self, puts: Iterable[tuple[str, tuple[int, ...], F32]]
    ) -> tuple[PlacedChange, ...]:
        unit = self._request.unit
        columns = {name: slice(None) for name in self._sites}
        if unit is not None:
            scaled = Interventions(tuple(Scale(name, 1.0, unit) for name in self._sites))
            for one in self.texts.placed(scaled):
                columns[one.change.site] = one.place.slice_of(unit)
        changes = tuple(
            Replace(name, tuple(map(tuple, rows[:, columns[name]].tolist())), positions, unit)
            for name, positions, rows in puts
        )
        return (*self.changes, *self.texts.placed(Interventions(changes), self.last + 1))

    def ids(self, runs: Sequence[F32]) -> NDArray[np.int32]:
        """Return the tokens asked for, or the likeliest ones of the first run, and then those of
        the others."""
        if self._request.tokens:
            return np.array(self._request.tokens, np.int32)
        count = min(self._request.count, len(runs[0]))
        best = [np.argsort(-one, kind="stable")[:count].tolist() for one in runs]
        return np.array(list(dict.fromkeys(token for one in best for token in one)), np.int32)


def check_answer(request: ReadPatch, answer: Patched, text: RemoteText) -> None:
    """Raise ValueError unless numbers of an answer are finite, and as many as were asked for."""
    count, grid = len(answer.tokens), (1, 1)
    if request.each:
        grid = len(set(request.sites)), len(set(request.positions or (0,)))
    most = len(request.tokens) or 3 * request.count
    if answer.tokens.shape != (count,) or not 0 < count <= most:
        raise ValueError(f"tokens: expected 1 to {most}, found {answer.tokens.shape}")
    shapes = {
        "before": (count,),
        "of_source": (count if request.has_source else 0,),
        "after": (*grid, count),
        "logits_before": (count,),
        "logits_after": (*grid, count),
        "kl": grid,
    }
    for name, shape in shapes.items():
        values = getattr(answer, name)
        if values.shape != shape:
            raise ValueError(f"{name}: expected {shape}, found {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: expected finite numbers")
    if len(answer.texts) != count:
        raise ValueError(f"texts: expected {count}, found {len(answer.texts)}")


PATCH = Question(
    "patch",
    ReadPatch,
    Patched,
    run,
    "what would follow if its layers computed something else",
    ReadPatch(("layers.0.feed_forward.residual",), (7, 8, 9)),
    check=check_answer,
    turn=2,
    of_encoders=True,
    of_pairs=True,
    runs_tokens=True,
)
