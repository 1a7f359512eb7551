"""The pictures of the first steps: a sentence is split into tokens, whose ids pick rows of the
embedding; the encoder reads the source of a translation."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.model import REPLACEMENT, FollowPosition
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect

ROWS = 11  # of the table that are drawn at most
TIGHT = 100.0  # spacing units of height, below which a long sentence has lower tiles
LABEL, ID, LAYERS = 24.0, 14.0, 34.0  # spacing units: widths of the columns of the source
MOST_BANDS = 12  # layers that are drawn apart


def draw_tokens(scene: Scene) -> None:
    x0, y0, x1, y1 = scene.rect
    bottom = _draw_sentence(scene, y0)
    gap = 6.0 if y1 - bottom > scene.u(50) else 2.0
    _draw_table(scene, (x0, bottom + scene.u(gap), x1, y1))


def _draw_sentence(scene: Scene, y: float) -> float:
    """Draw tiles that move apart, each with its id below; return the lower edge."""
    ui, trace = scene.ui, scene.trace
    apart, ids = progress(scene.t, 0.0, 0.3), progress(scene.t, 0.25, 0.45)
    x0, _, x1, _ = scene.rect
    is_tight = scene.height < ui.u(TIGHT) and len(trace.tokens) > 12
    small, tall = ui.theme.size("small"), ui.u(5 if is_tight else 8)
    wide = scene.text(tr("Tokens, and the id of each"), x0, y, "muted")
    note = _note(scene)
    if note:
        scene.text(note, x1, y, "faint", align="right", room=x1 - x0 - wide - ui.u(3))
    y += small + ui.u(2)
    x = x0
    for place, _ in trace.tokens:
        words = scene.token(place)
        with ui.font(style="small"):
            wide = float(imgui.calc_text_size(words).x) + ui.u(1) + ui.u(3) * apart
        with ui.font("mono", "small"):
            wide = max(wide, imgui.calc_text_size("00000").x + ui.u(1.5)) if apart > 0.5 else wide
        if x + wide > x1:
            x, y = x0, y + tall + small + ui.u(1.5 if is_tight else 3)
        chosen = place == trace.position
        scene.tile(words, (x, y, x + wide, y + tall), chosen=chosen and apart > 0.2)
        if scene.pressed(f"piece.{place}", (x, y, x + wide, y + tall)):
            scene.actions.append(FollowPosition(place))
        color = "link" if chosen else "muted"
        scene.number(("id", place), x + wide / 2, y + tall + ui.u(1), color, "middle", alpha=ids)
        x += wide + ui.u(0.25) + ui.u(1.5) * apart
    return y + tall + small + ui.u(1)


def _note(scene: Scene) -> str:
    """Return a note on what the tiles do not say by themselves."""
    before = scene.undrawn
    if any(REPLACEMENT in words for words in scene.lesson.token_texts):
        return tr("A tile with a question mark is a part of a letter.")
    if before:
        return tr("{n:,} earlier tokens are not drawn").format(n=before)
    if any(not words.strip() for words in scene.lesson.token_texts if words):
        return tr("␣ is a space.")
    return ""


def _draw_table(scene: Scene, rect: Rect) -> None:
    """Draw some rows of the embedding; the token's own comes out of it."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = rect
    small, found = ui.theme.size("small"), progress(scene.t, 0.4, 0.7)
    out = progress(scene.t, 0.65, 0.95)
    shape = trace.shape
    words = tr(
        "The embedding: {count:,} tokens, and for each of them a row of {width:,} numbers"
    ).format(width=shape.width, count=shape.vocabulary)
    scene.text(words, x0, y0, room=scene.legend(x1, y0) - x0)
    top = y0 + small + ui.u(2)
    strip_top = y1 - small - ui.u(10)
    room = strip_top - small - top
    rows, gap = (ROWS, ui.u(12)) if room > ui.u(34) else (5, ui.u(6.5))
    high = max(ui.u(1.5), min(ui.u(7), (room - gap) / rows))
    wide, left = (x1 - x0) * 0.86, x0 + (x1 - x0) * 0.14
    for row in range(rows):
        low = top + row * high
        own = row == rows // 2
        color = scene.ui.color("hover", 0.7 if row % 2 else 1.0)
        corner = ImVec2(left + wide, low + high - ui.u(0.5))
        scene.draw.add_rect_filled(ImVec2(left, low), corner, color, ui.u(0.5))
        if own:
            place = (left, low, left + wide, low + high - ui.u(0.5))
            scene.strip(trace.row, place, alpha=found, name=("row",))
            scene.text(
                tr("row {n}").format(n=trace.token), left - ui.u(2), low + (high - small) / 2 - 1,
                "link", align="right", alpha=max(found, 0.02),
            )  # fmt: skip
    middle = top + (rows // 2 + 1) * high
    x = left + wide / 2
    scene.arrow((x, middle), (x, strip_top - small - ui.u(2.5)), out, "accent")
    label = tr("The vector of “{token}”").format(token=scene.token(trace.position))
    scene.vector("row", label, trace.row, (x0, strip_top, x1, strip_top + ui.u(5)), out)


def draw_source(scene: Scene) -> None:
    """Draw a row for each token of the source, from its id to the encoder's vector."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small = ui.theme.size("small")
    ids = x0 + ui.u(LABEL + ID)
    band = (ids + ui.u(4), ids + ui.u(4 + LAYERS))
    left = band[1] + ui.u(4)
    scene.text(tr("source"), x0 + ui.u(LABEL - 2), y0, align="right")
    scene.text(tr("id"), ids, y0, align="right")
    words = tr("encoder: {n} layers").format(n=trace.shape.encoder_layers)
    scene.text(words, (band[0] + band[1]) / 2, y0, "link", align="middle")
    scene.text(tr("what the encoder leaves for the decoder"), left, y0, room=x1 - left - ui.u(14))
    scene.text(tr("RMS"), x1, y0, "faint", align="right")
    top = y0 + small + ui.u(2)
    each = min(ui.u(11), (y1 - top) / max(len(trace.source), 1))
    run = progress(scene.t, 0.1, 0.6)
    _draw_layers(scene, (band[0], top, band[1], top + each * len(trace.source)), run)
    after = min(0.02, 0.2 / max(len(trace.source), 1))  # all are there at the end
    for index, token in enumerate(trace.source):
        y = top + index * each
        line = y + (each - small) / 2 - 1
        right = x0 + ui.u(LABEL - 2)
        scene.text(visible(token.text), right, line, "text", align="right", room=ui.u(LABEL - 2))
        scene.number(("source_id", token.position), ids, line, "muted")
        shown = progress(scene.t, 0.5 + after * index, 0.8 + after * index)
        high = max(ui.u(1.5), min(ui.u(5), each - ui.u(1.5)))
        place = (left, y + (each - high) / 2, x1 - ui.u(14), y + (each + high) / 2)
        scene.strip(token.hidden, place, shown)
        scene.number(("hidden", token.position), x1, line, "link", alpha=shown)


def _draw_layers(scene: Scene, rect: Rect, run: float) -> None:
    """Draw a band for each layer, with crossing lines, as every token sees all others."""
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
