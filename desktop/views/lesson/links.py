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
from llm_lite.desktop.state.lesson.numbers import Name
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
    "after_attention": "lens", "neuron": "lens", "up": "lens", "gate": "lens", "strong": "lens",
    "neurons": "lens", "ff_output": "lens", "attention": "lens", "feed_forward": "lens",
    "temperature": "xray", "top_p": "xray", "logit": "lens", "share": "xray",
    "kept_share": "xray", "kept": "xray", "drawn": "xray", "chosen_share": "xray",
    "length": "cache", "grown": "cache", "position_bytes": "cache", "cache_bytes": "cache",
    "context": "cache",
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
}
TITLES: dict[Source, str] = {
    "attention": mark("See this head in the Head view"),
    "xray": mark("See the token in the X-ray of the chat"),
    "lens": mark("See the layers in the Lens view"),
    "cache": mark("See the KV cache view"),
}


def source_of(name: Name) -> Source:
    return OF_NUMBERS[str(name[0])]


def place_of(name: Name, lesson: LessonState) -> str:
    """What a press on the number does."""
    return tr(TITLES[source_of(name)])


def follow(name: Name, state: AppState, ui: Ui) -> list[Action]:
    """To the view that the number comes from; of a head's own tile, to that head."""
    head = name[1] if name[0] == "head" else None
    return leave_for(source_of(name), state, ui, int(head) if head is not None else None)


def leave_for(source: Source, state: AppState, ui: Ui, head: int | None = None) -> list[Action]:
    """Close the lesson, and show the view with the lesson's token, layer and head. The lesson
    stays where it was."""
    trace = state.lesson.trace
    actions: list[Action] = [ShowLesson(False)]
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
