"""Below the large heads, in numbers: what the marked token looks at most, by each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import AttentionRows
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.inspecting import ShowRow
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.attention_state import AttentionChoice, Head
from llm_lite.desktop.state.maps import HeadMaps
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.attention.parts import labels_of
from llm_lite.desktop.views.tokens.colors import shown_weights
from llm_lite.desktop.widgets.plots.shares import share_bar, share_words
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text, tip, wrapped

LEAST_LINES = 3  # of a list: where fewer fit, there are none
WRITING = mark("While the answer is written, only rows that are marked are told in numbers.")
FOLLOW = mark("Click to mark its row.")


def draw_row_details(
    state: AppState, choice: AttentionChoice, ui: Ui, maps: HeadMaps
) -> tuple[AttentionChoice, list[Action]]:
    """In what is left of the window; another choice where a token was clicked on."""
    line = ui.theme.size("small") + ui.u(2)
    lines = int((imgui.get_content_region_avail().y - ui.u(18)) / line)
    if lines < LEAST_LINES:
        return choice, []
    row = maps.length - 1 if choice.row is None else min(choice.row, maps.length - 1)
    labels = labels_of(state)
    label = labels.rows[row] if row < len(labels.rows) else ""
    imgui.dummy(ImVec2(0, ui.u(1)))
    title = tr("What “{label}” at {n:,} looks at most")
    text(ui, title.format(label=visible(label), n=row), bold=True)
    if row not in maps.rows:
        wrapped(ui, tr("Not computed: the query of this token is no longer kept."))
        return choice, []
    if state.running and choice.row is None:
        wrapped(ui, tr(WRITING))
        return choice, []
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    wide = room / max(len(choice.locked), 2)
    key = details_key(state, row)
    found = dict(state.row_details.rows) if state.row_details.key == key else {}
    for place, head in enumerate(choice.locked):
        corner = ImVec2(top.x + place * wide, top.y + ui.u(1))
        imgui.set_cursor_screen_pos(corner)
        choice = _draw_head(
            state, choice, ui, head, found.get(head), min(wide - ui.u(6), ui.u(90)), lines
        )
    return choice, _ask(state, choice, row, key, found)


def details_key(state: AppState, row: int) -> tuple[object, ...]:
    """What the numbers of a row depend on: the text that it sees and what reads it."""
    part = state.attention.part
    sees_all = state.encodes or part == "encoder"
    seen = tuple(labels_of(state).rows) if sees_all else state.positions[: row + 1]
    return seen, part, state.executor, state.steering.gains


def _ask(
    state: AppState, choice: AttentionChoice, row: int, key: tuple[object, ...],
    found: dict[Head, AttentionRows],
) -> list[Action]:  # fmt: skip
    """One head after the other: the engine keeps one request of this kind."""
    missing = [head for head in choice.locked if head not in found]
    waits = state.row_details.request and state.row_details.key == key
    return [ShowRow(row, missing[0], key)] if missing and not waits else []


def largest(rows: AttentionRows, choice: AttentionChoice, most: int) -> list[tuple[int, float]]:
    """Positions and their weights, the largest first."""
    weights = shown_weights(rows, choice)
    order = np.argsort(-weights, kind="stable")[:most].tolist()
    return [(at, float(weights[at])) for at in order if weights[at] > 0]


def _draw_head(
    state: AppState, choice: AttentionChoice, ui: Ui, head: Head, rows: AttentionRows | None,
    width: float, lines: int,
) -> AttentionChoice:  # fmt: skip
    corner = imgui.get_cursor_screen_pos()
    words = tr("Layer {layer}, head {head}").format(layer=head[0], head=head[1])
    text(ui, words, "muted", "small")
    _draw_column_names(ui, corner, width)
    if rows is None:
        return choice
    if not rows.weights:
        imgui.set_cursor_screen_pos(ImVec2(corner.x, corner.y + ui.u(6)))
        imgui.begin_group()
        text(ui, fit(rows.message, width), "muted", "small")
        imgui.end_group()
        return choice
    found = largest(rows, choice, lines)
    step = ui.theme.size("small") + ui.u(2)
    for number, (position, share) in enumerate(found):
        y = corner.y + ui.u(6) + number * step
        name = f"row.{head[0]}.{head[1]}.{number}"
        imgui.set_cursor_screen_pos(ImVec2(corner.x, y))
        if imgui.invisible_button(name, ImVec2(width, step)) and choice.part != "cross":
            choice = replace(choice, row=position)
        ui.mark(name)
        if imgui.is_item_hovered():
            end = ImVec2(corner.x + width, y + step)
            low = ImVec2(corner.x - ui.u(1), y)
            imgui.get_window_draw_list().add_rect_filled(low, end, ui.color("hover"), ui.u(1))
        if choice.part != "cross":
            tip(ui, tr(FOLLOW))
        _draw_line(state, ui, name, (corner.x, y + ui.u(1)), position, share, width)
    return choice


def _bar_width(ui: Ui, width: float) -> float:
    """Return the width of a bar's track in a list so many pixels wide."""
    return min(max(width * 0.35, ui.u(16)), ui.u(40))


def _draw_column_names(ui: Ui, corner: ImVec2, width: float) -> None:
    """Draw on the line of the head's name what the bars are parts of, and what the numbers are."""
    with ui.font(style="small"):
        name, whole = tr("position"), tr("of 100 %")
        right = corner.x + width - imgui.calc_text_size(name).x - ui.u(1)
        bar = corner.x + ui.u(12) + _bar_width(ui, width)
        draw, color = imgui.get_window_draw_list(), ui.color("faint")
        draw.add_text(ImVec2(round(right), corner.y), color, name)
        x = bar - imgui.calc_text_size(whole).x
        if x > imgui.get_item_rect_max().x + ui.u(1):
            draw.add_text(ImVec2(round(x), corner.y), color, whole)


def _draw_line(
    state: AppState, ui: Ui, name: str, at: tuple[float, float], position: int, share: float,
    width: float,
) -> None:  # fmt: skip
    labels = labels_of(state).columns
    label = labels[position] if position < len(labels) else ""
    bar = _bar_width(ui, width)
    imgui.set_cursor_screen_pos(ImVec2(*at))
    text(ui, share_words(share), style="small")
    imgui.set_cursor_screen_pos(ImVec2(at[0] + ui.u(12), at[1] + ui.u(1.25)))
    share_bar(ui, f"{name}.bar", share, bar, ui.u(1))
    imgui.set_cursor_screen_pos(ImVec2(at[0] + ui.u(15) + bar, at[1]))
    with ui.font(style="small"):
        words = fit(visible(label, 40), max(width - ui.u(26) - bar, ui.u(8)))
    text(ui, words, style="small")
    with ui.font(style="small"):
        number = f"{position:,}"
        imgui.set_cursor_screen_pos(
            ImVec2(at[0] + width - imgui.calc_text_size(number).x - ui.u(1), at[1])
        )
    text(ui, number, "faint", "small")
