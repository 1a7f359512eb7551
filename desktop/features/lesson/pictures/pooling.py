"""The picture of an encoder's pooling: the vectors of all tokens become one, which is compared with
another text's."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages.inspecting.lesson import Pooled
from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.model import CompareWith
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.features.lesson.state import LONGEST_SENTENCE
from llm_lite.desktop.language.translate import mark, tr

LABEL = 24.0  # spacing units
WAYS = {
    "mean": mark("the mean of all tokens' vectors"),
    "cls": mark("the vector of the first token"),
    "last": mark("the vector of the last token"),
    "max": mark("the largest number of each column"),
    "mean_sqrt_len": mark("the sum of all, by the root of how many there are"),
    "weighted_mean": mark("a mean in which later tokens count more"),
}


class ComparedDraft(Struct):
    """The second text while it is typed."""

    compared: str = ""  # the text that the vector was compared with
    text: str = ""


def draw_pooling(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    found = trace.pooled
    if found is None:
        return
    x0, y0, x1, y1 = scene.rect
    small = ui.theme.size("small")
    left = x0 + ui.u(LABEL)
    scene.text(tr("What the last layer made of each token"), left, y0)
    vector = y0 + (y1 - y0) * 0.56
    top = y0 + small + ui.u(1.5)
    each = min(ui.u(7), (vector - small - ui.u(8) - top) / max(len(found.states), 1))
    high = max(ui.u(1), each - ui.u(1))
    for index, ((place, _), state) in enumerate(zip(trace.tokens, found.states, strict=False)):
        y, color = top + index * each, "link" if place == trace.position else "text"
        right = left - ui.u(2)
        scene.text(scene.token(place), right, y + (each - small) / 2 - 1, color, align="right",
                  room=ui.u(LABEL - 2))  # fmt: skip
        shown = progress(scene.t, 0.01 * index, 0.2 + 0.01 * index)
        scene.strip(state, (left, y + (each - high) / 2, x1, y + (each + high) / 2), shown)
    flow, done = progress(scene.t, 0.3, 0.55), progress(scene.t, 0.5, 0.7)
    low = top + len(found.states) * each + ui.u(1)
    for share in (0.2, 0.4, 0.6, 0.8):
        x = left + (x1 - left) * share
        scene.arrow((x, low), (x, vector - small - ui.u(2)), flow, "accent")
    words = tr("The vector of the text: {ways}").format(ways=_ways(found))
    bottom = scene.vector("vector", words, found.vector, (left, vector, x1, vector + ui.u(4)), done)
    _draw_length(scene, bottom + ui.u(1.5), left, done)
    _draw_beside(scene, y1 - ui.u(8) - 2 * small - ui.u(9), left)


def _ways(found: Pooled) -> str:
    """Return each step from the tokens' vectors to that of the text, but for its length."""
    ways = [tr(WAYS[name]) for name in found.names]
    for layer in found.dense:
        words = tr("a layer from {columns:,} to {rows:,} values")
        if layer.is_tanh:
            words = tr("a layer with tanh from {columns:,} to {rows:,} values")
        ways.append(words.format(columns=layer.columns, rows=layer.rows))
    return ", ".join(ways)


def _draw_length(scene: Scene, y: float, left: float, alpha: float) -> None:
    found = scene.trace.pooled
    if found is None or not found.normalized:
        return
    x = (
        left
        + scene.text(tr("divided by its length,"), left, y, "faint", alpha=alpha)
        + scene.u(1.5)
    )
    x += scene.number(("pooled_length",), x, y, "link", "left", alpha=alpha) + scene.u(1.5)
    scene.text(tr("so that only its direction counts"), x, y, "faint", alpha=alpha)


def _draw_beside(scene: Scene, y: float, left: float) -> None:
    """Draw a field for a second text, its vector, and the cosine of the two."""
    ui, (x0, _, x1, y1) = scene.ui, scene.rect
    found, small = scene.trace.pooled, scene.ui.theme.size("small")
    if found is None:
        return
    scene.text(tr("another text"), left - ui.u(2), y + ui.u(1.5), "text", align="right",
              room=left - x0)  # fmt: skip
    imgui.set_cursor_screen_pos(ImVec2(left, y))
    imgui.set_next_item_width(x1 - left)
    kept = ui.local(ComparedDraft)
    if kept.compared != scene.lesson.compared_text:  # another one was chosen elsewhere
        kept.compared = kept.text = scene.lesson.compared_text
    flags = imgui.InputTextFlags_.enter_returns_true
    hint = tr("A second text: press Enter to compare")
    entered, draft = imgui.input_text_with_hint("##lesson.beside", hint, kept.text, flags)
    ui.mark("lesson.beside")
    kept.text = draft = draft[:LONGEST_SENTENCE]
    if entered or (imgui.is_item_deactivated_after_edit() and draft != scene.lesson.compared_text):
        scene.actions.append(CompareWith(draft))
    if found.beside is None:
        return
    line = y1 - small
    top = line - small - ui.u(6)
    scene.strip(found.beside, (left, top, x1, top + ui.u(4)), progress(scene.t, 0.6, 0.8))
    shown = progress(scene.t, 0.8, 1.0)
    x = left + scene.text(tr("cosine of both vectors"), left, line, alpha=shown) + ui.u(1.5)
    x += scene.number(("similarity",), x, line, "link", "left", "body", shown) + ui.u(3)
    rect = (x, line, x1, line + ui.u(3))
    scene.bar(rect, max(0.0, found.similarity) * shown)
