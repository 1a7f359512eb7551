"""Runs the text of an encoder under changes, or other tokens in its place, and stores nothing.

Each token sees all others, so a text runs as a whole, in one part; a head behind the layers runs
for some tokens at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.encoding.session import hidden_tensor
from llm_lite.core.plan.ops import STORES
from llm_lite.core.questions.encoded_text import EncodedText
from llm_lite.core.questions.interventions.changed_run import HandedSource, record
from llm_lite.core.questions.interventions.table import PlacedChange
from llm_lite.core.questions.question import Where
from llm_lite.core.questions.sites import Site, is_behind_layers

F32 = NDArray[np.float32]


class Encoding(Struct, frozen=True):
    """`rows`: by name what sites make, float32 [tokens, columns]. `handed`: of the source of an
    encoder-decoder that ran under changes, or of another one, what its decoder sees of it."""

    rows: dict[str, F32]
    handed: HandedSource | None = None


def encode(
    text: EncodedText,
    sites: Mapping[str, Site],
    changes: Sequence[PlacedChange] = (),
    tokens: Sequence[int] | None = None,
    positions: Sequence[int] | None = None,
) -> Generator[Where, None, Encoding]:
    """Run a text under changes; return what sites make of `positions`, in ascending order, or of
    all tokens. `tokens`: others than the text's. RequestError for tokens that do not fit."""
    ids = text.tokens() if tokens is None else tuple(tokens)
    wanted = range(len(ids)) if positions is None else positions
    behind = {name: one for name, one in sites.items() if is_behind_layers(text.plan, one)}
    within = {name: one for name, one in sites.items() if name not in behind}
    late = [one for one in changes if is_behind_layers(text.plan, one.place.site)]
    early = [one for one in changes if one not in late]
    is_own = tokens is None and not early  # what the caches hold is what it would store
    executor, step = text.executor, text.step(tokens=ids)
    plan = executor.program.plan_of(step)
    end = None if is_own else len(plan.ops) if text.hands_over else None
    with nullcontext() if is_own else text.scratch(len(ids)):
        found = record(text, step, within, early, STORES if is_own else (), end=end)
        rows = {name: values[list(wanted)] for name, values in found.items()}
        hidden = executor.read(plan, hidden_tensor(plan), step).copy() if behind else None
        handed = HandedSource(len(ids), text.handed_rows(len(ids))) if end is not None else None
    if hidden is None:
        return Encoding(rows, handed)
    parts: dict[str, list[F32]] = {name: [] for name in behind}
    for run in _runs(wanted, executor.program.max_outputs):
        yield "executor"
        step = text.step(len(run), run.start, ids)
        plan = executor.program.plan_of(step)
        executor.write(plan, hidden_tensor(plan), step, hidden)
        begin = plan.layer_ends[-1] + 1
        for name, values in record(text, step, behind, late, begin=begin).items():
            parts[name].append(values)
    return Encoding({**rows, **{name: np.concatenate(one) for name, one in parts.items()}}, handed)


def _runs(positions: Sequence[int], most: int) -> Iterator[range]:
    """Yield runs of `most` positions at most that follow each other."""
    first = at = positions[0]
    for position in positions[1:]:
        if position != at + 1 or position - first == most:
            yield range(first, at + 1)
            first = position
        at = position
    yield range(first, at + 1)
