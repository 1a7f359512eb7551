"""Activations: what any sites of the model make of tokens, as arrays.

The tokens run once more, over the keys and values that are kept, as the model computes: with its
quantized weights and the gains in force.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Annotated, TypeGuard

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.kv_cache.states import State
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.interventions.changed_run import ChangedRun, record
from llm_lite.core.questions.interventions.table import placed
from llm_lite.core.questions.question import Parts, Question, RemoteText, Where
from llm_lite.core.questions.replay import PART, Inspected, Replay
from llm_lite.core.questions.running import parts_again
from llm_lite.core.questions.sites import Site, Stack, all_sites, is_behind_layers, named_among
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

    for number, (text, own) in enumerate(_by_text(replay, sites)):
        if number:
            yield "executor"
        span = _span(request, text, replay.encoded)
        if isinstance(text, EncodedText):
            if request.interventions:
                raise RequestError("interventions: an encoder's text runs as it is, without any")
            yield from _of_whole(text, span, own, put)
        elif request.interventions:
            yield from _of_changed(request, text, span, own, put)
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
        replay.executor.program.plans[0] if _decodes(replay) else None,
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


def _decodes(replay: Inspected) -> TypeGuard[Replay]:
    return replay.decodes


def _by_text(
    replay: Inspected, sites: Mapping[str, Site]
) -> Iterator[tuple[Replay | EncodedText, dict[str, Site]]]:
    """Yield the texts that sites are of, each with its own."""
    of_encoder = {n: one for n, one in sites.items() if one.of_source or not replay.decodes}
    if replay.encoded is not None and of_encoder:
        yield replay.encoded, of_encoder
    if _decodes(replay) and len(of_encoder) < len(sites):
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
    request: ReadActivations, replay: Replay, span: range, sites: Mapping[str, Site], put: Put
) -> Generator[Where, None, None]:
    """Run tokens that a decoder has read under interventions, and put what the sites make."""
    plan = replay.executor.program.plans[0]
    stack: Stack = "" if replay.encoded is None else "decoder"
    changes = placed(request.interventions, plan, replay.length, replay.model, stack)
    alone = any(is_behind_layers(plan, site) for site in sites.values())
    run = ChangedRun(replay, changes)
    for rows in run.values(span.start, span.stop, sites, 1 if alone else PART):
        put(rows)
        yield "executor"


def _of_whole(
    text: EncodedText, span: range, sites: Mapping[str, Site], put: Put
) -> Generator[Where, None, None]:
    """Run the text of an encoder, and its head for some tokens at a time; put what the sites make
    of positions."""
    executor, step = text.executor, text.step()
    plan = executor.program.plan_of(step)
    behind = {name: site for name, site in sites.items() if is_behind_layers(text.plan, site)}
    within = {name: site for name, site in sites.items() if name not in behind}
    put(record(text, step, within, shown=slice(span.start, span.stop)))
    if not behind:
        return
    hidden = executor.read(plan, _hidden(plan), step).copy()
    most = executor.program.max_outputs
    for first in range(span.start, span.stop, most):
        yield "executor"
        step = text.step(min(most, span.stop - first), first)
        plan = executor.program.plan_of(step)
        executor.write(plan, _hidden(plan), step, hidden)
        put(record(text, step, behind, begin=plan.layer_ends[-1] + 1))


def _hidden(plan: Plan) -> Tensor:
    """Return the tensor behind the last layer."""
    return plan.tensors[plan.ops[plan.layer_ends[-1]].outputs[0]]


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
