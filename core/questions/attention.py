"""Attention: how much each token attends to each in heads of a layer, as arrays.

What the window draws of the chat's maps never leaves the device (core/inspect/attention.py), and is
no question: an image has fewer values than a map.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.questions.question import Parts, Question, RemoteText
from llm_lite.core.questions.replay import Inspected, decodes
from llm_lite.core.records import about

F32 = NDArray[np.float32]
MOST_VALUES = 64 << 20  # of one answer: 256 MiB


class ReadAttention(StepRequest, frozen=True):
    """Ask for AttentionRead: rows of the maps of some heads of a layer."""

    layer: Annotated[int, Meta(ge=0, description="The first is 0.")]
    heads: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...], about("The first is 0; without them, all.")
    ] = ()
    first: Annotated[
        int | None, about("The first position of a query; without it, the first kept.")
    ] = None
    last: Annotated[
        int | None, about("The position behind the last query; without it, the end.")
    ] = None


class AttentionRead(Event, frozen=True, eq=False):
    """The answer to ReadAttention: probabilities by head, position of the query, position of the
    key; nan where a row's keys are no longer kept."""

    layer: Annotated[int, about("As it was asked for.")]
    heads: Annotated[tuple[int, ...], about("Which heads.")]
    first: Annotated[int, about("Position of the first row.")]
    attention: Annotated[F32, about("[heads, rows, positions of keys]")]


def run(request: ReadAttention, replay: Inspected) -> Parts[AttentionRead]:
    """Return the rows. RequestError for a layer, heads or positions that are not there, and for too
    many values; NotFiniteError where the weights are no numbers."""
    heads, rows = _wanted(request, replay)
    source = replay.attended((request.layer,), rows)
    if source.note and not source.rows:
        raise RequestError(source.note)
    yield "anywhere"
    replay.check()
    found = np.zeros((len(heads), len(rows), source.columns(request.layer)), np.float32)
    head_maps(source, request.layer, heads, found, rows)
    return AttentionRead(request.layer, heads, rows.start, found)


def size_of(request: ReadAttention, replay: Inspected) -> int:
    """Return how many values the answer has at most; RequestError as of `run`."""
    heads, rows = _wanted(request, replay)
    return len(heads) * len(rows) * replay.length


def _wanted(request: ReadAttention, replay: Inspected) -> tuple[tuple[int, ...], range]:
    layer = _layer(request.layer, replay)
    heads = request.heads or tuple(range(layer.heads))
    if max(heads) >= layer.heads:
        raise RequestError(
            f"layer {request.layer} has heads 0 to {layer.heads - 1}, asked for {list(heads)}"
        )
    kept = replay.rows if decodes(replay) else range(replay.length)
    if not kept and decodes(replay):
        raise RequestError(replay.no_rows)
    first = kept.start if request.first is None else request.first
    last = replay.length if request.last is None else request.last
    if not kept.start <= first < last <= kept.stop:
        raise RequestError(
            f"positions {first} to {last - 1} are not in the cache, which has queries of "
            f"{kept.start} to {kept.stop - 1}"
        )
    size = len(heads) * (last - first) * replay.length
    if size > MOST_VALUES:
        raise RequestError(
            f"these maps take {4 * size >> 20} MiB, at most {4 * MOST_VALUES >> 20} are given at "
            "once: ask for fewer heads or positions"
        )
    return heads, range(first, last)


def _layer(number: int, replay: Inspected) -> AttentionLayer:
    if not 0 <= number < len(replay.layers):
        raise RequestError(f"layer {number}: the model has layers 0 to {len(replay.layers) - 1}")
    layer = replay.layers[number]
    if not layer.attends:
        raise RequestError(f"layer {number} has a recurrent state instead of attention")
    return layer


def check_answer(request: ReadAttention, answer: AttentionRead, text: RemoteText) -> None:
    """Raise ValueError unless an answer has the rows that were asked for, each of probabilities."""
    heads = request.heads or tuple(range(text.heads))
    if (answer.layer, answer.heads) != (request.layer, heads):
        raise ValueError(f"heads: expected {heads} of layer {request.layer}, found others")
    ends = [min(length, request.last or length) for length in text.lengths]
    shapes = {(len(heads), end - answer.first) for end in ends}
    if answer.attention.shape[:2] not in shapes or answer.attention.shape[2:] not in {
        (length,) for length in text.lengths
    }:
        raise ValueError(f"attention: expected {shapes} rows, found {answer.attention.shape}")
    known = answer.attention[~np.isnan(answer.attention)]
    if ((known < 0) | (known > 1.001)).any():
        raise ValueError("attention: expected probabilities")


ATTENTION = Question(
    "attention",
    ReadAttention,
    AttentionRead,
    run,
    "what its heads attend to",
    ReadAttention(0),
    size=size_of,
    check=check_answer,
    of_encoders=True,
    reads_rows=True,
)
