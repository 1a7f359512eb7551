"""Numbers of routing: how often experts are chosen, what they weigh, how evenly, and by which
words."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import Gains, ModelInfo
from llm_lite.core.messages.gains import AS_ROUTED, CHOICES

F32 = NDArray[np.float32]
ALWAYS, ROUTER, LAST = CHOICES["always"], AS_ROUTED, CHOICES["last"]


def loads(routing: Routing) -> F32:
    """Return how often each expert was chosen, [layers, experts], as a multiple of what it would be
    if all were chosen alike."""
    even = np.float32(routing.chosen.size / (len(routing.layers) * routing.experts))
    found: F32 = counts(routing) / even
    return found


def counts(routing: Routing) -> F32:
    """Return by how many tokens each expert was chosen, [layers, experts]."""
    return _sums(routing, None)


def weights(routing: Routing) -> F32:
    """Return the part of its layer's shares that each expert had, [layers, experts]."""
    sums = _sums(routing, np.abs(routing.shares))
    whole = sums.sum(axis=1, keepdims=True)
    parts: F32 = np.divide(sums, whole, out=np.zeros_like(sums), where=whole > 0)
    return parts


def _sums(routing: Routing, values: F32 | None) -> F32:
    layers, experts = len(routing.layers), routing.experts
    places = routing.chosen.astype(np.int64) + experts * np.arange(layers)[:, None]
    given = None if values is None else values.reshape(-1)
    found = np.bincount(places.reshape(-1), given, minlength=layers * experts)
    sums: F32 = found.reshape(layers, experts).astype(np.float32)
    return sums


def balance(counted: F32) -> F32:
    """Return how evenly each layer uses its experts, [layers]: the entropy of their loads, as a
    part of the largest there could be; 1: all alike."""
    whole = counted.sum(axis=1, keepdims=True)
    p = np.divide(counted, whole, out=np.zeros_like(counted), where=whole > 0)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1)
    most = np.log(counted.shape[1]) if counted.shape[1] > 1 else 1.0
    even: F32 = (entropy / most).astype(np.float32)
    return even


class Word(Struct, frozen=True):
    """A word that an expert handles."""

    text: str
    count: int  # how often it chose the expert
    of: int  # how often it is there


def shares_of(routing: Routing, row: int, expert: int) -> F32:
    """Return what an expert of a row of layers weighed for each token, [tokens]; 0: not chosen."""
    chosen = routing.chosen[:, row] == expert
    found: F32 = np.where(chosen, routing.shares[:, row], 0).sum(axis=1)
    return found


def words_of(routing: Routing, row: int, expert: int, texts: Sequence[str]) -> list[Word]:
    """Return the words whose tokens chose an expert, those first that did most often beyond what is
    usual in the text; `texts` are by position."""
    took = (routing.chosen[:, row] == expert).any(axis=1)
    present, taken = Counter[str](), Counter[str]()
    for place, text in enumerate(texts[routing.first : routing.first + len(took)]):
        word = text.strip() or text
        present[word] += 1
        taken[word] += bool(took[place])
    usual = took.mean() if len(took) else 0.0
    found = [Word(word, count, present[word]) for word, count in taken.items() if count]
    return sorted(found, key=lambda one: usual * one.of - one.count)


def as_csv(routing: Routing, texts: Sequence[str]) -> str:
    """Return the choices as a table: a line for each token and layer, experts and shares in the
    order of scores, with blanks between."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("position", "token", "layer", "experts", "shares"))
    for place, (chosen, shares) in enumerate(zip(routing.chosen, routing.shares, strict=True)):
        position = routing.first + place
        token = texts[position] if position < len(texts) else ""
        for layer, experts, weighed in zip(routing.layers, chosen, shares, strict=True):
            numbers = " ".join(f"{share:.6g}" for share in weighed)
            table.writerow((position, token, layer, " ".join(map(str, experts)), numbers))
    return file.getvalue()


def switches_of(model: ModelInfo, gains: Gains, layer: int, expert: int) -> tuple[float, float]:
    """Return the factor of an expert's share, and whether it is chosen."""
    row = gains[model.gain_rows + layer]
    return row[expert], row[model.experts + expert]


def with_switches(
    model: ModelInfo, gains: Gains, layer: int, expert: int, switches: tuple[float, float]
) -> Gains:
    """Return all gains with other switches of one expert."""
    index = model.gain_rows + layer
    row = list(gains[index])
    row[expert], row[model.experts + expert] = switches
    return (*gains[:index], tuple(row), *gains[index + 1 :])


def without_switches(model: ModelInfo, gains: Gains) -> Gains:
    """Return all gains with no expert switched."""
    return gains[: model.gain_rows] + ((1.0,) * (2 * model.experts),) * model.layers
