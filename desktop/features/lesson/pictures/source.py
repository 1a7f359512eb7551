"""Of encoder-decoders: the source goes through the encoder once."""

from __future__ import annotations

from imgui_bundle import ImVec2

from llm_lite.desktop.features.lesson.motion import part
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible

LABEL, ID, LAYERS = 24.0, 14.0, 34.0  # spacing units: widths of the columns
MOST_BANDS = 12  # layers that are drawn apart


def draw_source(scene: Scene) -> None:
    """A row for each token of the source: into the layers, out of them as a vector."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small = ui.theme.size("small")
    ids = x0 + ui.u(LABEL + ID)
    band = (ids + ui.u(4), ids + ui.u(4 + LAYERS))
    left = band[1] + ui.u(4)
    scene.say(tr("source"), x0 + ui.u(LABEL - 2), y0, align="right")
    scene.say(tr("id"), ids, y0, align="right")
    words = tr("encoder: {n} layers").format(n=trace.shape.encoder_layers)
    scene.say(words, (band[0] + band[1]) / 2, y0, "link", align="middle")
    scene.say(tr("what the encoder leaves for the decoder"), left, y0, room=x1 - left - ui.u(14))
    scene.say(tr("RMS"), x1, y0, "faint", align="right")
    top = y0 + small + ui.u(2)
    each = min(ui.u(11), (y1 - top) / max(len(trace.source), 1))
    run = part(scene.t, 0.1, 0.6)
    _draw_layers(scene, (band[0], top, band[1], top + each * len(trace.source)), run)
    after = min(0.02, 0.2 / max(len(trace.source), 1))  # all are there at the end
    for index, token in enumerate(trace.source):
        y = top + index * each
        line = y + (each - small) / 2 - 1
        right = x0 + ui.u(LABEL - 2)
        scene.say(visible(token.text), right, line, "text", align="right", room=ui.u(LABEL - 2))
        scene.number(("source_id", token.position), ids, line, "muted")
        shown = part(scene.t, 0.5 + after * index, 0.8 + after * index)
        high = max(ui.u(1.5), min(ui.u(5), each - ui.u(1.5)))
        place = (left, y + (each - high) / 2, x1 - ui.u(14), y + (each + high) / 2)
        scene.strip(token.hidden, place, shown)
        scene.number(("hidden", token.position), x1, line, "link", alpha=shown)


def _draw_layers(scene: Scene, rect: tuple[float, float, float, float], run: float) -> None:
    """A band for each layer, one after the other; lines cross in it, as every token sees all."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = rect
    count = min(max(trace.shape.encoder_layers, 1), MOST_BANDS)
    each, tokens = (x1 - x0) / count, max(len(trace.source), 1)
    row = (y1 - y0) / tokens
    for layer in range(count):
        done = min(1.0, max(0.0, run * count - layer))
        left = x0 + layer * each
        low, high = ImVec2(left, y0), ImVec2(left + each - ui.u(0.75), y1)
        scene.draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
        if done <= 0:
            continue
        ink = ui.color("accent", 0.5 * done)
        for token in range(tokens):
            y = y0 + (token + 0.5) * row
            for other in {0, token - 1, token, token + 1, tokens - 1} & set(range(tokens)):
                end = ImVec2(left + (each - ui.u(0.75)) * done, y0 + (other + 0.5) * row)
                scene.draw.add_line(ImVec2(left, y), end, ink, 1.0)
