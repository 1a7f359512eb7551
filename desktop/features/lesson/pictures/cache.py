"""The picture of the KV cache: the drawn token joins the text and gets a column."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.model import (
    REPLACEMENT,
    RunSentence,
    is_written_by_model,
    text_up_to,
)
from llm_lite.desktop.features.lesson.numbers import SampledToken
from llm_lite.desktop.features.lesson.pictures.candidates import (
    next_token_text,
    quoted_next_token,
    sampled_token,
)
from llm_lite.desktop.features.lesson.scene import WARM, Scene
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect
from llm_lite.desktop.widgets.widgets import button

LAYERS = 32  # rows of the cache that are drawn at most


def draw_cache(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    found, small = sampled_token(scene), ui.theme.size("small")
    columns = len(trace.tokens) + 1
    each = min((x1 - x0) / columns, ui.u(26))
    _draw_text(scene, found, each)
    words = tr(
        "The KV cache: {layers} layers, and in each of them a key and a value of every token"
    )
    words = words.format(layers=trace.shape.cache_layers)
    top = y0 + ui.u(11) + small
    _draw_key(scene, top, words)
    foot = y1 - 2 * small - ui.u(4)
    _draw_grid(scene, (x0, top + small + ui.u(2), x1, foot - ui.u(2)), each)
    _draw_sizes(scene, foot)
    _draw_going_on(scene, found)


def _draw_key(scene: Scene, y: float, title: str) -> None:
    """Draw the title, the legend of new and kept columns, and how many columns are not drawn."""
    ui, small = scene.ui, scene.ui.theme.size("small")
    x0, _, x, _ = scene.rect
    for color, words in (
        (ui.color_of_series(WARM), tr("new")),
        (ui.color("accent", 0.35), tr("kept")),
    ):
        x -= scene.text(words, x, y, "faint", align="right") + ui.u(1)
        low = ImVec2(x - ui.u(2.5), y + (small - ui.u(2.5)) / 2 + 1)
        scene.draw.add_rect_filled(low, ImVec2(x, low.y + ui.u(2.5)), color, ui.u(0.5))
        x -= ui.u(5)
    taken = scene.text(title, x0, y, room=x - x0)
    if scene.undrawn > 0:
        words = tr("{n:,} earlier columns are not drawn").format(n=scene.undrawn)
        left = x0 + taken + ui.u(3)
        if x - left > ui.u(30):
            scene.text(words, left, y, "faint", room=x - left)


def _draw_going_on(scene: Scene, found: SampledToken) -> None:
    """Draw the button that follows the sentence with the drawn token at its end."""
    ui, state, trace = scene.ui, scene.state, scene.trace
    if found.chosen is None or trace.shape.path != "decoder" or state.busy:
        return
    text, before = trace.distribution.top[found.chosen].text, text_up_to(state, trace.position)
    if not before or REPLACEMENT in text:
        return
    label = tr("Go on with “{token}”").format(token=visible(text))
    with ui.font():
        wide = imgui.calc_text_size(label).x + ui.u(6)
    top = scene.rect[3] - imgui.get_frame_height()
    imgui.set_cursor_screen_pos(ImVec2(scene.rect[2] - wide, top))
    hint = tr("A new sentence that ends with this token: the lesson begins again with it.")
    if button(ui, "lesson.go_on", label, hint=hint, width=wide):
        scene.actions.append(RunSentence(before + text))


def _draw_text(scene: Scene, found: SampledToken, each: float) -> None:
    """Draw the sentence above its columns; the new token flies to a column of its own."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, _ = scene.rect
    tall, flown, gap = ui.u(7), progress(scene.t, 0.05, 0.35), ui.u(0.75)
    for column, (place, _) in enumerate(trace.tokens):
        x = x0 + column * each
        scene.tile(scene.token(place), (x, y0, x + each - gap, y0 + tall))
    x = x0 + len(trace.tokens) * each
    chosen = next_token_text(scene, found)
    with ui.font(style="small"):
        wide = max(each - gap, imgui.calc_text_size(chosen).x + ui.u(2))
    x = min(x, x1 - wide)
    left, top = x + (x1 - wide - x) * (1 - flown), y0 + ui.u(12) * (1 - flown)
    scene.tile(chosen, (left, top, left + wide, top + tall), chosen=True)
    line = y0 + tall + ui.u(1.5)
    landed = progress(scene.t, 0.35, 0.45)
    end = scene.number(("chosen_share",), x1, line, "link", alpha=landed)
    words = tr("{token} was drawn; its probability was")
    if trace.shape.path != "decoder":
        words = tr("{token} is the likeliest; its probability is")
        name = ("likely", trace.distribution.top[0].id)
        end = scene.number(name, x1, line, "link", alpha=landed)
    chosen = quoted_next_token(scene, found)
    scene.text(words.format(token=chosen), x1 - end - ui.u(1.5), line, align="right", alpha=landed)
    went_on = trace.distribution.went_on
    if went_on is not None:
        text = tr("As it was written: “{token}” stands here.")
        if trace.shape.path == "decoder" and is_written_by_model(scene.state, trace.position + 1):
            text = tr("When it answered, the model drew “{token}” here.")
        elif trace.shape.path == "encoder_decoder":
            text = tr("The target goes on with “{token}” here.")
        text = text.format(token=visible(went_on.text))
        scene.text(text, x0, line, "faint")


def _draw_grid(scene: Scene, rect: Rect, each: float) -> None:
    """Draw layers as rows and positions as columns; the new column fills from the first layer
    down."""
    ui, trace, draw = scene.ui, scene.trace, scene.draw
    x0, y0, _, y1 = rect
    rows = min(trace.shape.cache_layers, LAYERS)
    columns = len(trace.tokens) + 1
    high, gap = (y1 - y0) / rows, ui.u(0.75)
    filled = progress(scene.t, 0.35, 0.95) * rows
    old, new = ui.color("accent", 0.35), ui.color_of_series(WARM)
    for row in range(rows):
        y = y0 + row * high
        low = max(1.0, high - max(1.0, ui.u(0.25)))
        for column in range(columns):
            x = x0 + column * each
            color = old if column < columns - 1 else new if row < filled else ui.color("hover")
            draw.add_rect_filled(ImVec2(x, y), ImVec2(x + each - gap, y + low), color)


def _draw_sizes(scene: Scene, y: float) -> None:
    ui = scene.ui
    x0, small, grown = scene.rect[0], ui.theme.size("small"), progress(scene.t, 0.8, 1.0)
    x = x0 + scene.text(tr("each token takes"), x0, y) + ui.u(1.5)
    x += scene.number(("position_bytes",), x, y, "text", "left") + ui.u(1)
    x += scene.text("·", x, y) + ui.u(1)
    x += scene.number(("cache_values",), x, y, "text", "left") + ui.u(1)
    x += scene.text(tr("numbers"), x, y) + ui.u(5)
    x += scene.text(tr("tokens in the cache"), x, y) + ui.u(1.5)
    x += scene.number(("length",), x, y, "text", "left") + ui.u(1.5)
    x += scene.text("→", x, y, alpha=max(grown, 0.02)) + ui.u(1.5)
    x += scene.number(("grown",), x, y, "link", "left", alpha=grown)
    y += small + ui.u(1.5)
    x = x0 + scene.text(tr("together"), x0, y) + ui.u(1.5)
    x += scene.number(("cache_bytes",), x, y, "text", "left") + ui.u(5)
    x += scene.text(tr("room for"), x, y) + ui.u(1.5)
    x += scene.number(("context",), x, y, "text", "left") + ui.u(1.5)
    scene.text(tr("tokens"), x, y)
