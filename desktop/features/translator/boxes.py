"""A text as boxes of tokens: tinted by where a token looks or by how likely each was, and pointed
at."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import AttentionRows, SourceToken, TargetToken
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import Shades, likely, shades_of
from llm_lite.desktop.features.translator.state import Side, TokenAt
from llm_lite.desktop.widgets.token_text import NO_TOKEN, TokenPage, draw_boxes, lay_out
from llm_lite.desktop.widgets.ui import Ui

Tokens = Sequence[SourceToken] | Sequence[TargetToken]


def look_of(state: AppState) -> AttentionRows | None:
    """Weights of cross-attention for the token under the pointer, once they are there."""
    rows, token = state.attention_rows, state.translating.pointed
    if rows is None or token is None or not rows.weights:
        return None
    direction = "from" if token.side == "target" else "to"
    return rows if (rows.position, rows.direction) == (token.position, direction) else None


def draw_tokens(state: AppState, ui: Ui, side: Side, tokens: Tokens) -> TokenAt | None:
    """At the cursor, across the column; the token under the pointer."""
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    page = _laid(ui, side, tokens, width)
    found = _shades(state, ui, side)
    marked = _marked(state, ui, side)
    chips = (ui.color("hover", 0.55), ui.color("hover"))
    shift = int(side == "target")  # maps have the token that the decoder begins with before these

    def paint(number: int) -> tuple[int, int]:
        if not 0 <= number < len(tokens):
            return 0, ui.color("text")
        token = tokens[number]
        color = ui.color("muted" if token.special else "text")
        if found is not None:
            place = number + shift
            inside = place < len(found.fills)
            return (found.fills[place], found.texts[place] or color) if inside else (0, color)
        if isinstance(token, TargetToken) and state.translating.tinted:
            return likely(ui, token.probability), color
        return chips[number % 2], color

    draw_boxes(ui, page, (at.x, at.y), paint, marked, imgui.get_window_draw_list())
    imgui.dummy(ImVec2(width, page.height))
    ui.mark(f"translating.{side}.tokens")
    _mark_rects(ui, side, page, at)
    # The field above may be active still, and then no other item counts as hovered.
    rect = (at.x, at.y, at.x + width, at.y + page.height)
    if not (imgui.is_window_hovered() and ui.at_pointer(rect)):
        return None
    mouse = imgui.get_mouse_pos()
    index = page.at(mouse.x - at.x, mouse.y - at.y)
    return None if index == NO_TOKEN else TokenAt(side, index)


def _marked(state: AppState, ui: Ui, side: Side) -> dict[int, int]:
    """Colours of frames: around the token that is held, and around that under the pointer."""
    marked, row = {}, state.attention.row
    if row is not None and (state.attention.part == "encoder") == (side == "source"):
        marked[row - (side == "target")] = ui.color("text")
    pointed = state.translating.pointed
    if pointed is not None and pointed.side == side:
        marked[pointed.index] = ui.color("accent")
    return marked


def _laid(ui: Ui, side: Side, tokens: Tokens, width: float) -> TokenPage:
    """Laid out once for these tokens and a width."""
    name, key = f"translating.{side}.page", (width, ui.theme.text)
    held = ui.memory.get(name)
    if held is None or held[0] is not tokens or held[1] != key:
        spans, at = [], 0
        for token in tokens:
            spans.append((at, at + len(token.text)))
            at += len(token.text)
        words = "".join(token.text for token in tokens)
        held = ui.memory[name] = (tokens, key, lay_out(ui, words, tuple(spans), width))
    page: TokenPage = held[2]
    return page


def _shades(state: AppState, ui: Ui, side: Side) -> Shades | None:
    """None unless these are the tokens that are looked at, or that look."""
    rows = look_of(state)
    if rows is None or (rows.direction == "from") == (side == "target"):
        return None
    return shades_of(ui, rows, state.attention, state.theme, first_counts=True)


def _mark_rects(ui: Ui, side: Side, page: TokenPage, at: ImVec2) -> None:
    """Where tokens lie, for the tour and the tests."""
    for box in page.boxes[:400]:
        if box.token >= 0:
            y = at.y + box.line * page.line
            rect = (at.x + box.x, y, at.x + box.x + box.width, y + page.line)
            ui.rects.setdefault(f"translating.{side}.{box.token}", rect)
