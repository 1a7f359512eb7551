"""Patch: what the next token would be, were something else computed at some sites and tokens.

Rows that another text makes are put in the place of the sequence's own (activation patching, Vig et
al. 2020, https://arxiv.org/abs/2004.12265; causal tracing, Meng et al. 2022,
https://arxiv.org/abs/2202.05262), or any other changes act. Later tokens see what has become of the
changed ones. With `each` every site and position is patched by itself: a map of causes.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions, Replace, Scale, Unit
from llm_lite.core.plan.plan import Plan
from llm_lite.core.questions.effect import log_softmax
from llm_lite.core.questions.interventions.changed_run import ChangedRun
from llm_lite.core.questions.interventions.table import PlacedChange, placed
from llm_lite.core.questions.question import TEXT, Parts, Question, RemoteText, Where
from llm_lite.core.questions.replay import PART, Replay
from llm_lite.core.questions.sites import Site, is_behind_layers, sites_named, sites_of
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
            description="Token ids of the other text, whose rows are put in; in Python and on the "
            "command line also the text.",
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
        about("The token behind which the next is asked for; without it, the last."),
    ] = None
    tokens: Annotated[
        tuple[Position, ...], about("Token ids to tell about; without them, the likeliest.")
    ] = ()
    count: Annotated[
        int, Meta(ge=1, le=100, description="How many likeliest tokens, of each run.")
    ] = 10


class Patched(Event, frozen=True, eq=False):
    """The answer to ReadPatch: probabilities of some next tokens, and how far the distribution has
    moved. S and P are the sites and positions that were patched by themselves, else 1."""

    position: Annotated[int, about("The token behind which the next is asked for.")]
    tokens: Annotated[NDArray[np.int32], about("[n], ids.")]
    texts: Annotated[tuple[str, ...], about("Of each token.")]
    before: Annotated[F32, about("[n], probabilities without the patch.")]
    of_source: Annotated[F32, about("[n], of what follows the source; [0] without one.")]
    after: Annotated[F32, about("[S, P, n], probabilities with the patch.")]
    logits_before: Annotated[F32, about("[n]")]
    logits_after: Annotated[F32, about("[S, P, n]")]
    kl: Annotated[F32, about("[S, P], KL(before || after) in nats, of all tokens.")]


def run(request: ReadPatch, replay: Replay) -> Parts[Patched]:
    """Return what follows before and after. RequestError where something does not fit the model or
    the text, NotFiniteError where logits are no numbers."""
    work = _Patch(request, replay)
    before = yield from work.logits(work.changes if request.source else ())
    of_source: F32 | None = None
    cells: list[list[Sequence[PlacedChange]]] = [[work.changes]]
    if request.source:
        rows, of_source = yield from work.record_source()
        cells = work.cells(rows)
    runs, after = [one for one in (before, of_source) if one is not None], list[_Cell]()
    if not request.each:
        alone = yield from work.logits(cells[0][0])
        ids = work.ids([*runs, alone])
        after.append(_Cell.of(alone, before, ids))
    else:
        ids = work.ids(runs)
        for changes in itertools.chain.from_iterable(cells):
            found = yield from work.logits(changes)
            after.append(_Cell.of(found, before, ids))
    yield "anywhere"
    shape = len(cells), len(cells[0])
    none = np.empty(0, np.float32)
    return Patched(
        work.last,
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
    def __init__(self, request: ReadPatch, replay: Replay) -> None:
        if not replay.length:
            raise RequestError("there is nothing to patch: the cache is empty")
        self._request, self._replay = request, replay
        self._plan = plan = replay.executor.program.plans[0]
        self.last = replay.length - 1 if request.position is None else request.position
        if self.last >= replay.length:
            raise RequestError(
                f"position: expected 0 to {replay.length - 1}, the tokens of the text, found "
                f"{self.last:,}"
            )
        self._sites = sites_named(plan, request.sites)
        self._logits = {"logits": _logits_site(plan)}
        length = self.last + 1
        self.changes = placed(request.interventions, plan, length, replay.model)
        if request.source and not request.sites:
            raise RequestError("sites: expected one or more, which get rows of the source")
        if not request.source and (request.sites or not request.interventions):
            raise RequestError("source: expected tokens of another text, found none")
        for token in (*request.source, *request.tokens):
            if token >= replay.executor.program.vocabulary:
                raise RequestError(f"token {token:,} is not in the vocabulary")
        if len(request.tokens) > MOST_TOKENS:
            raise RequestError(f"tokens: expected at most {MOST_TOKENS:,}")
        self._pairs = self._paired()
        for one in request.sites:  # refused before anything runs
            placed(
                Interventions((Scale(one, 1.0, request.unit, tuple(self._pairs)),)), plan, length
            )
        self._check_size()

    def _paired(self) -> dict[int, int]:
        """Return by position the position of the source whose row is put there."""
        request, length = self._request, len(self._request.source)
        positions = request.positions or (self.last,)
        others = request.source_positions
        if others is None:
            others = positions if request.positions else (max(0, length - 1),)
        if len(others) != len(positions):
            raise RequestError(
                f"source_positions: expected {len(positions)}, one for each position, found "
                f"{len(others)}"
            )
        beyond = next((one for one in others if request.source and one >= length), None)
        if beyond is not None:
            raise RequestError(
                f"source_positions: expected 0 to {length - 1}, the tokens of the source, found "
                f"{beyond:,}"
            )
        return dict(zip(positions, others, strict=True))

    def _check_size(self) -> None:
        request, end = self._request, self.last + 1
        starts = list(self._pairs) if request.each else [min(self._pairs)]
        lines = len(self._sites) if request.each else 1
        tokens = len(request.source) + lines * sum(end - start for start in starts)
        if self._replay.is_shared and tokens > MOST_OF_A_CLIENT:
            raise RequestError(
                f"{tokens:,} tokens would run again: at most {MOST_OF_A_CLIENT:,} do for one "
                "request, so ask for fewer sites or positions"
            )
        runs, count = lines * len(self._pairs), len(request.tokens) or 2 * request.count
        if request.each and runs * count > MOST_VALUES:
            raise RequestError(
                f"{runs:,} runs, each with {count:,} tokens, are too many: ask for fewer sites, "
                "positions or tokens"
            )
        values = len(self._pairs) * sum(site.columns for site in self._sites.values())
        if values > MOST_VALUES:
            raise RequestError(
                f"{values:,} values are too many, at most {MOST_VALUES:,} are put in at once: ask "
                "for fewer sites or positions"
            )

    def record_source(self) -> Generator[Where, None, tuple[Mapping[str, F32], F32]]:
        """Return what the sites make of the source's tokens at the positions wanted, float32
        [positions, columns], and the logits of what follows it."""
        length, wanted = len(self._request.source), np.array(list(self._pairs.values()))
        source = ChangedRun(self._replay, (), self._request.source)
        rows = {
            name: np.zeros((len(wanted), site.columns), np.float32)
            for name, site in self._sites.items()
        }
        alone = any(is_behind_layers(self._plan, site) for site in self._sites.values())
        done, logits = 0, np.empty(0, np.float32)
        for found in source.values(
            0, length, {**self._sites, **self._logits}, 1 if alone else PART
        ):
            stop = min(done + (1 if alone else PART), length)
            logits = found.pop("logits")[0]
            for name, values in found.items():
                here = (done <= wanted) & (wanted < stop)
                rows[name][here] = values[wanted[here] - done]
            done = stop
            yield "executor"
        return rows, self._replay.checked(logits, "the logits behind the source")

    def cells(self, rows: Mapping[str, F32]) -> list[list[Sequence[PlacedChange]]]:
        """Return the changes of each run, [sites, positions], or of one with all rows put in."""
        request, positions = self._request, tuple(self._pairs)
        if not request.each:
            return [[self._patched((name, positions, rows[name]) for name in self._sites)]]
        return [
            [
                self._patched([(name, (position,), rows[name][number : number + 1])])
                for number, position in enumerate(positions)
            ]
            for name in self._sites
        ]

    def _patched(
        self, puts: Iterable[tuple[str, tuple[int, ...], F32]]
    ) -> tuple[PlacedChange, ...]:
        unit = self._request.unit
        place = {name: slice(None) for name in self._sites}
        if unit is not None:
            place = {
                change.change.site: change.place.slice_of(unit)
                for change in placed(
                    Interventions(tuple(Scale(name, 1.0, unit) for name in self._sites)),
                    self._plan,
                )
            }
        changes = tuple(
            Replace(name, tuple(map(tuple, rows[:, place[name]].tolist())), positions, unit)
            for name, positions, rows in puts
        )
        own = self.changes
        return (*own, *placed(Interventions(changes), self._plan, self.last + 1))

    def logits(self, changes: Sequence[PlacedChange]) -> Generator[Where, None, F32]:
        """Return logits float32 [V] of what follows, under these changes."""
        found = np.empty(0, np.float32)
        for part in ChangedRun(self._replay, changes).last_values(self.last + 1, self._logits):
            found = part.get("logits", found)
            yield "executor"
        return self._replay.checked(found[0], f"the logits of token {self.last}")

    def ids(self, runs: Sequence[F32]) -> NDArray[np.int32]:
        """Return the tokens asked for, or the likeliest ones of the first run, and then those of
        the others."""
        if self._request.tokens:
            return np.array(self._request.tokens, np.int32)
        count = min(self._request.count, len(runs[0]))
        best = [np.argsort(-one, kind="stable")[:count].tolist() for one in runs]
        return np.array(list(dict.fromkeys(token for one in best for token in one)), np.int32)


def _logits_site(plan: Plan) -> Site:
    return next(one for one in sites_of(plan) if plan.ops[one.index].outputs[0] == plan.logits)


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
        "of_source": (count if request.source else 0,),
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
    runs_tokens=True,
)
