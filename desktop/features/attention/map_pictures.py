"""Views as pictures for a slide or a paper: title, axes, colour bar, and what all that means."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import ImVec2

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.desktop.features.attention.coloring import (
    bar_width,
    draw_level_bar,
    draw_upright_bar,
    scale_words,
)
from llm_lite.desktop.features.attention.heads import LEAST_LINE, labels_of
from llm_lite.desktop.features.attention.map import (
    draw_axes,
    gutters,
    is_written,
    mark_row,
    names_room,
    texture_of,
    zoom_of,
)
from llm_lite.desktop.features.attention.state import AttentionChoice, Head
from llm_lite.desktop.features.attention.view import head_words, ordered, shown_score
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr, trn
from llm_lite.desktop.widgets.figure import LARGE_TEXT, TEXT, Figure
from llm_lite.desktop.widgets.head_maps import HeadMaps, MapPicture
from llm_lite.desktop.widgets.plots.head_grid import draw_names, gutter
from llm_lite.desktop.widgets.ui import Ui

THUMBNAIL = 128.0  # pixels of a head in the picture of the grid: two for a pixel of its map
MAP, LARGEST_MAP = 900, 2048  # pixels a side that a map has at least, and at most
WORDS, SMALLEST = 64, (24, 32)  # tokens whose words are shown; pixels of one, small text, large
WIDE = 16 / 9  # what the grid's picture comes close to


def explained(choice: AttentionChoice, state: AppState, tokens: str) -> str:
    model, mode = state.model, state.executor.mode if state.executor else ""
    name = f"{model.name} ({mode})  ·  " if model else ""
    without = f"  ·  {tr('first token left out')}" if choice.exclude_first else ""
    return f"{name}{tokens}  ·  {scale_words(choice)}{without}"


def draw_title(figure: Figure, words: str, note: str) -> float:
    """Draw title and note at the upper left; return where what follows begins, in y."""
    u, theme = figure.ui.u, figure.ui.theme
    y = u(8)
    figure.text(u(8), y, words, style="title", face="bold")
    y += theme.size("title") * 1.35
    figure.text(u(8), y, note, "muted", "small")
    return y + theme.size("small") + u(8)


def title_width(figure: Figure, words: str, note: str) -> float:
    wide = max(figure.width(words, "title", "bold"), figure.width(note, "small"))
    return wide + 2 * figure.ui.u(8)


def draw_image(figure: Figure, picture: MapPicture, at: tuple[float, float], side: float) -> None:
    low, high = ImVec2(*at), ImVec2(at[0] + side, at[1] + side)
    figure.list.add_rect_filled(low, high, figure.ui.color("sunken"))
    texture = texture_of(picture)
    figure.list.add_image(texture, low, high, ImVec2(*picture.low), ImVec2(*picture.high))


def grid_figure(state: AppState, ui: Ui, maps: HeadMaps) -> Figure | None:
    """Draw the heads that pass the filters, in the order of the grid."""
    choice = state.attention
    heads, scores = ordered(choice, ui, maps)
    pictures = [maps.thumbnail(*head) for head in heads]
    if any(picture.waiting for picture in pictures):
        return None
    figure = Figure(ui, LARGE_TEXT)
    words = trn("Attention of {n:,} head", "Attention of {n:,} heads", len(heads))
    words = words.format(n=len(heads))
    if scores:
        words = tr("{heads} by {score}").format(
            heads=words, score=tr(SCORES[choice.order].label).lower()
        )
    tokens = trn("{n:,} token", "{n:,} tokens", maps.length).format(n=maps.length)
    note = explained(choice, state, tokens)
    y = draw_title(figure, words, note)
    if scores:
        width, bottom = _draw_ranked(figure, heads, pictures, choice.order, scores, y)
    else:
        width, bottom = _draw_layers(figure, heads, pictures, y)
    u = figure.ui.u
    foot = bottom + u(6)
    tall = draw_level_bar(choice, figure.ui, ImVec2(u(8), foot), u(90), figure.list)
    width = max(width + u(8), title_width(figure, words, note))
    return figure.finish(width, foot + tall + u(8))


def _draw_layers(
    figure: Figure, heads: Sequence[Head], pictures: Sequence[MapPicture], top: float
) -> tuple[float, float]:
    """Draw a row a layer, in blocks beside each other; return right edge and bottom."""
    u, small = figure.ui.u, figure.ui.theme.size("small")
    layers = sorted({layer for layer, _ in heads})
    numbers = sorted({head for _, head in heads})
    gap, gutter_room = u(0.75), gutter(figure.ui)
    step = THUMBNAIL + gap
    block = gutter_room + len(numbers) * step + u(6)
    blocks = _blocks(len(layers), block, step)
    rows = -(-len(layers) // blocks)
    for part in range(blocks):
        x = u(8) + part * block
        below = min(rows, len(layers) - part * rows) * step
        draw_names(figure.ui, figure.list, (x, top), top + small * 1.4 + below, "figure.names")
        for column, head in enumerate(numbers):
            label, middle = f"{head}", x + gutter_room + (column + 0.5) * step - gap / 2
            figure.text(middle - figure.width(label, "small") / 2, top, label, "muted", "small")
        for row, layer in enumerate(layers[part * rows : (part + 1) * rows]):
            y = top + small * 1.4 + row * step + (THUMBNAIL - small) / 2
            label = f"{layer}"
            right = x + gutter_room - gap - figure.width(label, "small")
            figure.text(right - gap, y, label, "muted", "small")
    for (layer, head), picture in zip(heads, pictures, strict=True):
        part, row = divmod(layers.index(layer), rows)
        x = u(8) + part * block + gutter_room + numbers.index(head) * step
        draw_image(figure, picture, (x, top + small * 1.4 + row * step), THUMBNAIL)
    return u(8) + blocks * block - u(6), top + small * 1.4 + rows * step


def _blocks(layers: int, width: float, step: float) -> int:
    """Return how many blocks beside each other come closest to a wide picture."""

    def distance(blocks: int) -> float:
        return abs(blocks * width / (-(-layers // blocks) * step) - WIDE)

    return min(range(1, layers + 1), key=distance)


def _draw_ranked(
    figure: Figure, heads: Sequence[Head], pictures: Sequence[MapPicture], order: str,
    scores: dict[Head, float], top: float,
) -> tuple[float, float]:  # fmt: skip
    """Draw the best first, each with its score; return right edge and bottom."""
    u, small = figure.ui.u, figure.ui.theme.size("small")
    step, high = THUMBNAIL + u(3), THUMBNAIL + small * 2.6 + u(2)
    columns = min(range(1, len(heads) + 1), key=lambda n: _off(n, len(heads), step, high))
    for place, (head, picture) in enumerate(zip(heads, pictures, strict=True)):
        x, y = u(8) + place % columns * step, top + place // columns * high
        draw_image(figure, picture, (x, y), THUMBNAIL)
        figure.text(x, y + THUMBNAIL + u(0.5), f"L{head[0]} H{head[1]}", style="small")
        shown = shown_score(order, scores[head])
        figure.text(x, y + THUMBNAIL + u(0.5) + small * 1.2, shown, "muted", "small")
    return u(8) + columns * step - u(3), top + -(-len(heads) // columns) * high


def _off(columns: int, count: int, width: float, height: float) -> float:
    return abs(columns * width / (-(-count // columns) * height) - WIDE)


def heads_figure(state: AppState, ui: Ui, maps: HeadMaps) -> Figure | None:
    """Draw the locked heads with the part of the text that is shown of them."""
    choice = state.attention
    if not choice.locked:
        raise LlmLiteError(tr("no heads are locked: click some in the grid first"))
    window = zoom_of(ui).window(maps)
    side = _side(window.longest, SMALLEST[len(choice.locked) > 1])
    pictures = [
        maps.picture(f"figure.{place}", *head, window.rows, window.columns, min(side, LARGEST_MAP))
        for place, head in enumerate(choice.locked)
    ]
    if any(picture.waiting for picture in pictures):
        return None
    figure = Figure(ui, TEXT if len(choice.locked) == 1 else LARGE_TEXT)
    u, small = figure.ui.u, figure.ui.theme.size("small")
    labels = labels_of(state)
    axes = labels if side / window.longest >= small * LEAST_LINE else None
    beside, name = gutters(figure.ui, axes, window, u(24)), names_room(figure.ui)
    left, above = name + beside.left, name + beside.top
    columns = wide_columns(len(choice.locked))
    rows = -(-len(choice.locked) // columns)
    tokens = tr("tokens {start:,} to {stop:,} of {length:,}").format(
        start=window.rows.start, stop=window.rows.stop - 1, length=maps.length
    )
    words, note = tr("Where heads look"), explained(choice, state, tokens)
    if len(choice.locked) == 1:
        words = tr("{head}: where each token looks").format(head=head_words(choice.locked[0]))
    head_room = u(7) if len(choice.locked) > 1 else 0.0
    top = draw_title(figure, words, note)
    for place, (head, picture) in enumerate(zip(choice.locked, pictures, strict=True)):
        x = u(8) + place % columns * (left + side + u(8)) + left
        y = top + place // columns * (head_room + above + side + u(6)) + head_room + above
        if head_room:
            figure.text(x, y - above - head_room, head_words(head), face="bold")
        corner = ImVec2(x, y)
        draw_axes(figure.ui, axes, window, corner, side, beside, choice.row, draw=figure.list)
        draw_image(figure, picture, (x, y), side)
        if choice.row is not None and choice.row < window.rows.stop:
            row = max(choice.row, window.rows.start - 1)
            dims = is_written(maps, head)
            mark_row(figure.ui, corner, side, window.rows, row, figure.list, dims=dims)
    bar = ImVec2(u(8) + columns * (left + side + u(8)), top + head_room + above)
    draw_upright_bar(choice, figure.ui, bar, side, figure.list)
    width = bar.x + bar_width(figure.ui) + u(8)
    height = top + rows * (head_room + above + side + u(6)) + u(2)
    return figure.finish(max(width, title_width(figure, words, note)), height)


def wide_columns(count: int) -> int:
    """Return in how many columns so many squares are largest in a picture of WIDE proportions."""
    return max(range(1, count + 1), key=lambda n: min(WIDE / n, 1 / -(-count // n)))


def _side(tokens: int, smallest: int) -> int:
    """Return whole pixels a token, as long as there is room; so many that words fit on the axes,
    where these are few."""
    if tokens > LARGEST_MAP:
        return LARGEST_MAP
    least = smallest if tokens <= WORDS else 1
    return tokens * max(least, -(-MAP // tokens))
