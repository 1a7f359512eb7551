"""Source and target as boxes of tokens, tinted by weights of cross-attention or by likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import AttentionRows, SourceToken, TargetFinished, TargetToken
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS, rows_of
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import Shades, likely, shades_of
from llm_lite.desktop.features.tokens.view import draw_legend, likelihood_legend, weights_legend
from llm_lite.desktop.features.translator.model import (
    ChooseCrossHeads,
    PointAtToken,
    TintTarget,
    pointed_question,
)
from llm_lite.desktop.features.translator.state import CrossHeads, HeadsBy, Side, TokenAt
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import sentence, signed
from llm_lite.desktop.widgets.controls import picker, toggle
from llm_lite.desktop.widgets.icons import ICON_COPY
from llm_lite.desktop.widgets.plots.shares import draw_share_lines
from llm_lite.desktop.widgets.token_text import NO_TOKEN, TokenPage, draw_boxes, lay_out, visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text, wrapped

Tokens = Sequence[SourceToken] | Sequence[TargetToken]
MOST = 5  # tokens of a list
LAST = mark("The last token: the target ends here, and no step has read it, so it looks nowhere.")
BY: tuple[tuple[HeadsBy, str], ...] = (
    ("all", mark("Mean of all heads")),
    ("layer", mark("Mean of a layer")),
    ("head", mark("One head")),
)
BY_HINT = mark("Which heads of cross-attention say where a token looks.")
LIKELY = mark("Tint each token of the target by how unlikely the model found it.")
PROBLEM = 400  # characters of a sentence in the target's place
READS = mark("The source as the encoder reads it, token by token.")


class LaidTokens(Struct):
    """The layout of a text in tokens, and what it was made of."""

    tokens: Tokens
    size: tuple[float, float]  # pixels: of the column, of the font
    page: TokenPage


class TokenLayouts(Struct):
    """The layouts of source and target."""

    sides: dict[Side, LaidTokens] = field(default_factory=dict)


def draw_target(state: AppState, ui: Ui) -> list[Action]:
    translating, actions = state.translating, list[Action]()
    pointed = None
    if translating.source:
        imgui.dummy(ImVec2(0, ui.u(1)))
        wrapped(ui, tr(READS))
        pointed = draw_tokens(state, ui, "source", translating.source)
    imgui.dummy(ImVec2(0, ui.u(2)))
    actions += _draw_title(state, ui)
    if translating.tokens:
        pointed = draw_tokens(state, ui, "target", translating.tokens) or pointed
    elif translating.running:
        text(ui, tr("Reading the source"), "muted")
    _draw_foot(state, ui)
    able = pointed if translating.result is not None else None
    if able != translating.pointed:
        actions.append(PointAtToken(able))
    question = pointed_question(state)
    actions += ROWS.wanted(state, question) if question is not None else []
    if pointed is not None:
        draw_tip(state, ui, pointed)
    if able is not None and imgui.is_mouse_clicked(0):
        actions += _hold(state, able)
    return actions


def _hold(state: AppState, token: TokenAt) -> list[Action]:
    """Select the token's row in the attention maps: of the encoder for the source, of the decoder
    or of cross-attention for the target. A second click deselects it."""
    if token.position >= state.context_used and token.side == "target":
        return []  # the last one, which no step has read
    choice = state.attention
    if token.side == "source":
        choice = choice.showing("encoder")
    elif choice.part == "encoder":
        choice = choice.showing("cross")
    row = None if choice.row == token.position else token.position
    return [SetAttention(replace(choice, row=row))]


def _draw_title(state: AppState, ui: Ui) -> list[Action]:
    """Draw the title and what tints tokens; switch and button go below if there is no room."""
    translating, actions = state.translating, list[Action]()
    edge = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    imgui.align_text_to_frame_padding()
    text(ui, tr("Target"), bold=True)
    if not translating.tokens:
        return actions
    imgui.same_line(0, ui.u(4))
    cross = _draw_heads(state, ui)
    with ui.font(style="small"):
        room = imgui.calc_text_size(f"{tr('Likelihood')}{ICON_COPY}{tr('Copy')}").x + ui.u(28)
        if imgui.get_item_rect_max().x + room < edge:
            imgui.same_line(0, ui.u(4))
        tinted = toggle(ui, "translating.likely", tr("Likelihood"), translating.tinted, tr(LIKELY))
        label = tr("Copy")
        width = imgui.calc_text_size(f"{ICON_COPY}  {label}").x + ui.u(5)
        imgui.same_line(ui.right(width))
        if button(ui, "translating.copy", label, ICON_COPY):
            imgui.set_clipboard_text(translating.text)
    if cross != translating.cross:
        actions.append(ChooseCrossHeads(cross))
    if tinted != translating.tinted:
        actions.append(TintTarget(tinted))
    return actions


def _draw_heads(state: AppState, ui: Ui) -> CrossHeads:
    """Draw the lists of heads that tint the source."""
    cross, model = state.translating.cross, state.model
    assert model is not None
    width = min(ui.u(36), imgui.get_content_region_avail().x)
    cross = replace(
        cross, by=picker(ui, "translating.by", tr_labels(BY), cross.by, width, tr(BY_HINT))
    )
    if cross.by == "all":
        return cross
    imgui.same_line(0, ui.u(1))
    layers = [(str(i), tr("Layer {i}").format(i=i)) for i in range(model.layers)]
    layer = str(min(cross.layer, model.layers - 1))
    cross = replace(cross, layer=int(picker(ui, "translating.layer", layers, layer, ui.u(22))))
    if cross.by == "layer":
        return cross
    imgui.same_line(0, ui.u(1))
    heads = [(str(i), tr("Head {i}").format(i=i)) for i in range(model.heads)]
    head = str(min(cross.head, model.heads - 1))
    return replace(cross, head=int(picker(ui, "translating.head", heads, head, ui.u(22))))


def draw_tokens(state: AppState, ui: Ui, side: Side, tokens: Tokens) -> TokenAt | None:
    """Draw a text across the column, and return its token under the pointer."""
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


def _laid(ui: Ui, side: Side, tokens: Tokens, width: float) -> TokenPage:
    """Return the layout of tokens, which is made once for these tokens and a width."""
    kept, size = ui.local(TokenLayouts).sides, (width, ui.theme.text)
    laid = kept.get(side)
    if laid is None or laid.tokens is not tokens or laid.size != size:
        spans, at = [], 0
        for token in tokens:
            spans.append((at, at + len(token.text)))
            at += len(token.text)
        words = "".join(token.text for token in tokens)
        laid = kept[side] = LaidTokens(tokens, size, lay_out(ui, words, tuple(spans), width))
    return laid.page


def _shades(state: AppState, ui: Ui, side: Side) -> Shades | None:
    """Return the tints of the tokens that the pointed one attends to, or that attend to it."""
    rows = cross_rows(state)
    if rows is None or (rows.direction == "from") == (side == "target"):
        return None
    return shades_of(ui, rows, state.attention, state.theme, first_counts=True)


def cross_rows(state: AppState) -> AttentionRows | None:
    """Return the weights of cross-attention for the token under the pointer, once they are read."""
    rows = rows_of(state, pointed_question(state))
    return rows if rows is not None and rows.weights else None


def _marked(state: AppState, ui: Ui, side: Side) -> dict[int, int]:
    """Return the colours of frames around the selected token and the one under the pointer."""
    marked, row = {}, state.attention.row
    if row is not None and (state.attention.part == "encoder") == (side == "source"):
        marked[row - (side == "target")] = ui.color("text")
    pointed = state.translating.pointed
    if pointed is not None and pointed.side == side:
        marked[pointed.index] = ui.color("accent")
    return marked


def _mark_rects(ui: Ui, side: Side, page: TokenPage, at: ImVec2) -> None:
    """Keep where tokens lie, for the tour and the tests."""
    for box in page.boxes[:400]:
        if box.token >= 0:
            y = at.y + box.line * page.line
            rect = (at.x + box.x, y, at.x + box.x + box.width, y + page.line)
            ui.rects.setdefault(f"translating.{side}.{box.token}", rect)


def _draw_foot(state: AppState, ui: Ui) -> None:
    """Draw the legend and the facts of a finished target, or why there is none."""
    translating = state.translating
    result = translating.result
    if translating.problem:
        wrapped(ui, sentence(translated(fit_line(translating.problem, PROBLEM))), "error")
        ui.mark("translating.problem")
    if result is None:
        return
    if not result.tokens:
        text(ui, tr("It was stopped before the first token."), "muted", "small")
        return
    _draw_legend(state, ui)
    words = facts(result) if translating.mode is None else [*facts(result), translating.mode]
    wrapped(ui, "  ·  ".join(words), "muted", "small")
    ui.mark("translating.facts")


def _draw_legend(state: AppState, ui: Ui) -> None:
    """Draw the legend on a line of its own, which stays empty while nothing has colours."""
    rows, found = cross_rows(state), None
    if rows is not None:
        shades = shades_of(ui, rows, state.attention, state.theme, first_counts=True)
        found = weights_legend(state, shades, back=rows.direction == "to")
    elif state.translating.tinted:
        found = likelihood_legend(ui)
    at = imgui.get_cursor_screen_pos()
    if found is not None:
        draw_legend(ui, found, (at.x, at.y), imgui.get_window_draw_list())
    imgui.dummy(ImVec2(0, ui.theme.size("small")))
    ui.mark("translating.legend")


def facts(result: TargetFinished) -> list[str]:
    """Name how the target was found, how long that took, and how it ended."""
    stats = result.stats
    found = [
        tr("{n:,} tokens").format(n=stats.new_tokens),
        tr("{ms:,.0f} ms").format(ms=stats.encode_ms + stats.decode_ms),
        tr("{rate:,.1f} tokens/s").format(rate=stats.tokens_per_s),
        tr("greedy") if stats.beams == 1 else tr("beam of {n}").format(n=stats.beams),
        tr("score {score}").format(score=signed(result.score, "z.3f")),
    ]
    if result.stop_reason == "stopped":
        found.append(tr("stopped"))
    elif result.stop_reason == "length":
        found.append(tr("no end within {n:,} tokens").format(n=stats.most_tokens))
    return found


def draw_tip(state: AppState, ui: Ui, pointed: TokenAt) -> None:
    translating = state.translating
    tokens = translating.source if pointed.side == "source" else translating.tokens
    if pointed.index >= len(tokens):
        return
    token = tokens[pointed.index]
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1.25))):
        if not imgui.begin_tooltip():
            return
        text(ui, f"“{visible(token.text, 40)}”", bold=True)
        facts = [tr("token {n:,}").format(n=token.token)]
        if isinstance(token, TargetToken) and not math.isnan(token.probability):
            facts.append(tr("{share:.1%} likely").format(share=token.probability))
        text(ui, "  ·  ".join(facts), "muted", "small")
        if isinstance(token, TargetToken) and token.alternatives:
            text(ui, tr("Likeliest here"), style="small", bold=True)
            likeliest = [(a.text, a.probability) for a in token.alternatives[:MOST]]
            draw_share_lines(ui, "translating.likely", likeliest)
        _draw_weights(state, ui, pointed)
        imgui.end_tooltip()


def _draw_weights(state: AppState, ui: Ui, pointed: TokenAt) -> None:
    translating, rows = state.translating, rows_of(state, pointed_question(state))
    if pointed != translating.pointed:
        return
    if pointed.side == "target" and pointed.position >= state.context_used:
        imgui.dummy(ImVec2(ui.u(60), 0))
        wrapped(ui, tr(LAST))
        return
    if rows is not None and rows.note:
        imgui.dummy(ImVec2(ui.u(60), 0))
        wrapped(ui, f"{rows.note[:1].upper()}{rows.note[1:]}.")
    found = cross_rows(state)
    if found is None:
        return
    weights = np.array(found.weights)
    back = found.direction == "to"
    labels = state.positions if back else [token.text for token in translating.source]
    best = [i for i in np.argsort(-weights, kind="stable")[:MOST].tolist() if weights[i] > 0]
    title = tr("Most looked at by") if back else tr("Looks most at")
    text(ui, title, style="small", bold=True)
    lines = [(labels[i] if i < len(labels) else "", float(weights[i])) for i in best]
    draw_share_lines(ui, "translating.look", lines)
