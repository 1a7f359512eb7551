"""From a number of the lesson to the view that it comes from, by the actions of that view."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.caching import PointAt
from llm_lite.desktop.actions.inspecting import SetXRay
from llm_lite.desktop.actions.lesson.following import ShowLesson
from llm_lite.desktop.actions.program import SetAttention
from llm_lite.desktop.actions.window.layouts import ShowInspector
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.lesson.lesson_state import LessonState, StepName
from llm_lite.desktop.state.lesson.number import Name
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.ui import Ui

Source = Literal["attention", "xray", "lens", "cache"]
OF_NUMBERS: dict[str, Source] = {
    "id": "xray", "row": "xray", "position": "xray", "place": "xray", "embedded": "lens",
    "angle": "attention", "residual": "lens",
    "normed": "lens", "zoom": "lens", "query": "attention",
    "key": "cache", "value": "cache", "dot": "attention", "sum": "attention", "scale": "attention",
    "score": "attention", "probability": "attention", "unscaled": "attention",
    "others": "attention", "others_unscaled": "attention", "sink": "attention",
    "sink_unscaled": "attention",
    "head_output": "attention", "head": "attention", "attended": "lens",
    "after_attention": "lens", "neuron": "lens", "up": "lens", "gate": "lens", "curved": "lens",
    "strong": "lens",
    "neurons": "lens", "ff_output": "lens", "attention": "lens", "feed_forward": "lens",
    "temperature": "xray", "top_p": "xray", "logit": "lens", "share": "xray",
    "kept_share": "xray", "kept": "xray", "drawn": "xray", "chosen_share": "xray",
    "length": "cache", "grown": "cache", "position_bytes": "cache", "cache_bytes": "cache",
    "context": "cache",
    "segment": "attention", "embedding_sum": "lens", "bias": "attention", "distance": "attention",
    "summed": "lens", "cross": "lens", "likely": "attention", "log_likely": "attention",
    "source_id": "attention", "hidden": "attention", "cross_query": "attention",
    "cross_score": "attention", "cross_probability": "attention", "cross_others": "attention",
    "cross_output": "attention", "cross_attended": "attention", "rank": "attention",
    "pooled_tokens": "attention", "pooled_length": "attention", "vector": "attention",
    "similarity": "attention",
}  # fmt: skip
OF_STEPS: dict[StepName, Source] = {
    "tokens": "xray",
    "position": "attention",
    "norm": "lens",
    "queries": "attention",
    "scores": "attention",
    "softmax": "attention",
    "values": "attention",
    "output": "attention",
    "neurons": "lens",
    "residual": "lens",
    "sampling": "xray",
    "cache": "cache",
    "source": "attention",
    "cross": "attention",
    "choosing": "attention",
    "filling": "attention",
    "pooling": "attention",
}
TITLES: dict[Source, str] = {
    "attention": mark("See this head in the Head view"),
    "xray": mark("See the token in the X-ray of the chat"),
    "lens": mark("See the layers in the Lens view"),
    "cache": mark("See the KV cache view"),
}


def source_of(name: Name, lesson: LessonState) -> Source:
    return _known(OF_NUMBERS[str(name[0])], lesson)


def source_of_step(lesson: LessonState) -> Source:
    return _known(OF_STEPS[lesson.name], lesson)


def _known(source: Source, lesson: LessonState) -> Source:
    """Encoders and encoder-decoders have maps; the other views are those of the chat."""
    is_chat = lesson.trace is None or lesson.trace.shape.path == "decoder"
    return source if is_chat else "attention"


def place_of(name: Name, lesson: LessonState) -> str:
    """What a press on the number does."""
    return tr(TITLES[source_of(name, lesson)])


def follow(name: Name, state: AppState, ui: Ui) -> list[Action]:
    """To the view that the number comes from; of a head's own tile, to that head."""
    head = name[1] if name[0] == "head" else None
    return leave_for(
        source_of(name, state.lesson), state, ui, int(head) if head is not None else None
    )


def leave_for(source: Source, state: AppState, ui: Ui, head: int | None = None) -> list[Action]:
    """Close the lesson, and show the view with the lesson's token, layer and head. The lesson
    stays where it was."""
    trace = state.lesson.trace
    actions: list[Action] = [ShowLesson(False, away=True)]
    if trace is None:
        return actions
    chosen = (trace.layer, trace.head if head is None else head)
    choice = replace(state.attention, row=trace.position)
    if source == "attention" and chosen not in choice.locked:
        choice = choice.toggled(chosen)
    actions.append(SetAttention(choice))
    if source == "xray":
        xray = replace(
            state.xray, shown=True, by="head", layer=trace.layer, head=chosen[1], at=trace.position
        )
        return [*actions, SetXRay(xray)]
    if not state.layouts.shows_inspector:
        actions.append(ShowInspector(True))
    if source == "cache":
        actions.append(PointAt(trace.position))
    ui.ask({"attention": "view:head", "lens": "view:lens", "cache": "view:kv_cache"}[source])
    return actions
