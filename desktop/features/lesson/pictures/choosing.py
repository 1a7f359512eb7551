"""Logits, temperature and top-p; the drawn token joins the cache."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.lesson.model import (
    PIECE,
    DrawAgain,
    RunSentence,
    SetLessonSampling,
    by_model,
    text_up_to,
)
from llm_lite.desktop.features.lesson.motion import part
from llm_lite.desktop.features.lesson.numbers import LISTED, Sampled, sampled
from llm_lite.desktop.features.lesson.scene import WARM, Scene
from llm_lite.desktop.features.lesson.state import USUAL
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.controls import slider
from llm_lite.desktop.widgets.icons import ICON_DICE, ICON_UNDO
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.widgets import button, icon_button

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


def drawn_words(scene: Scene, found: Sampled) -> str:
    """The token that comes next: the drawn one, of encoder-decoders the likeliest."""
    index = found.chosen if scene.trace.shape.path == "decoder" else 0
    if index is None:
        return tr("a rarer token")
    return visible(scene.trace.distribution.top[index].text)


def _drawn(scene: Scene, found: Sampled) -> str:
    words = drawn_words(scene, found)
    return words if found.chosen is None else f"“{words}”"


def draw_sampling(scene: Scene) -> None:
    ui, lesson = scene.ui, scene.lesson
    x0, y0, x1, y1 = scene.rect
    found, small = _sampled(scene), ui.theme.size("small")
    _draw_sliders(scene)
    line = y1 - small - ui.u(12)
    top = _draw_last_vector(scene, y0 + ui.u(12), line)
    columns = (x0 + ui.u(LABEL + 14), x1 - ui.u(16), x1)
    scene.say(tr("logit"), columns[0], top, align="right")
    scene.say(tr("probability"), columns[1], top, align="right")
    scene.say(tr("after top-p"), columns[2], top, align="right")
    top += small + ui.u(1)
    tokens = scene.trace.distribution.top[:LISTED]
    went_on, rank = scene.trace.distribution.went_on, scene.trace.distribution.rank
    rows = len(tokens) + (rank > LISTED)
    each = min(ui.u(8), (line - ui.u(2) - top) / rows)
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
        if went_on is not None and token.id == went_on.id:
            _draw_written(scene, (rect[0], text_y, rect[2]), share)
        scene.number(("share", token.id), columns[1], text_y, color, alpha=grown)
        scene.number(("kept_share", token.id), columns[2], text_y, "link", alpha=grown)
        if not kept:
            scene.say("–", columns[2], text_y, "faint", align="right")
    if rank > LISTED:
        y = top + len(tokens) * each + (each - small) / 2 - 1
        words = tr("“{token}” stands in the text; its place among all tokens:")
        words = words.format(token=visible(went_on.text if went_on else ""))
        x = x0 + scene.say(words, x0, y, "faint") + ui.u(1.5)
        scene.number(("rank",), x, y, "muted", "left")
    _draw_draw(scene, found, (x0, line, x1, y1), lesson.draws)


def _draw_last_vector(scene: Scene, top: float, line: float) -> float:
    """Where the logits come from, where there is room for it; the lower edge."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    small = ui.theme.size("small")
    if line - top < ui.u(88):
        return top + ui.u(1)
    words = tr("The last vector of “{token}”, brought to a common size")
    taken = scene.say(words.format(token=scene.token(trace.position)), x0, top, "text")
    scene.note(trace.final, 64, x1, top, room=x1 - x0 - taken - ui.u(3))
    y = top + small + ui.u(0.75)
    scene.strip(trace.final, (x0, y, x1, y + ui.u(3)), name=("final",))
    middle, y = x0 + ui.u(LABEL + 10), y + ui.u(4)
    scene.arrow((middle, y), (middle, y + ui.u(5)), part(scene.t, 0.0, 0.2), "accent")
    words = tr("× a matrix: a logit for each token")
    scene.say(words, middle + ui.u(3), y + ui.u(0.5), alpha=part(scene.t, 0.0, 0.2))
    return y + ui.u(6)


def _draw_written(scene: Scene, place: tuple[float, float, float], share: float) -> None:
    """On the bar of the token that stands in the text after the followed one."""
    x0, y, x1 = place
    model = by_model(scene.state, scene.trace.position + 1)
    words = tr("← the model wrote this") if model else tr("← stands in the text")
    with scene.ui.font(style="small"):
        wide = imgui.calc_text_size(words).x
    x = x0 + (x1 - x0) * share + scene.u(2)
    if x + wide <= x1:
        scene.say(words, x, y, "link")


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
        scene.number((name,), left + half, y0 - ui.u(1), "text")
        if changed != (lesson.temperature, lesson.top_p):
            scene.actions.append(SetLessonSampling(*changed))
    if (lesson.temperature, lesson.top_p) != USUAL:
        imgui.set_cursor_screen_pos(ImVec2(x0 + half + ui.u(1.25), y0 + ui.u(1)))
        hint = tr("Back to the usual temperature and top-p")
        if icon_button(ui, "lesson.usual", ICON_UNDO, hint, side=ui.u(5.5)):
            scene.actions.append(SetLessonSampling(*USUAL))


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
        color = ui.color("accent")
        chosen = index == found.chosen
        low, high = ImVec2(at, top), ImVec2(at + share - 1, bottom)
        draw.add_rect_filled(low, high, color if chosen else ui.color("hover"), ui.u(0.5))
        ink = "on_accent" if chosen else "muted"
        if share > ui.u(6):
            shown = visible(tokens[index].text)
            y = (top + bottom - small) / 2
            scene.say(shown, at + share / 2, y, ink, align="middle", room=share - ui.u(1))
        at += share
    if at < right:
        draw.add_rect_filled(ImVec2(at, top), ImVec2(right, bottom), ui.color("hover"), ui.u(0.5))
    x = x0 + found.draw * (right - x0)
    low = ImVec2(x - max(1.0, ui.u(0.5)), top)  # of a token whose part is too narrow to be seen
    draw.add_rect_filled(low, ImVec2(x + max(1.0, ui.u(0.5)), bottom), ui.color("accent"))
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
    """What is drawn; which columns were there, and which one is new; those that are not drawn."""
    ui, small = scene.ui, scene.ui.theme.size("small")
    x0, _, x, _ = scene.rect
    for color, words in (
        (ui.color_of_series(WARM), tr("new")),
        (ui.color("accent", 0.35), tr("kept")),
    ):
        x -= scene.say(words, x, y, "faint", align="right") + ui.u(1)
        low = ImVec2(x - ui.u(2.5), y + (small - ui.u(2.5)) / 2 + 1)
        scene.draw.add_rect_filled(low, ImVec2(x, low.y + ui.u(2.5)), color, ui.u(0.5))
        x -= ui.u(5)
    taken = scene.say(title, x0, y, room=x - x0)
    if scene.missing > 0:
        words = tr("{n:,} earlier columns are not drawn").format(n=scene.missing)
        left = x0 + taken + ui.u(3)
        if x - left > ui.u(30):
            scene.say(words, left, y, "faint", room=x - left)


def _draw_going_on(scene: Scene, found: Sampled) -> None:
    """The drawn token becomes the end of a sentence that is followed from the beginning."""
    ui, state, trace = scene.ui, scene.state, scene.trace
    if found.chosen is None or trace.shape.path != "decoder" or state.busy:
        return
    text, before = trace.distribution.top[found.chosen].text, text_up_to(state, trace.position)
    if not before or PIECE in text:
        return
    label = tr("Go on with “{token}”").format(token=visible(text))
    with ui.font():
        wide = imgui.calc_text_size(label).x + ui.u(6)
    top = scene.rect[3] - imgui.get_frame_height()
    imgui.set_cursor_screen_pos(ImVec2(scene.rect[2] - wide, top))
    hint = tr("A new sentence that ends with this token: the lesson begins again with it.")
    if button(ui, "lesson.go_on", label, hint=hint, width=wide):
        scene.actions.append(RunSentence(before + text))


def _draw_text(scene: Scene, found: Sampled, each: float) -> None:
    """The sentence above its columns; the new token comes flying to a column of its own."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, _ = scene.rect
    tall, flown, gap = ui.u(7), part(scene.t, 0.05, 0.35), ui.u(0.75)
    for column, (place, _) in enumerate(trace.tokens):
        x = x0 + column * each
        scene.tile(scene.token(place), (x, y0, x + each - gap, y0 + tall))
    x = x0 + len(trace.tokens) * each
    chosen = drawn_words(scene, found)
    with ui.font(style="small"):
        wide = max(each - gap, imgui.calc_text_size(chosen).x + ui.u(2))
    x = min(x, x1 - wide)
    left, top = x + (x1 - wide - x) * (1 - flown), y0 + ui.u(12) * (1 - flown)
    scene.tile(chosen, (left, top, left + wide, top + tall), chosen=True)
    line = y0 + tall + ui.u(1.5)
    landed = part(scene.t, 0.35, 0.45)
    end = scene.number(("chosen_share",), x1, line, "link", alpha=landed)
    words = tr("{token} was drawn; its probability was")
    if trace.shape.path != "decoder":
        words = tr("{token} is the likeliest; its probability is")
        name = ("likely", trace.distribution.top[0].id)
        end = scene.number(name, x1, line, "link", alpha=landed)
    chosen = _drawn(scene, found)
    scene.say(words.format(token=chosen), x1 - end - ui.u(1.5), line, align="right", alpha=landed)
    went_on = trace.distribution.went_on
    if went_on is not None:
        text = tr("As it was written: “{token}” stands here.")
        if trace.shape.path == "decoder" and by_model(scene.state, trace.position + 1):
            text = tr("When it answered, the model drew “{token}” here.")
        elif trace.shape.path == "encoder_decoder":
            text = tr("The target goes on with “{token}” here.")
        text = text.format(token=visible(went_on.text))
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
    x += scene.number(("position_bytes",), x, y, "text", "left") + ui.u(1)
    x += scene.say("·", x, y) + ui.u(1)
    x += scene.number(("cache_values",), x, y, "text", "left") + ui.u(1)
    x += scene.say(tr("numbers"), x, y) + ui.u(5)
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
