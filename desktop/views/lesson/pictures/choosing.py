"""Steps 11 and 12: logits, temperature and top-p; the drawn token joins the cache."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.lesson.following import DrawAgain, SetLessonSampling
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.lesson.number import LISTED
from llm_lite.desktop.state.lesson.sampled import Sampled, sampled
from llm_lite.desktop.views.lesson.motion import part
from llm_lite.desktop.views.lesson.scene import WARM, Scene
from llm_lite.desktop.widgets.controls import slider
from llm_lite.desktop.widgets.icons import ICON_DICE
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.widgets import button

LABEL = 24.0  # spacing units
LAYERS = 32  # rows of the cache that are drawn at most


def _sampled(scene: Scene) -> Sampled:
    """Kept while the lesson is the same."""
    lesson = scene.lesson
    held = scene.ui.memory.get("lesson.sampled")
    if held is None or held[0] is not lesson:
        found = sampled(scene.trace.distribution, lesson.temperature, lesson.top_p, lesson.draws)
        held = scene.ui.memory["lesson.sampled"] = (lesson, found)
    known: Sampled = held[1]
    return known


def _drawn(scene: Scene, found: Sampled) -> str:
    """The token that comes next: the drawn one, of encoder-decoders the likeliest."""
    index = found.chosen if scene.trace.shape.path == "decoder" else 0
    if index is None:
        return tr("a rarer token")
    return f"“{visible(scene.trace.distribution.top[index].text)}”"


def draw_sampling(scene: Scene) -> None:
    ui, lesson = scene.ui, scene.lesson
    x0, y0, x1, y1 = scene.rect
    found, small = _sampled(scene), ui.theme.size("small")
    _draw_sliders(scene)
    top = y0 + ui.u(13)
    columns = (x0 + ui.u(LABEL + 14), x1 - ui.u(16), x1)
    scene.say(tr("logit"), columns[0], top, align="right")
    scene.say(tr("probability"), columns[1], top, align="right")
    scene.say(tr("after top-p"), columns[2], top, align="right")
    top += small + ui.u(1)
    line = y1 - small - ui.u(12)
    tokens = scene.trace.distribution.top[:LISTED]
    each = min(ui.u(8), (line - ui.u(3) - top) / len(tokens))
    for index, token in enumerate(tokens):
        grown = part(scene.t, 0.03 * index, 0.3 + 0.03 * index)
        kept, y = index < found.kept, top + index * each
        text_y = y + (each - small) / 2 - 1
        color = "text" if kept else "faint"
        right = x0 + ui.u(LABEL) - ui.u(2)
        scene.say(visible(token.text), right, text_y, color, align="right", room=ui.u(LABEL - 2))
        scene.number(("logit", token.id), columns[0], text_y, "muted")
        high = max(ui.u(1.5), min(ui.u(4), each - ui.u(1.5)))
        rect = (columns[0] + ui.u(3), y + (each - high) / 2, columns[1] - ui.u(14))
        share = found.shares[index] * grown
        scene.bar(
            (*rect, rect[1] + high), share, "accent" if kept else "faint", 1.0 if kept else 0.5
        )
        scene.number(("share", token.id), columns[1], text_y, color, alpha=grown)
        scene.number(("kept_share", token.id), columns[2], text_y, "link", alpha=grown)
        if not kept:
            scene.say("–", columns[2], text_y, "faint", align="right")
    _draw_draw(scene, found, (x0, line, x1, y1), lesson.draws)


def _draw_sliders(scene: Scene) -> None:
    """Temperature and top-p, side by side above the picture."""
    ui, lesson = scene.ui, scene.lesson
    x0, y0, x1, _ = scene.rect
    half = (x1 - x0) / 2 - ui.u(4)
    for left, name in ((x0, "temperature"), (x0 + half + ui.u(8), "top_p")):
        imgui.set_cursor_screen_pos(ImVec2(left, y0 - ui.u(1)))
        imgui.begin_child(f"lesson.{name}", ImVec2(half, ui.u(11)))
        if name == "temperature":
            value = slider(ui, "lesson.temperature", tr("Temperature"), lesson.temperature,
                           (0.1, 2.0), shown=" ")  # fmt: skip
            changed = (value, lesson.top_p)
        else:
            value = slider(ui, "lesson.top_p", tr("Top-p"), lesson.top_p, (0.05, 1.0), shown=" ")
            changed = (lesson.temperature, round(value, 2))
        imgui.end_child()
        scene.number((name,), left + half, y0 - ui.u(1), "link")
        if changed != (lesson.temperature, lesson.top_p):
            scene.actions.append(SetLessonSampling(*changed))


def _draw_draw(
    scene: Scene, found: Sampled, rect: tuple[float, float, float, float], draws: int
) -> None:
    """What is kept fills a line from 0 to 1; the drawn number falls on a token."""
    ui, draw = scene.ui, scene.draw
    x0, y0, x1, y1 = rect
    small = ui.theme.size("small")
    x = x0 + scene.say(tr("Tokens that top-p leaves:"), x0, y0) + ui.u(1.5)
    x += scene.number(("kept",), x, y0, "link", "left") + ui.u(5)
    words = tr("A random number from 0 to 1 falls on one of them:")
    x += scene.say(words, x, y0, room=x1 - x - ui.u(14)) + ui.u(1.5)
    x += scene.number(("drawn",), x, y0, "link", "left") + ui.u(1.5)
    words = f"→ {_drawn(scene, found)}"
    scene.say(words, x, y0, "text", alpha=part(scene.t, 0.8, 1.0))
    label = tr("Draw again")
    with ui.font():
        room = imgui.calc_text_size(f"{ICON_DICE}  {label}").x + ui.u(7)
    right, top = x1 - room - ui.u(3), y0 + small + ui.u(3)
    bottom = min(top + ui.u(6), y1)
    at = x0
    tokens = scene.trace.distribution.top
    for index in range(min(found.kept, 64)):
        share = found.kept_share(index) * (right - x0)
        if share < 1.0:
            break
        color = ui.color_of_series(index)
        chosen = index == found.chosen
        low, high = ImVec2(at, top), ImVec2(at + share - 1, bottom)
        draw.add_rect_filled(low, high, color if chosen else ui.color("hover"), ui.u(0.5))
        ink = "base" if chosen else "muted"
        if share > ui.u(6):
            shown = visible(tokens[index].text)
            y = (top + bottom - small) / 2
            scene.say(shown, at + share / 2, y, ink, align="middle", room=share - ui.u(1))
        at += share
    if at < right:
        draw.add_rect_filled(ImVec2(at, top), ImVec2(right, bottom), ui.color("hover"), ui.u(0.5))
    falls = part(scene.t, 0.6, 0.95)
    x = x0 + found.draw * (right - x0)
    y = y0 + small + (top - y0 - small) * falls
    draw.add_triangle_filled(
        ImVec2(x - ui.u(1.25), y - ui.u(2)), ImVec2(x + ui.u(1.25), y - ui.u(2)), ImVec2(x, y + 1),
        ui.color("text"),
    )  # fmt: skip
    imgui.set_cursor_screen_pos(ImVec2(x1 - room, top - ui.u(0.25)))
    if button(ui, "lesson.draw", label, ICON_DICE, width=room):
        scene.actions.append(DrawAgain())


def draw_cache(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    found, small = _sampled(scene), ui.theme.size("small")
    chosen = _drawn(scene, found)
    columns = len(trace.tokens) + 1
    each = min((x1 - x0) / columns, ui.u(26))
    _draw_text(scene, chosen, each)
    words = tr(
        "The KV cache: {layers} layers, and in each of them a key and a value of every token"
    )
    words = words.format(layers=trace.shape.cache_layers)
    top = y0 + ui.u(11) + small
    scene.say(words, x0, top)
    foot = y1 - 2 * small - ui.u(4)
    _draw_grid(scene, (x0, top + small + ui.u(2), x1, foot - ui.u(2)), each)
    _draw_sizes(scene, foot)


def _draw_text(scene: Scene, chosen: str, each: float) -> None:
    """The sentence above its columns; the new token comes flying to a column of its own."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, _ = scene.rect
    tall, flown, gap = ui.u(7), part(scene.t, 0.05, 0.35), ui.u(0.75)
    for column, (place, _) in enumerate(trace.tokens):
        x = x0 + column * each
        scene.tile(scene.token(place), (x, y0, x + each - gap, y0 + tall))
    x = x0 + len(trace.tokens) * each
    left, top = x + (x1 - each - x) * (1 - flown), y0 + ui.u(12) * (1 - flown)
    scene.tile(chosen, (left, top, left + each - gap, top + tall), chosen=True)
    line = y0 + tall + ui.u(1.5)
    landed = part(scene.t, 0.35, 0.45)
    end = scene.number(("chosen_share",), x1, line, "link", alpha=landed)
    words = tr("{token} was drawn; its probability was")
    if trace.shape.path != "decoder":
        words = tr("{token} is the likeliest; its probability is")
        name = ("likely", trace.distribution.top[0].id)
        end = scene.number(name, x1, line, "link", alpha=landed)
    scene.say(words.format(token=chosen), x1 - end - ui.u(1.5), line, align="right", alpha=landed)
    went_on = trace.distribution.went_on
    if went_on is not None:
        text = tr("As it was written: “{token}” stands here.").format(token=visible(went_on.text))
        scene.say(text, x0, line, "faint")


def _draw_grid(scene: Scene, rect: tuple[float, float, float, float], each: float) -> None:
    """Rows are layers, columns positions; the new column fills from the first layer down."""
    ui, trace, draw = scene.ui, scene.trace, scene.draw
    x0, y0, _, y1 = rect
    rows = min(trace.shape.cache_layers, LAYERS)
    columns = len(trace.tokens) + 1
    high, gap = (y1 - y0) / rows, ui.u(0.75)
    filled = part(scene.t, 0.35, 0.95) * rows
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
    x0, small, grown = scene.rect[0], ui.theme.size("small"), part(scene.t, 0.8, 1.0)
    x = x0 + scene.say(tr("each token takes"), x0, y) + ui.u(1.5)
    x += scene.number(("position_bytes",), x, y, "link", "left") + ui.u(5)
    x += scene.say(tr("tokens in the cache"), x, y) + ui.u(1.5)
    x += scene.number(("length",), x, y, "text", "left") + ui.u(1.5)
    x += scene.say("→", x, y, alpha=max(grown, 0.02)) + ui.u(1.5)
    x += scene.number(("grown",), x, y, "link", "left", alpha=grown)
    y += small + ui.u(1.5)
    x = x0 + scene.say(tr("together"), x0, y) + ui.u(1.5)
    x += scene.number(("cache_bytes",), x, y, "text", "left") + ui.u(5)
    x += scene.say(tr("room for"), x, y) + ui.u(1.5)
    x += scene.number(("context",), x, y, "text", "left") + ui.u(1.5)
    scene.say(tr("tokens"), x, y)
