"""The logit lens: the likeliest next tokens as each layer would predict them."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import Alternative, Inspect, LensResult, LensRow
from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import legible, mix
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import percent, sentence
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.token_text import NAMED, visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, help_mark, text, tip, wrapped

LENS: Slot[LensResult] = Slot("lens", Inspect, LensResult, lambda asked: asked.position + 1)
COLUMNS = 4
WHOLE = 40  # characters of a token that are shown where there is room
LIVE = 1.0  # seconds between two questions while an answer is written: each costs a head a layer
ABOUT = mark(
    "Every layer adds to a sum that runs through the model, the residual stream; only the sum "
    "after the last layer becomes words. The logit lens (nostalgebraist, 2020) turns the sum into "
    "words early, after each layer, with the model's own output matrix: one sees an answer form."
)
EMPTY = mark(
    "Say something in the chat, then click a token in its X-ray: each layer's guess appears."
)
CANDIDATES = mark("Likeliest next tokens, each with its probability; a stronger colour is likelier")
SETTLED = mark("From this layer on, the word that the model will say is the likeliest.")


class _Cell(Struct, frozen=True):
    """A cell of the table: words, probability with its width in pixels, packed colours."""

    words: str
    shown: str
    wide: float
    fill: int
    ink: int
    final: bool  # the word that the model says in the end


class LensShown(Struct):
    """The cells that were made last, and the time of the last request."""

    asked_at: float = -math.inf  # seconds, as `Ui.now`
    result: LensResult | None = None
    key: tuple[object, ...] = ()
    cells: list[list[_Cell]] = field(default_factory=list)


def draw(state: AppState, ui: Ui) -> list[Action]:
    position = _position(state)
    text(ui, tr("Logit lens"), bold=True)
    help_mark(ui, tr(ABOUT))
    actions = draw_unread(state, ui, "lens")
    if position is None and (state.reading is not None or unread_part(state) is not None):
        return actions
    if position is None:
        wrapped(ui, tr(EMPTY))
        imgui.dummy(ImVec2(0, ui.u(1)))
        wrapped(ui, tr(ABOUT), color="faint")
        return []
    actions += _request(state, ui, position)
    result, problem = LENS.answer(state), LENS.problem(state)
    if problem:
        wrapped(ui, sentence(problem))
    elif result is None:
        wrapped(ui, tr("Asking every layer."))
    else:
        _draw_result(state, ui, result)
    return actions


def _position(state: AppState) -> int | None:
    """Return the position of the selected token, else of the newest that the cache holds: of an
    answer that is written, the last token comes there with the next one. None while there is
    none."""
    running = state.running
    held = state.context_used
    if running is not None:
        held = held - 1 if running.phase == "decode" else running.done
    last = held - 1
    if last < 0 or state.model is None:
        return None
    row = state.attention.row
    return last if row is None else min(row, last)


def _request(state: AppState, ui: Ui, position: int) -> list[Action]:
    """Ask for one token at a time, while an answer is written at most once in LIVE seconds."""
    asks = LENS.wanted(state, Inspect(position))
    if not asks:
        return []
    if state.busy and state.attention.row is None:
        due = ui.local(LensShown).asked_at + LIVE
        if ui.now < due:
            ui.redraw_in(due - ui.now)
            return []
    ui.local(LensShown).asked_at = ui.now
    return asks


def settled(rows: tuple[LensRow, ...]) -> int:
    """Return the row from which on the likeliest token is that of the last layer."""
    final = rows[-1].tokens[0].token
    at = len(rows) - 1
    while at > 0 and rows[at - 1].tokens[0].token == final:
        at -= 1
    return at


def leads_words(rows: tuple[LensRow, ...], start: int) -> str:
    """Name the layer from which on the model's likeliest next token is the likeliest."""
    best = visible(rows[-1].tokens[0].text, WHOLE)
    if start == len(rows) - 1:
        return tr("Only the last layer, at the top, finds “{best}” likeliest.").format(best=best)
    return tr("From layer {layer} up, “{best}” is the likeliest next token.").format(
        layer=rows[start].layer, best=best
    )


def _draw_result(state: AppState, ui: Ui, result: LensResult) -> None:
    words = state.positions
    here = visible(words[result.position]) if result.position < len(words) else ""
    following = result.position + 1
    then, next_token = tr("After “{said}” at position {n:,}."), ""
    if following < len(words):
        next_token = visible(words[following])
        then = tr("After “{said}” at position {n:,}; the text goes on with “{next}”.")
        if not words[following]:
            then = tr("After “{said}” at position {n:,}; the token after it has no text.")
    start = settled(result.rows)
    then = then.format(said=here, n=result.position, next=next_token)
    wrapped(ui, f"{then} {leads_words(result.rows, start)}")
    gutter = _draw_names(ui)
    imgui.begin_child("lens", ImVec2(0, 0), FLAT, imgui.WindowFlags_.no_saved_settings)
    room = imgui.get_content_region_avail().x
    each = (room - gutter) / COLUMNS
    height = max(ui.u(5.5), min(ui.u(7.5), imgui.get_content_region_avail().y / len(result.rows)))
    height = float(int(height))
    top, low = imgui.get_cursor_screen_pos(), imgui.get_window_pos().y
    count, cells = len(result.rows), _cells(ui, result, each - ui.u(0.5))
    for number, row in enumerate(result.rows):
        y = top.y + (count - 1 - number) * height
        if y > low + imgui.get_window_height() or y + height < low:
            continue
        _draw_layer(ui, row.layer, top.x, y, height, number >= start)
        for column, token in enumerate(cells[number]):
            _draw_token(ui, token, (top.x + gutter + column * each, y), (each - ui.u(0.5), height))
    _draw_tip(result, top, gutter, each, height)
    y = top.y + (count - start) * height
    line = ImVec2(top.x, y), ImVec2(top.x + room, y)
    imgui.get_window_draw_list().add_line(*line, ui.color("accent"), max(1.0, ui.u(0.375)))
    imgui.set_cursor_screen_pos(ImVec2(top.x, y - height))
    imgui.invisible_button("settled", ImVec2(gutter, height))
    tip(ui, tr(SETTLED))
    ui.mark("lens.settled")
    imgui.set_cursor_screen_pos(top)
    imgui.dummy(ImVec2(room, height * count))
    ui.mark("lens.table")
    imgui.end_child()


def _draw_names(ui: Ui) -> float:
    """Draw above the table what its rows and columns are; return the room of layers' numbers."""
    at, draw, color = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), ui.color("muted")
    with ui.font(style="small"):
        gutter = max(ui.u(8), imgui.calc_text_size(tr("Layer")).x + ui.u(1.5))
        room = imgui.get_content_region_avail().x - gutter
        draw.add_text(at, color, tr("Layer"))
        draw.add_text(ImVec2(at.x + gutter, at.y), color, fit(tr(CANDIDATES), room))
    imgui.dummy(ImVec2(room, ui.theme.size("small")))
    ui.mark("lens.names")
    return gutter


def _cells(ui: Ui, result: LensResult, width: float) -> list[list[_Cell]]:
    """Return the cells of every row, which are made once for a result, a width and a theme."""
    kept, key = ui.local(LensShown), (ui.theme, width)
    if kept.result is not result or kept.key != key:
        final = result.rows[-1].tokens[0].token
        with ui.font(style="small"):
            made = [[_cell(ui, t, width, final) for t in r.tokens[:COLUMNS]] for r in result.rows]
        kept.result, kept.key, kept.cells = result, key, made
    return kept.cells


def _cell(ui: Ui, token: Alternative, width: float, final: int) -> _Cell:
    """Make a cell, whose colour is the stronger, the likelier its token is."""
    palette = ui.theme.palette
    fill = mix(palette.panel, palette.accent, 0.06 + 0.84 * token.probability**0.5)
    shown = percent(token.probability)
    wide = imgui.calc_text_size(shown).x
    words = fitting(visible(token.text, WHOLE), width - wide - ui.u(3))
    return _Cell(words, shown, wide, u32(fill), u32(legible(fill)), token.token == final)


def fitting(words: str, room: float) -> str:
    """Cut a token to the room. One with a name, as <|im_end|>, keeps its marks: without them it
    would look like a word of the text."""
    named = NAMED.match(words)
    if named is None or imgui.calc_text_size(words).x <= room:
        return fit(words, room)
    opens, name, closes = named.groups()
    inside = room - imgui.calc_text_size(opens + closes).x
    if inside < imgui.calc_text_size("…").x:
        return fit(words, room)
    return f"{opens}{fit(name, inside)}{closes}"


def _draw_layer(ui: Ui, layer: int, x: float, y: float, height: float, done: bool) -> None:
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    color = ui.color("accent" if done else "muted")
    spot = ImVec2(x, round(y + (height - small) / 2))
    draw.add_text(ui.fonts["bold" if done else "regular"], small, spot, color, f"{layer}")


def _draw_token(ui: Ui, token: _Cell, at: tuple[float, float], size: tuple[float, float]) -> None:
    """Draw a cell; that of the model's final token has a line around."""
    draw, small, gap = imgui.get_window_draw_list(), ui.theme.size("small"), ui.u(0.25)
    low = ImVec2(at[0], at[1] + gap)
    high = ImVec2(at[0] + size[0], at[1] + size[1] - gap)
    draw.add_rect_filled(low, high, token.fill, ui.u(0.75))
    if token.final:
        draw.add_rect(low, high, ui.color("accent"), ui.u(0.75), max(1.0, ui.u(0.3)))
    font, y, side = ui.fonts["regular"], round(at[1] + (size[1] - small) / 2), ui.u(1)
    draw.add_text(font, small, ImVec2(at[0] + side, y), token.ink, token.words)
    end = ImVec2(at[0] + size[0] - token.wide - side, y)
    draw.add_text(font, small, end, token.ink, token.shown)


def _draw_tip(result: LensResult, top: ImVec2, gutter: float, each: float, height: float) -> None:
    """Draw a tip with the whole token under the pointer, and how likely it was."""
    if not imgui.is_window_hovered():
        return
    mouse, rows = imgui.get_mouse_pos(), result.rows
    column = math.floor((mouse.x - top.x - gutter) / each)
    number = len(rows) - 1 - math.floor((mouse.y - top.y) / height)
    if 0 <= number < len(rows) and 0 <= column < min(COLUMNS, len(rows[number].tokens)):
        token, layer = rows[number].tokens[column], rows[number].layer
        imgui.set_tooltip(
            tr("“{said}”: {share:.2%} after layer {layer}").format(
                said=visible(token.text, WHOLE), share=token.probability, layer=layer
            )
        )
