"""The moving picture of each step: a function of the scene that draws it."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.desktop.features.lesson.pictures.attending import (
    draw_scores,
    draw_softmax,
    draw_values,
)
from llm_lite.desktop.features.lesson.pictures.candidates import draw_choosing, draw_filling
from llm_lite.desktop.features.lesson.pictures.choosing import draw_cache, draw_sampling
from llm_lite.desktop.features.lesson.pictures.crossing import draw_cross
from llm_lite.desktop.features.lesson.pictures.entering import draw_norm, draw_queries
from llm_lite.desktop.features.lesson.pictures.leaving import draw_neurons, draw_output
from llm_lite.desktop.features.lesson.pictures.placing import draw_position
from llm_lite.desktop.features.lesson.pictures.pooling import draw_pooling
from llm_lite.desktop.features.lesson.pictures.river import draw_residual
from llm_lite.desktop.features.lesson.pictures.source import draw_source
from llm_lite.desktop.features.lesson.pictures.tokens import draw_tokens
from llm_lite.desktop.features.lesson.pictures.whole import draw_whole
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
    "summary": draw_whole,
}
