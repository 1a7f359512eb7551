"""Activations: what any sites of the model make of tokens, as arrays.

The tokens run once more, over the keys and values that are kept, as the model computes: with its
quantized weights and the gains in force.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.kv_cache.states import State
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.interventions.changed_encoding import encode
from llm_lite.core.questions.interventions.changed_run import ChangedRun, record
from llm_lite.core.questions.interventions.changed_texts import ChangedTexts
from llm_lite.core.questions.question import Parts, Question, RemoteText, Where
from llm_lite.core.questions.replay import PART, Inspected, Replay, decodes
from llm_lite.core.questions.running import parts_again
from llm_lite.core.questions.sites import Site, all_sites, is_behind_layers, named_among
from llm_lite.core.records import about

F32 = NDArray[np.float32]
Put = Callable[[Mapping[str, F32]], None]
MOST_VALUES = 64 << 20  # of one answer
MOST_OF_A_CLIENT = 16 << 20  # 64 MiB, and a few copies of it at a time


class ReadActivations(StepRequest, frozen=True):
    """Ask for ActivationsRead of tokens `first`..`last`-1, or up to the end."""

    sites: Annotated[
        tuple[str, ...], about("Names or aliases of sites, as layers.3.attention.heads.")
    ]
    first: Annotated[int, Meta(ge=0, description="Position of the first token.")] = 0
    last: Annotated[
        int | None, about("The position behind the last token; without it, the end.")
    ] = None
    interventions: Annotated[Interventions, about("Changes under which the tokens run.")] = (
        NO_CHANGES
    )


class ActivationsRead(Event, frozen=True, eq=False):
    """The answer to ReadActivations: by the name that was asked for, float32 [tokens, columns]."""

    first: Annotated[int, about("Position of the first token.")]
    values: Annotated[Mapping[str, F32], about("[tokens, columns] by the name of the site.")]


def run(request: ReadActivations, replay: Inspected) -> Parts[ActivationsRead]:
    """Return what the sites make. RequestError for a site or position that is not there, and for
    too many values; NotFiniteError where one is no number."""
    sites = named_among(sites_in(replay), request.sites)
    if not sites:
        raise RequestError("sites: expected one or more, found none")
    size = _size(request, replay, sites)
    most = MOST_OF_A_CLIENT if replay.is_shared else MOST_VALUES
    if size > most:
        raise RequestError(
            f"{size:,} values are too many, at most {most:,} are read at once: ask for "
            "fewer sites or positions"
        )
    found: dict[str, list[F32]] = {name: [] for name in sites}

    def put(rows: Mapping[str, F32]) -> None:
        for name, one in rows.items():
            found[name].append(one)

    texts = ChangedTexts(replay)
    changes = texts.placed(request.interventions)
    early = [one for one in changes if texts.is_encoded(one.place.site)]
    for number, (text, own) in enumerate(_by_text(replay, sites)):
        if number:
            yield "executor"
        span = _span(request, text, replay.encoded)
        if isinstance(text, EncodedText):
            encoding = yield from encode(text, own, early, None, span)
            put(encoding.rows)
        elif changes:
            source = None
            if early and replay.encoded is not None:
                source = (yield from encode(replay.encoded, {}, early)).handed
                yield "executor"
            late = [one for one in changes if one not in early]
            yield from _of_changed(ChangedRun(text, late, source=source), span, own, put, text)
        else:
            yield from _of_decoded(text, span, own, put)
    yield "anywhere"
    values = {
        name: replay.checked(np.concatenate(rows), f"what {name} makes")
        for name, rows in found.items()
    }
    return ActivationsRead(request.first, values)


def sites_in(replay: Inspected) -> tuple[Site, ...]:
    """Return the sites of all that has read the tokens: an encoder-decoder has two plans."""
    encoded = replay.encoded
    return all_sites(
        replay.executor.program.plans[0] if decodes(replay) else None,
        None if encoded is None else encoded.plan,
    )


def size_of(request: ReadActivations, replay: Inspected) -> int:
    """Return how many values the answer has. RequestError for positions that are not there, and
    for an unknown site."""
    return _size(request, replay, named_among(sites_in(replay), request.sites))


def _size(request: ReadActivations, replay: Inspected, sites: Mapping[str, Site]) -> int:
    return sum(
        len(_span(request, text, replay.encoded)) * sum(site.columns for site in own.values())
        for text, own in _by_text(replay, sites)
    )


def _by_text(
    replay: Inspected, sites: Mapping[str, Site]
) -> Iterator[tuple[Replay | EncodedText, dict[str, Site]]]:
    """Yield the texts that sites are of, each with its own."""
    of_encoder = {n: one for n, one in sites.items() if one.of_source or not replay.decodes}
    if replay.encoded is not None and of_encoder:
        yield replay.encoded, of_encoder
    if decodes(replay) and len(of_encoder) < len(sites):
        yield replay, {name: one for name, one in sites.items() if name not in of_encoder}


def _span(
    request: ReadActivations, text: Replay | EncodedText, encoded: EncodedText | None
) -> range:
    """Return the positions of a text that are asked for. RequestError where they are not there."""
    last = text.length if request.last is None else request.last
    if not 0 <= request.first < last <= text.length:
        where = "text of the encoder" if text is encoded else "cache"
        raise RequestError(
            f"positions {request.first} to {last - 1} are not in the {where}, which holds "
            f"{text.length} tokens"
        )
    return range(request.first, last)


def _of_decoded(
    replay: Replay, span: range, sites: Mapping[str, Site], put: Put
) -> Generator[Where, None, None]:
    """Run tokens that a decoder has read, part by part, and put what the sites make of each."""

    def run_part(start: int, state: State | None, step: Step) -> None:
        put(record(replay, step, {} if start < span.start else sites))

    # Behind the layers only the last token of a step goes on.
    plan = replay.executor.program.plans[0]
    alone = any(is_behind_layers(plan, site) for site in sites.values())
    for _ in parts_again(replay, span.start, span.stop, run_part, 1 if alone else PART):
        yield "executor"


def _of_changed(
    run: ChangedRun, span: range, sites: Mapping[str, Site], put: Put, replay: Replay
) -> Generator[Where, None, None]:
    """Run tokens that a decoder has read under interventions, and put what the sites make."""
    plan = replay.executor.program.plans[0]
    alone = any(is_behind_layers(plan, site) for site in sites.values())
    for rows in run.values(span.start, span.stop, sites, 1 if alone else PART):
        put(rows)
        yield "executor"


def check_answer(request: ReadActivations, answer: ActivationsRead, text: RemoteText) -> None:
    """Raise ValueError unless an answer has the requested arrays, of finite numbers."""
    if answer.first != request.first:
        raise ValueError(f"first: expected {request.first}, found {answer.first}")
    if answer.values.keys() != set(request.sites):
        found = ", ".join(sorted(answer.values)) or "none"
        raise ValueError(f"sites: expected {', '.join(request.sites)}, found {found}")
    ends = [min(length, request.last or length) for length in text.lengths]
    counts = {end - request.first for end in ends}
    for name, rows in answer.values.items():
        if rows.ndim != 2 or len(rows) not in counts or not rows.shape[1]:
            expected = " or ".join(map(str, sorted(counts)))
            raise ValueError(f"{name}: expected {expected} rows of columns, found {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError(f"{name}: expected finite numbers")


ACTIVATIONS = Question(
    "activations",
    ReadActivations,
    ActivationsRead,
    run,
    "what its layers compute",
    ReadActivations(("embedding",)),
    turn=2,
    size=size_of,
    check=check_answer,
    of_encoders=True,
    of_pairs=True,
    runs_tokens=True,
)
