"""What the lesson says at each step, as it is true of the model that is followed."""

from __future__ import annotations

from llm_lite.core.messages.inspecting.lesson import TokenTrace, TracedShape
from llm_lite.desktop.features.lesson import words_beside as beside
from llm_lite.desktop.features.lesson.state import LessonState, StepName
from llm_lite.desktop.features.lesson.step_words import (
    ALIBI,
    BEHIND,
    LAYER_NORM,
    LEARNED,
    PLAIN_NEURONS,
    SINES,
    UNSCALED,
    WORDS,
    StepWords,
)
from llm_lite.desktop.language.translate import tr


def words_of(name: StepName, shape: TracedShape) -> StepWords:
    """Marked for translation; of this model."""
    if name == "position":
        return _of_position(shape)
    if name == "norm" and (shape.norm_behind or shape.norm == "layer"):
        return BEHIND if shape.norm_behind else LAYER_NORM
    if name == "neurons" and shape.gate == "none":
        return PLAIN_NEURONS
    if name == "residual" and shape.norm_behind:
        return beside.STEADY
    if name == "softmax" and shape.causal and shape.scale == 1.0:
        return UNSCALED
    of_path = {"encoder": beside.ENCODER, "encoder_decoder": beside.PAIR, "decoder": {}}
    return of_path[shape.path].get(name) or WORDS[name]


def _of_position(shape: TracedShape) -> StepWords:
    match shape.positions:
        case "learned":
            return beside.SEGMENTED if shape.segments else LEARNED
        case "sines":
            return SINES
        case "bias":
            return beside.BUCKETS if shape.path == "encoder_decoder" else ALIBI
    return WORDS["position"]


def title_of(name: StepName, lesson: LessonState) -> str:
    """To be translated."""
    if lesson.trace is not None:
        return words_of(name, lesson.trace.shape).title
    is_encoder = "cache" not in lesson.steps
    of_path = beside.PAIR if "source" in lesson.steps else beside.ENCODER if is_encoder else {}
    return (of_path.get(name) or WORDS[name]).title


def said(lesson: LessonState, trace: TokenTrace) -> str:
    """The sentences of the step, translated, with this model's numbers."""
    shape = trace.shape
    return tr(words_of(lesson.name, shape).says).format(
        layers=shape.layers, layer=trace.layer, heads=shape.heads, head=trace.head,
        neurons=f"{shape.feed_forward:,}", vocabulary=f"{shape.vocabulary:,}",
        width=f"{shape.width:,}", size=shape.head_dim, encoder=shape.encoder_layers,
        beams=shape.beams,
    )  # fmt: skip
