"""The moving picture of each step: a function of the scene that draws it."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.desktop.features.lesson.pictures.attention import (
    draw_cross,
    draw_output,
    draw_scores,
    draw_softmax,
    draw_values,
)
from llm_lite.desktop.features.lesson.pictures.cache import draw_cache
from llm_lite.desktop.features.lesson.pictures.candidates import (
    draw_choosing,
    draw_filling,
    draw_sampling,
)
from llm_lite.desktop.features.lesson.pictures.neurons import draw_neurons
from llm_lite.desktop.features.lesson.pictures.overview import draw_summary
from llm_lite.desktop.features.lesson.pictures.pooling import draw_pooling
from llm_lite.desktop.features.lesson.pictures.position import draw_position
from llm_lite.desktop.features.lesson.pictures.queries import draw_norm, draw_queries
from llm_lite.desktop.features.lesson.pictures.residual import draw_residual
from llm_lite.desktop.features.lesson.pictures.tokens import draw_source, draw_tokens
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.features.lesson.state import StepName

PICTURES: dict[StepName, Callable[[Scene], None]] = {
    "tokens": draw_tokens,
    "position": draw_position,
    "norm": draw_norm,
    "queries": draw_queries,
    "scores": draw_scores,
    "softmax": draw_softmax,
    "values": draw_values,
    "output": draw_output,
    "neurons": draw_neurons,
    "residual": draw_residual,
    "sampling": draw_sampling,
    "cache": draw_cache,
    "source": draw_source,
    "cross": draw_cross,
    "choosing": draw_choosing,
    "filling": draw_filling,
    "pooling": draw_pooling,
    "summary": draw_summary,
}
