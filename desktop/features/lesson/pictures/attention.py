"""The pictures of attention: the query meets the keys, softmax makes shares of the scores, the
values are added up by these, the heads are joined; and attention to the source of a translation."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2
from msgspec import Struct

from llm_lite.core.messages.inspecting.lesson import TokenScore
from llm_lite.desktop.features.lesson.animation import progress
from llm_lite.desktop.features.lesson.model import OpenLayer, ShowScaled
from llm_lite.desktop.features.lesson.numbers import Name, residual_sum
from llm_lite.desktop.features.lesson.scene import Scene, root_mean_square
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect
from llm_lite.desktop.widgets.widgets import fit

KEY_CELLS = 64  # of each row
CROSS_KEY_CELLS = 32  # of each row, in attention to the source
MASKED_ROWS = 2  # rows of tokens that come later
LABEL = 24.0  # spacing units
DETAIL_HEIGHT = 36.0  # spacing units, of one sum opened below the others


class _OpenedScore(Struct):
    """The position whose score is shown in detail; None stands for that of the largest score."""

    position: int | None = None


class _Rows(Struct, frozen=True):
    """The place of a row for each token of the sentence; it is the same in every step."""

    top: float
    each: float
    left: float  # where the row begins behind its label


def _rows(scene: Scene, top: float, bottom: float, extra: int, tallest: float = 13.0) -> _Rows:
    count = len(scene.trace.opened.head.scores) + extra
    each = min(scene.u(tallest), (bottom - top) / max(count, 1))
    return _Rows(top, each, scene.rect[0] + scene.u(LABEL))


def _label(scene: Scene, words: str, y: float, each: float, color: str = "text") -> None:
    small = scene.ui.theme.size("small")
    room, right = scene.u(LABEL) - scene.u(2), scene.rect[0] + scene.u(LABEL) - scene.u(2)
    with scene.ui.font(style="small"):
        words = fit(words, room)
    scene.text(words, right, y + (each - small) / 2 - 1, color, align="right")


def _name(scene: Scene, score: TokenScore) -> tuple[str, str]:
    own = score.position == scene.trace.position
    return scene.token(score.position), "link" if own else "text"


def draw_scores(scene: Scene) -> None:
    """Draw a copy of the query that runs down the keys; behind it stand the sums."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    head, small = trace.opened.head, ui.theme.size("small")
    turned = trace.shape.positions == "rotary"
    words = tr("query of “{token}”, turned") if turned else tr("query of “{token}”")
    words = words.format(token=scene.token(trace.position))
    cells_right = x0 + ui.u(LABEL) + (x1 - x0 - ui.u(LABEL)) * 0.58
    left = x0 + ui.u(LABEL)
    scene.text(words, left, y0, "link", room=scene.legend(x1, y0) - left)
    strip = (x0 + ui.u(LABEL), y0 + small + ui.u(1), cells_right, y0 + small + ui.u(5))
    scene.strip(head.query, strip, cells=KEY_CELLS, name=("query",))
    top = strip[3] + small + ui.u(4)
    words = tr("keys, from the KV cache") if trace.shape.causal else tr("keys of all tokens")
    whole = head.query.size <= KEY_CELLS
    note = tr("all {n} values") if whole else tr("first {n} of {size:,} values")
    note = note.format(n=min(KEY_CELLS, head.query.size), size=head.query.size)
    if head.others:
        note = tr("{n:,} more tokens are not drawn").format(n=head.others)
    taken = scene.text(words, x0 + ui.u(LABEL), top - small - ui.u(1))
    room = cells_right - x0 - ui.u(LABEL + 3) - taken
    scene.text(note, cells_right, top - small - ui.u(1), "faint", align="right", room=room)
    scene.text(tr("query · key"), x1, top - small - ui.u(1), align="right")
    detail = (
        scene.u(DETAIL_HEIGHT)
        if y1 - top - scene.u(DETAIL_HEIGHT) > len(head.scores) * scene.u(5)
        else 0.0
    )
    rows = _rows(scene, top, y1 - detail, 0, 8.0)
    most = max((abs(score.dot) for score in head.scores), default=1.0) or 1.0
    run = scene.t * (len(head.scores) + 1)
    size = root_mean_square(tuple(value for score in head.scores for value in score.key))
    for index, score in enumerate(head.scores):
        y = rows.top + index * rows.each
        done = progress(run, index, index + 1)
        name, color = _name(scene, score)
        _label(scene, name, y, rows.each, color)
        high = max(rows.each - ui.u(1.5), ui.u(1.5))
        place = (rows.left, y + (rows.each - high) / 2, cells_right, y + (rows.each + high) / 2)
        name_of = ("key_of", score.position)
        alpha = 0.45 + 0.55 * done
        scene.strip(score.key, place, cells=KEY_CELLS, alpha=alpha, name=name_of, rms=size)
        if scene.pressed(f"key.{score.position}", (x0, y, cells_right, y + rows.each)):
            scene.ui.local(_OpenedScore).position = score.position
        _draw_dot(scene, score, (cells_right + ui.u(4), y, x1, y + rows.each), most, done)
    if 0.0 < scene.t < 1.0:
        y = rows.top + min(run, len(head.scores) - 1.0) * rows.each
        low = ImVec2(rows.left - 2, y)
        high_ = ImVec2(cells_right + 2, y + rows.each)
        scene.draw.add_rect(low, high_, ui.color("accent"), ui.u(0.5), ui.u(0.5))
    if detail:
        _draw_detail(scene, y1 - detail + scene.u(4), progress(scene.t, 0.6, 1.0))


def _opened(scene: Scene) -> TokenScore:
    """Return the score that is shown in detail: a person's choice, or the largest."""
    scores = scene.trace.opened.head.scores
    chosen = scene.ui.local(_OpenedScore).position
    found = next((score for score in scores if score.position == chosen), None)
    return found or max(scores, key=lambda score: score.dot)


def _draw_detail(scene: Scene, y: float, shown: float) -> None:
    """Draw how one of the sums is made: query times key, number by number."""
    ui, score, query = scene.ui, _opened(scene), scene.trace.opened.head.query.values
    x0, _, x1, _ = scene.rect
    small = ui.theme.size("small")
    products = tuple(a * b for a, b in zip(query, score.key, strict=False))
    words = tr("One of the sums in detail: “{token}”. Press a row above for another one.")
    scene.text(words.format(token=scene.token(score.position)), x0, y, "text")
    y += small + ui.u(2)
    rows = ((tr("query"), query, ""), (tr("key"), score.key, "×"), (tr("products"), products, "="))
    for index, (label, values, sign) in enumerate(rows):
        alpha = 1.0 if index < 2 else shown
        line = y + index * ui.u(6)
        scene.text(sign, x0, line + (ui.u(5) - small) / 2 - 1, "link", "body")
        _label(scene, label, line, ui.u(5))
        place = (x0 + ui.u(LABEL), line, x1 - ui.u(20), line + ui.u(5))
        name = {"": ("query",), "×": ("key_of", score.position)}.get(sign)
        scene.strip(values, place, alpha=alpha, cells=128,
                    name=name or ("products", score.position))  # fmt: skip
    line = y + 2 * ui.u(6) + (ui.u(5) - small) / 2 - 1
    wide = scene.number(("sum", score.position), x1, line, "link", alpha=shown)
    scene.text("Σ", x1 - wide - ui.u(1.5), line, "muted", align="right", alpha=shown)


def _draw_dot(scene: Scene, score: TokenScore, rect: Rect, most: float, done: float) -> None:
    """Draw a bar from a middle line, right where the sum is positive; and the sum."""
    ui, (x0, y0, x1, y1) = scene.ui, rect
    small = ui.theme.size("small")
    right = x1 - ui.u(16)
    middle, half = (x0 + right) / 2, (right - x0) / 2
    high = max(ui.u(1), min(ui.u(3), y1 - y0 - ui.u(2)))
    top = (y0 + y1 - high) / 2
    end = middle + half * score.dot / most * done
    low, up = sorted((middle, end))
    color = ui.color_of_series(2 if score.dot > 0 else 0)
    scene.draw.add_rect_filled(ImVec2(low, top), ImVec2(up, top + high), color, ui.u(0.5))
    scene.draw.add_line(ImVec2(middle, y0), ImVec2(middle, y1), ui.color("border"), 1.0)
    scene.number(("dot", score.position), x1, (y0 + y1 - small) / 2 - 1, alpha=done)


def draw_softmax(scene: Scene) -> None:
    ui, trace, lesson = scene.ui, scene.trace, scene.lesson
    _, y0, x1, y1 = scene.rect
    head, small = trace.opened.head, ui.theme.size("small")
    _draw_switch(scene, y0)
    top = y0 + ui.u(7) + small + ui.u(3)
    places, heads = _columns(scene)
    for x, words in zip(places, heads, strict=True):
        scene.text(words, x, top - small - ui.u(1), align="right")
    scene.text(tr("share = attention"), x1, top - small - ui.u(1), align="right")
    later, right = _later(scene), places[-1]
    extra = (head.others > 0) + (head.sink > 0) + len(later)
    rows = _rows(scene, top, y1, extra)
    moved = progress(scene.t, 0.1, 0.8)
    y = _draw_others(scene, rows.top, rows.each, right, moved)
    for score in head.scores:
        name, color = _name(scene, score)
        _label(scene, name, y, rows.each, color)
        line = y + (rows.each - small) / 2 - 1
        kinds = ("dot", "bias", "score") if len(places) == 3 else ("dot", "score")
        for kind, x in zip(kinds, places, strict=True):
            shown = kind if lesson.scaled or kind == "bias" else "dot"
            ink = "text" if kind == "score" else "muted"
            alpha = progress(scene.t, 0.05, 0.3) if kind == "score" else 1.0
            scene.number((shown, score.position), x, line, ink, alpha=alpha)
        share = score.probability if lesson.scaled else score.unscaled
        name_of = "probability" if lesson.scaled else "unscaled"
        _draw_share(scene, (name_of, score.position), share, y, rows.each, right, moved)
        y += rows.each
    y = _draw_sink(scene, y, rows.each, right, moved)
    for words in later:
        _draw_masked(scene, words, y, rows.each, right)
        y += rows.each


def _columns(scene: Scene) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return right edges and titles of the columns before the shares."""
    shape, left = scene.trace.shape, scene.rect[0] + scene.u(LABEL)
    scaled = tr("× scale") if scene.lesson.scaled else tr("no scale")
    if shape.positions == "bias":
        last = tr("score") if shape.scale == 1.0 else scaled
        places = (left + scene.u(13), left + scene.u(26), left + scene.u(39))
        return places, (tr("sum"), tr("+ distance"), last)
    if shape.scale == 1.0:
        return (left + scene.u(14), left + scene.u(28)), (tr("sum"), tr("score"))
    return (left + scene.u(14), left + scene.u(31)), (tr("sum"), scaled)


def _draw_switch(scene: Scene, y: float) -> None:
    """Draw the switch between softmax with the scale and without it, where the model has one."""
    ui, lesson = scene.ui, scene.lesson
    if scene.trace.shape.scale == 1.0:
        return
    x = scene.rect[0]
    for scaled, words in ((True, tr("with the scale")), (False, tr("without it"))):
        wide = ui.u(34)
        rect = (x, y, x + wide, y + ui.u(6))
        scene.tile(words, rect, chosen=scaled == lesson.scaled)
        if scene.pressed("scaled" if scaled else "unscaled", rect):
            scene.actions.append(ShowScaled(scaled))
        x += wide + ui.u(1)
    small = ui.theme.size("small")
    line = y + (ui.u(6) - small) / 2
    right = scene.rect[2]
    wide = scene.number(("scale",), right, line, "link")
    scene.text(tr("scale"), right - wide - ui.u(1.5), line, "faint", align="right")


def _later(scene: Scene) -> list[str]:
    """Return the tokens behind the followed one that are drawn as masked."""
    state, position = scene.state, scene.trace.position
    if not scene.trace.shape.causal:
        return []
    return list(state.positions[position + 1 : position + 1 + MASKED_ROWS])


def _draw_share(
    scene: Scene, name: Name, share: float, y: float, each: float, left: float, moved: float
) -> None:
    ui, x1, small = scene.ui, scene.rect[2], scene.ui.theme.size("small")
    high = max(ui.u(1.25), min(ui.u(3.5), each - ui.u(1.5)))
    top = y + (each - high) / 2
    scene.bar((left + ui.u(4), top, x1 - ui.u(14), top + high), share * moved)
    scene.number(name, x1, y + (each - small) / 2 - 1, alpha=moved)


def _draw_others(scene: Scene, y: float, each: float, left: float, moved: float) -> float:
    """Draw a row for all tokens that are not drawn; return its lower edge."""
    head, scaled = scene.trace.opened.head, scene.lesson.scaled
    if not head.others:
        return y
    _label(scene, _others(scene), y, each, "muted")
    share = head.others_probability if scaled else head.others_unscaled
    name = "others" if scaled else "others_unscaled"
    _draw_share(scene, (name,), share, y, each, left, moved)
    return y + each


def _others(scene: Scene) -> str:
    """Return the label of the tokens that are seen and not drawn."""
    words = tr("{n:,} before") if scene.trace.shape.causal else tr("{n:,} others")
    return words.format(n=scene.trace.opened.head.others)


def _draw_sink(scene: Scene, y: float, each: float, left: float, moved: float) -> float:
    """Draw the share that goes to no token; return the lower edge of its row."""
    head, scaled = scene.trace.opened.head, scene.lesson.scaled
    if head.sink <= 0:
        return y
    _label(scene, tr("to no token"), y, each, "muted")
    share, name = (head.sink, "sink") if scaled else (head.sink_unscaled, "sink_unscaled")
    _draw_share(scene, (name,), share, y, each, left, moved)
    return y + each


def _draw_masked(scene: Scene, words: str, y: float, each: float, left: float) -> None:
    """Draw a token that comes later: hatched, without a number."""
    ui, x1 = scene.ui, scene.rect[2]
    _label(scene, visible(words), y, each, "faint")
    small = ui.theme.size("small")
    high = max(ui.u(1.25), min(ui.u(3.5), each - ui.u(1.5)))
    top, x, right = y + (each - high) / 2, left + ui.u(4), x1 - ui.u(14)
    color = ui.color("faint", 0.45)
    while x < right:
        end = min(x + high, right)
        scene.draw.add_line(ImVec2(x, top + high), ImVec2(end, top + high - (end - x)), color, 1.0)
        x += ui.u(2.5)
    scene.text(tr("masked"), x1, y + (each - small) / 2 - 1, "faint", align="right")


def draw_values(scene: Scene) -> None:
    """Draw values as strong as their shares, which flow into the head's output."""
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    head, small = trace.opened.head, ui.theme.size("small")
    out = y1 - small - ui.u(6)
    bottom = out - small - ui.u(9)
    shares = x0 + ui.u(LABEL + 14)
    scene.text(tr("share"), shares, y0, align="right")
    scene.text(tr("value of each token, as strong as its share"), shares + ui.u(3), y0)
    rows = _rows(scene, y0 + small + ui.u(1.5), bottom, head.others > 0)
    left, flow = shares + ui.u(3), progress(scene.t, 0.45, 0.8)
    y = rows.top
    if head.others:
        _label(scene, _others(scene), y, rows.each, "muted")
        scene.number(("others",), shares, y + (rows.each - small) / 2 - 1, "muted")
        words = tr("their values are added, too")
        scene.text(words, left, y + (rows.each - small) / 2 - 1, "faint", room=x1 - left)
        y += rows.each
    high = max(rows.each - ui.u(1.5), ui.u(1.5))
    for index, score in enumerate(head.scores):
        name, color = _name(scene, score)
        _label(scene, name, y, rows.each, color)
        line = y + (rows.each - small) / 2 - 1
        scene.number(("probability", score.position), shares, line)
        shown = progress(scene.t, 0.02 * index, 0.3 + 0.02 * index)
        strong = min(1.0, 0.06 + score.probability**0.6)
        top = y + (rows.each - high) / 2
        name_of = ("value_of", score.position)
        scene.strip(score.value, (left, top, x1, top + high), shown, alpha=strong, name=name_of)
        y += rows.each
    for share in (0.2, 0.4, 0.6, 0.8):
        x = left + (x1 - left) * share
        scene.arrow((x, y + ui.u(1)), (x, out - small - ui.u(2.5)), flow, "accent")
    words = tr("Output of head {head}: the values, weighted and added up").format(head=trace.head)
    done = progress(scene.t, 0.7, 1.0)
    cells = len(head.scores[0].value) if head.scores else head.output.size
    place = (left, out, x1, out + ui.u(4))  # below the columns that are added up
    scene.vector("head_output", words, head.output, place, done, cells=min(cells, 64))


def draw_output(scene: Scene) -> None:
    ui, trace = scene.ui, scene.trace
    x0, y0, x1, y1 = scene.rect
    small, opened = ui.theme.size("small"), trace.opened
    scene.text(tr("How much each head gives (RMS of its output): press one to open it"), x0, y0)
    bottom = _draw_tiles(scene, y0 + small + ui.u(1.5))
    x = (x0 + x1) / 2
    joined = progress(scene.t, 0.2, 0.4)
    scene.arrow((x, bottom + ui.u(1)), (x, bottom + ui.u(6)), joined, "accent")
    words = tr("side by side, then mixed by one matrix")
    scene.text(words, x + ui.u(3), bottom + ui.u(2.5), alpha=joined)
    name, vector = residual_sum(trace)
    rows = (
        ("attended", "", tr("What attention adds"), opened.attended),
        ("residual", "+", tr("What the token had before"), opened.residual),
        (name, "=", tr("The residual now"), vector),
    )
    largest = max(row[3].rms for row in rows)
    top = bottom + ui.u(9)
    each = (y1 - top) / 3
    for index, (name, sign, label, vector) in enumerate(rows):
        shown = progress(scene.t, 0.35 + 0.2 * index, 0.6 + 0.2 * index)
        y, left = top + index * each + small + ui.u(1.5), x0 + ui.u(7)
        scene.text(sign, x0 + ui.u(1), y - ui.u(1), "link", "title", alpha=shown)
        high = max(ui.u(3), min(ui.u(6), each - 2 * small - ui.u(5)))
        scene.vector(name, label, vector, (left, y, x1, y + high), shown, rms=largest)


def _draw_tiles(scene: Scene, top: float) -> float:
    """Draw a tile for each head, as strong as its output, in rows where there are many; return the
    lower edge."""
    ui, trace = scene.ui, scene.trace
    x0, _, x1, _ = scene.rect
    outputs, small = trace.opened.head.outputs, ui.theme.size("small")
    a_row = min(len(outputs), 16)
    each, tall = (x1 - x0) / a_row, ui.u(6) + small + ui.u(1)
    if len(outputs) > 32:
        tall = ui.u(5)
    most = max(outputs) or 1.0
    for head, value in enumerate(outputs):
        shown = progress(scene.t, 0.0, 0.2)
        left, y = x0 + head % a_row * each, top + head // a_row * (tall + ui.u(0.75))
        rect = (left, y, left + each - ui.u(0.75), y + ui.u(6))
        low, high = ImVec2(rect[0], rect[1]), ImVec2(rect[2], rect[3])
        scene.draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
        strong = value / most * shown
        scene.draw.add_rect_filled(low, high, ui.color("accent", 0.9 * strong), ui.u(1))
        if head == trace.head:
            scene.draw.add_rect(low, high, ui.color("text"), ui.u(1), ui.u(0.5))
        ink = "on_accent" if strong > 0.6 else "text"
        scene.text(
            str(head), (rect[0] + rect[2]) / 2, rect[1] + (ui.u(6) - small) / 2, ink,
            align="middle",
        )  # fmt: skip
        if scene.pressed(f"open.{head}", rect):
            scene.actions.append(OpenLayer(trace.layer, head))
        if len(outputs) <= 32:
            middle = (rect[0] + rect[2]) / 2
            scene.number(("head", head), middle, rect[3] + ui.u(0.75), "muted", "middle")
    return top + math.ceil(len(outputs) / a_row) * (tall + ui.u(0.75))


def draw_cross(scene: Scene) -> None:
    """Draw the query that runs down the source's keys; beside them the shares, below the output."""
    ui, trace = scene.ui, scene.trace
    found = trace.opened.cross
    if found is None:
        return
    x0, y0, x1, y1 = scene.rect
    small, head = ui.theme.size("small"), found.head
    left = x0 + ui.u(LABEL)
    keys = left + (x1 - left) * 0.36
    scores, bars = keys + ui.u(14), keys + ui.u(18)
    words = tr("query of “{token}”, from the target").format(token=scene.token(trace.position))
    scene.text(words, left, y0, "link")
    top = y0 + small + ui.u(1)
    scene.strip(
        head.query, (left, top, keys, top + ui.u(4)), cells=CROSS_KEY_CELLS, name=("cross_query",)
    )
    top += ui.u(6)
    scene.text(tr("keys, from the source"), left, top)
    scene.text(tr("score"), scores, top, align="right")
    scene.text(tr("share"), x1, top, align="right")
    top += small + ui.u(1)
    out = y1 - small - ui.u(6)
    added = out - 2 * small - ui.u(10)
    bottom = added - small - ui.u(3)
    each = min(ui.u(9), (bottom - top) / max(len(head.scores) + (head.others > 0), 1))
    run = progress(scene.t, 0.0, 0.55) * len(head.scores)
    for index, score in enumerate(head.scores):
        y, done = top + index * each, progress(run, index, index + 1)
        line = y + (each - small) / 2 - 1
        name = visible(trace.source[score.position].text)
        scene.text(name, left - ui.u(2), line, "text", align="right", room=ui.u(LABEL - 2))
        high = max(ui.u(1.5), min(ui.u(5), each - ui.u(1.5)))
        cells = (left, y + (each - high) / 2, keys, y + (each + high) / 2)
        scene.strip(score.key, cells, cells=CROSS_KEY_CELLS, alpha=0.45 + 0.55 * done)
        scene.number(("cross_score", score.position), scores, line, "muted", alpha=done)
        grown = progress(scene.t, 0.4, 0.75)
        tall = max(ui.u(1.25), min(ui.u(3.5), each - ui.u(1.5)))
        bar = (bars, y + (each - tall) / 2, x1 - ui.u(14), y + (each + tall) / 2)
        scene.bar(bar, score.probability * grown)
        scene.number(("cross_probability", score.position), x1, line, alpha=grown)
    if head.others:
        y = top + len(head.scores) * each
        words = tr("{n:,} others").format(n=head.others)
        scene.text(words, left - ui.u(2), y, "muted", align="right")
        scene.number(("cross_others",), x1, y, "muted")
    mixed, done = progress(scene.t, 0.65, 0.85), progress(scene.t, 0.8, 1.0)
    label = tr("Output of head {head}: the source's values, weighted and added up")
    scene.vector("cross_output", label.format(head=trace.head), head.output,
                 (x0, added, x1, added + ui.u(4)), mixed)  # fmt: skip
    label = tr("What all heads of the cross-attention add to the residual")
    scene.vector("cross_attended", label, found.attended, (x0, out, x1, out + ui.u(4)), done)
