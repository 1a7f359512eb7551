"""Activations: what any sites of the model make of tokens, as arrays.

The tokens run once more, over the keys and values that are kept, as the model computes: with its
quantized weights and the gains in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.kv_cache.states import State
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.question import Parts, Question
from llm_lite.core.questions.replay import PART, Replay
from llm_lite.core.questions.running import parts_again
from llm_lite.core.questions.sites import Site, sites_named
from llm_lite.core.records import about

F32 = NDArray[np.float32]
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


class ActivationsRead(Event, frozen=True, eq=False):
    """The answer to ReadActivations: by the name that was asked for, float32 [tokens, columns]."""

    first: Annotated[int, about("Position of the first token.")]
    values: Annotated[Mapping[str, F32], about("[tokens, columns] by the name of the site.")]


def run(request: ReadActivations, replay: Replay) -> Parts[ActivationsRead]:
    """Return what the sites make. RequestError for a site or position that is not there, and for
    too many values; NotFiniteError where one is no number."""
    plan = replay.executor.program.plans[0]
    sites = sites_named(plan, request.sites)
    last = replay.length if request.last is None else request.last
    if not sites:
        raise RequestError("sites: expected one or more, found none")
    if not 0 <= request.first < last <= replay.length:
        raise RequestError(
            f"positions {request.first} to {last - 1} are not in the cache, which holds "
            f"{replay.length} tokens"
        )
    size = (last - request.first) * sum(site.columns for site in sites.values())
    most = MOST_OF_A_CLIENT if replay.is_shared else MOST_VALUES
    if size > most:
        raise RequestError(
            f"{size:,} values are too many, at most {most:,} are read at once: ask for "
            "fewer sites or positions"
        )
    found: dict[str, list[F32]] = {name: [] for name in sites}

    def run_part(start: int, state: State | None, step: Step) -> None:
        shown = {} if start < request.first else sites
        for name, rows in record(replay, step, shown).items():
            found[name].append(rows)

    # Behind the layers only the last token of a step goes on.
    alone = any(_is_behind_layers(plan, site) for site in sites.values())
    for _ in parts_again(replay, request.first, last, run_part, 1 if alone else PART):
        yield "executor"
    yield "anywhere"
    values = {
        name: replay.checked(np.concatenate(rows), f"what {name} makes")
        for name, rows in found.items()
    }
    return ActivationsRead(request.first, values)


def record(replay: Replay, step: Step, sites: Mapping[str, Site]) -> dict[str, F32]:
    """Run a step without storing; return by name what sites make, float32 [tokens, columns].

    A scratch tensor is read before another takes its place.
    """
    executor, found, done = replay.executor, dict[str, F32](), 0
    plan = executor.program.plan_of(step)
    index_of = {op.label: index for index, op in enumerate(plan.ops)}  # plans differ in their ops
    by_index: dict[int, list[str]] = {}
    for name, site in sites.items():
        by_index.setdefault(index_of[site.name], []).append(name)
    with replay.files.unchanged():
        for index in sorted(by_index):
            executor.run_ops(plan, step, done, index + 1, STORES)
            done = index + 1
            tensor = plan.tensors[plan.ops[index].outputs[0]]
            rows = executor.read(plan, tensor, step).copy()
            found.update(dict.fromkeys(by_index[index], rows))
        end = plan.layer_ends[-1] + 1  # recurrent states go on to the last layer
        if done < end:
            executor.run_ops(plan, step, done, end, STORES)
    return found


def _is_behind_layers(plan: Plan, site: Site) -> bool:
    return site.index > plan.layer_ends[-1]


ACTIVATIONS = Question(
    "activations",
    ReadActivations,
    ActivationsRead,
    run,
    "what its layers compute",
    ReadActivations(("embedding",)),
    turn=2,
    runs_tokens=True,
)
