"""The pictures of steps that list the likeliest tokens: sampling, the choice of a beam, and the
token behind a mask."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.model import DrawAgain, SetLessonSampling, is_written_by_model
from llm_lite.desktop.features.lesson.numbers import LISTED_TOKENS, SampledToken, sample_token
from llm_lite.desktop.features.lesson.scene import Scene
from llm_lite.desktop.features.lesson.state import DEFAULT_SAMPLING, LessonPage
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.controls import slider
from llm_lite.desktop.widgets.icons import ICON_DICE, ICON_UNDO
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect
from llm_lite.desktop.widgets.widgets import button, icon_button

LABEL = 26.0  # spacing units, the width of a token in a list
SAMPLING_LABEL = 24.0  # the same in the picture of sampling


def draw_filling(scene: Scene) -> None:
    """Draw a list of candidates; below it, the rank of the token that stands there."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, shown = ui.theme.size("small"), progress(scene.t, 0.7, 1.0)
    words = tr("Tokens that could replace “{token}”")
    scene.text(words.format(token=scene.token(trace.position)), x0, y0, "text", room=x1 - x0)
    bottom = y1 - small - ui.u(4)
    stands = trace.distribution.went_on
    _draw_list(scene, y0 + small + ui.u(3), bottom, 0, stands.id if stands else -1)
    if stands is not None:
        words = tr("The token that stands there is at place")
        x = x0 + scene.text(words, x0, y1 - small, alpha=shown) + ui.u(1.5)
        scene.number(("rank",), x, y1 - small, "link", "left", alpha=shown)


def draw_choosing(scene: Scene) -> None:
    """Draw a list of candidates; greedy decoding takes the first, a beam keeps some."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, shown = ui.theme.size("small"), progress(scene.t, 0.7, 1.0)
    words = tr("What could follow “{token}” in the target")
    scene.text(words.format(token=scene.token(trace.position)), x0, y0, "text", room=x1 - x0)
    lines = 2 if trace.shape.beams > 1 else 1
    foot = y1 - lines * (small + ui.u(1.5))
    went_on = trace.distribution.went_on
    written = went_on.id if went_on else -1
    _draw_list(scene, y0 + small + ui.u(3), foot - ui.u(3), trace.shape.beams, written)
    tokens = [visible(token.text) for token in trace.distribution.top[: trace.shape.beams]]
    words = tr("Greedy decoding takes “{token}”.").format(token=tokens[0])
    scene.text(words, x0, foot, "text", alpha=shown, room=x1 - x0)
    if lines == 2:
        kept = ", ".join(f"“{token}”" for token in tokens)
        words = tr(
            "A beam of {n} continues this beginning with {tokens}, and keeps the {n} best of "
            "all beginnings."
        )
        words = words.format(n=trace.shape.beams, tokens=kept)
        scene.text(words, x0, foot + small + ui.u(1.5), alpha=shown, room=x1 - x0)


def _draw_list(scene: Scene, top: float, bottom: float, beams: int, there: int) -> None:
    """Draw tokens with logit, probability and log p; the one with the id `there` is marked."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    small = ui.theme.size("small")
    logits, shares = x0 + ui.u(LABEL + 14), x1 - (ui.u(16) if beams else 0.0)
    scene.text(tr("logit"), logits, top, align="right")
    scene.text(tr("probability"), shares, top, align="right")
    if beams:
        scene.text("log p", x1, top, align="right")
    top += small + ui.u(1)
    tokens = trace.distribution.top[:LISTED_TOKENS]
    each = min(ui.u(9), (bottom - top) / max(len(tokens), 1))
    for index, token in enumerate(tokens):
        grown, y = progress(scene.t, 0.03 * index, 0.4 + 0.03 * index), top + index * each
        line = y + (each - small) / 2 - 1
        own = token.id == there
        scene.text(visible(token.text), x0 + ui.u(LABEL - 2), line, "link" if own else "text",
                  align="right", room=ui.u(LABEL - 2))  # fmt: skip
        scene.number(("logit", token.id), logits, line, "muted")
        number = scene.numbers.get(("likely", token.id))
        high = max(ui.u(1.5), min(ui.u(4), each - ui.u(1.5)))
        bar = (logits + ui.u(3), y + (each - high) / 2, shares - ui.u(14), y + (each + high) / 2)
        kept = not beams or index < beams
        scene.bar(bar, (number.value / 100 if number else 0.0) * grown,
                  "accent" if kept else "faint", 1.0 if kept else 0.5)  # fmt: skip
        scene.number(("likely", token.id), shares, line, alpha=grown)
        if beams:
            scene.number(("log_likely", token.id), x1, line, "muted", alpha=grown)


class _KnownSample(Struct):
    lesson: LessonPage | None = None  # that `sampled` belongs to
    sampled: SampledToken | None = None


def sampled_token(scene: Scene) -> SampledToken:
    """Return the token that the lesson samples, which is computed once for each of its states."""
    lesson, known = scene.lesson, scene.ui.local(_KnownSample)
    if known.sampled is None or known.lesson is not lesson:
        known.lesson = lesson
        known.sampled = sample_token(
            scene.trace.distribution, lesson.temperature, lesson.top_p, lesson.draws
        )
    return known.sampled


def next_token_text(scene: Scene, found: SampledToken) -> str:
    """Return the text of the next token: the sampled, or the likeliest of an encoder-decoder."""
    index = found.chosen if scene.trace.shape.path == "decoder" else 0
    if index is None:
        return tr("a rarer token")
    return visible(scene.trace.distribution.top[index].text)


def quoted_next_token(scene: Scene, found: SampledToken) -> str:
    words = next_token_text(scene, found)
    return words if found.chosen is None else f"“{words}”"


def draw_sampling(scene: Scene) -> None:
    ui = scene.ui
    x0, y0, x1, y1 = scene.rect
    found, small = sampled_token(scene), ui.theme.size("small")
    _draw_sliders(scene)
    line = y1 - small - ui.u(12)
    top = _draw_last_vector(scene, y0 + ui.u(12), line)
    columns = (x0 + ui.u(SAMPLING_LABEL + 14), x1 - ui.u(16), x1)
    scene.text(tr("logit"), columns[0], top, align="right")
    scene.text(tr("probability"), columns[1], top, align="right")
    scene.text(tr("after top-p"), columns[2], top, align="right")
    top += small + ui.u(1)
    tokens = scene.trace.distribution.top[:LISTED_TOKENS]
    went_on, rank = scene.trace.distribution.went_on, scene.trace.distribution.rank
    rows = len(tokens) + (rank > LISTED_TOKENS)
    each = min(ui.u(8), (line - ui.u(2) - top) / rows)
    for index, token in enumerate(tokens):
        grown = progress(scene.t, 0.03 * index, 0.3 + 0.03 * index)
        kept, y = index < found.kept, top + index * each
        text_y = y + (each - small) / 2 - 1
        color = "text" if kept else "faint"
        right = x0 + ui.u(SAMPLING_LABEL) - ui.u(2)
        scene.text(
            visible(token.text), right, text_y, color, align="right", room=ui.u(SAMPLING_LABEL - 2)
        )
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
            scene.text("–", columns[2], text_y, "faint", align="right")
    if rank > LISTED_TOKENS:
        y = top + len(tokens) * each + (each - small) / 2 - 1
        words = tr("“{token}” stands in the text; its place among all tokens:")
        words = words.format(token=visible(went_on.text if went_on else ""))
        x = x0 + scene.text(words, x0, y, "faint") + ui.u(1.5)
        scene.number(("rank",), x, y, "muted", "left")
    _draw_random_number(scene, found, (x0, line, x1, y1))


def _draw_last_vector(scene: Scene, top: float, line: float) -> float:
    """Draw the vector that the logits come from, where there is room for it; return the lower
    edge."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    small = ui.theme.size("small")
    if line - top < ui.u(88):
        return top + ui.u(1)
    words = tr("The last vector of “{token}”, brought to a common size")
    taken = scene.text(words.format(token=scene.token(trace.position)), x0, top, "text")
    scene.value_count(trace.final, 64, x1, top, room=x1 - x0 - taken - ui.u(3))
    y = top + small + ui.u(0.75)
    scene.strip(trace.final, (x0, y, x1, y + ui.u(3)), name=("final",))
    middle, y = x0 + ui.u(SAMPLING_LABEL + 10), y + ui.u(4)
    scene.arrow((middle, y), (middle, y + ui.u(5)), progress(scene.t, 0.0, 0.2), "accent")
    words = tr("× a matrix: a logit for each token")
    scene.text(words, middle + ui.u(3), y + ui.u(0.5), alpha=progress(scene.t, 0.0, 0.2))
    return y + ui.u(6)


def _draw_written(scene: Scene, place: tuple[float, float, float], share: float) -> None:
    """Write a note on the bar of the token that stands in the text after the followed one."""
    x0, y, x1 = place
    model = is_written_by_model(scene.state, scene.trace.position + 1)
    words = tr("← the model wrote this") if model else tr("← stands in the text")
    with scene.ui.font(style="small"):
        wide = imgui.calc_text_size(words).x
    x = x0 + (x1 - x0) * share + scene.u(2)
    if x + wide <= x1:
        scene.text(words, x, y, "link")


def _draw_sliders(scene: Scene) -> None:
    """Draw temperature and top-p, side by side above the picture."""
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
    if (lesson.temperature, lesson.top_p) != DEFAULT_SAMPLING:
        imgui.set_cursor_screen_pos(ImVec2(x0 + half + ui.u(1.25), y0 + ui.u(1)))
        hint = tr("Back to the usual temperature and top-p")
        if icon_button(ui, "lesson.usual", ICON_UNDO, hint, side=ui.u(5.5)):
            scene.actions.append(SetLessonSampling(*DEFAULT_SAMPLING))


def _draw_random_number(scene: Scene, found: SampledToken, rect: Rect) -> None:
    """Draw the kept tokens as a line from 0 to 1, and the random number that falls on one of
    them."""
    ui, draw = scene.ui, scene.draw
    x0, y0, x1, y1 = rect
    small = ui.theme.size("small")
    x = x0 + scene.text(tr("Tokens that top-p leaves:"), x0, y0) + ui.u(1.5)
    x += scene.number(("kept",), x, y0, "link", "left") + ui.u(5)
    words = tr("A random number from 0 to 1 falls on one of them:")
    x += scene.text(words, x, y0, room=x1 - x - ui.u(14)) + ui.u(1.5)
    x += scene.number(("drawn",), x, y0, "link", "left") + ui.u(1.5)
    words = f"→ {quoted_next_token(scene, found)}"
    scene.text(words, x, y0, "text", alpha=progress(scene.t, 0.8, 1.0))
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
            scene.text(shown, at + share / 2, y, ink, align="middle", room=share - ui.u(1))
        at += share
    if at < right:
        draw.add_rect_filled(ImVec2(at, top), ImVec2(right, bottom), ui.color("hover"), ui.u(0.5))
    x = x0 + found.draw * (right - x0)
    low = ImVec2(x - max(1.0, ui.u(0.5)), top)  # of a token whose part is too narrow to be seen
    draw.add_rect_filled(low, ImVec2(x + max(1.0, ui.u(0.5)), bottom), ui.color("accent"))
    falls = progress(scene.t, 0.6, 0.95)
    x = x0 + found.draw * (right - x0)
    y = y0 + small + (top - y0 - small) * falls
    draw.add_triangle_filled(
        ImVec2(x - ui.u(1.25), y - ui.u(2)), ImVec2(x + ui.u(1.25), y - ui.u(2)), ImVec2(x, y + 1),
        ui.color("text"),
    )  # fmt: skip
    imgui.set_cursor_screen_pos(ImVec2(x1 - room, top - ui.u(0.25)))
    if button(ui, "lesson.draw", label, ICON_DICE, width=room):
        scene.actions.append(DrawAgain())
