"""Scores that characterise each head by its map of the whole sequence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention_scores import SCORES as NAMES
from llm_lite.core.inspect.text_maps import LayerScores, by_layer
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.questions.question import Parts, Question, RemoteText
from llm_lite.core.questions.replay import Inspected

MOST_WEIGHTS = 1 << 32  # of maps that a client has scored at once: half a minute of one core


class ReadScores(StepRequest, frozen=True):
    """Ask for ScoresRead, of the maps of all heads."""


class ScoresRead(Event, frozen=True, eq=False):
    """The answer to ReadScores: by name (core/inspect/attention_scores.py) float32 [layers, heads],
    nan where a layer has fewer heads or looks at another text, or no row of a map counts."""

    scores: Mapping[str, NDArray[np.float32]]


def run(request: ReadScores, replay: Inspected) -> Parts[ScoresRead]:
    heads = max(layer.heads for layer in replay.layers)
    weights = heads * len(replay.layers) * replay.length**2
    if not replay.length:
        raise RequestError("there is nothing to read: the cache is empty")
    if replay.is_shared and weights > MOST_WEIGHTS:
        raise RequestError(
            f"the maps of {replay.length} tokens have {weights:,} weights, at most "
            f"{MOST_WEIGHTS:,} are scored at once: ask for the maps of single layers"
        )
    found: list[dict[str, NDArray[np.float32]]] = []
    for number, layer in enumerate(replay.layers):
        if number:
            yield "executor"
        source = replay.attended((number,) if layer.attends else ())
        if source.note and not source.rows:
            raise RequestError(source.note)
        if layer.cross:
            found.append({})
            continue
        scores = LayerScores(source, number)
        for part in scores.parts:
            yield "anywhere"
            replay.check()
            scores.add(part)
        found.append(scores.means())
    return ScoresRead(by_layer(found))


def check_answer(request: ReadScores, answer: ScoresRead, text: RemoteText) -> None:
    """Raise ValueError unless there are all scores of all heads: of an encoder-decoder also of
    those that attend to its source."""
    if answer.scores.keys() != NAMES.keys():
        found = ", ".join(sorted(answer.scores)) or "none"
        raise ValueError(f"scores: expected {', '.join(NAMES)}, found {found}")
    layers = len(text.lengths) * text.layers
    for name, values in answer.scores.items():
        if values.shape != (layers, text.heads):
            expected = f"{layers} layers of {text.heads} heads"
            raise ValueError(f"{name}: expected {expected}, found {values.shape}")
        if np.isinf(values).any():
            raise ValueError(f"{name}: expected finite numbers")


SCORES = Question(
    "scores",
    ReadScores,
    ScoresRead,
    run,
    "what characterises its heads",
    ReadScores(),
    check=check_answer,
    of_encoders=True,
    turn=1,
    reads_rows=True,
)
