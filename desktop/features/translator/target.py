"""The target as it grows, and when it is there how likely its tokens were and where they look."""

from __future__ import annotations

import math

import numpy as np
from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import TargetFinished, TargetToken
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetAttention
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import shades_of
from llm_lite.desktop.features.tokens.view import draw_legend, likelihood_legend, weights_legend
from llm_lite.desktop.features.translator.boxes import draw_tokens, look_of
from llm_lite.desktop.features.translator.model import LookAcross, PointAtToken, TintTarget
from llm_lite.desktop.features.translator.state import CrossLook, LookBy, TokenAt
from llm_lite.desktop.language.core_words import said
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import sentence, signed
from llm_lite.desktop.widgets.controls import picker, toggle
from llm_lite.desktop.widgets.icons import ICON_COPY
from llm_lite.desktop.widgets.plots.shares import draw_share_lines
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text, wrapped

MOST = 5  # tokens of a list
LAST = mark("The last token: the target ends here, and no step has read it, so it looks nowhere.")


BY: tuple[tuple[LookBy, str], ...] = (
    ("all", mark("Mean of all heads")),
    ("layer", mark("Mean of a layer")),
    ("head", mark("One head")),
)
BY_HINT = mark("Which heads of cross-attention say where a token looks.")
LIKELY = mark("Tint each token of the target by how unlikely the model found it.")
PROBLEM = 400  # characters of a sentence in the target's place
READS = mark("The source as the encoder reads it, token by token.")


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
    if pointed is not None:
        draw_tip(state, ui, pointed)
    if able is not None and imgui.is_mouse_clicked(0):
        actions += _hold(state, able)
    return actions


def _hold(state: AppState, token: TokenAt) -> list[Action]:
    """Its row in the maps: of the source those of the encoder, of a target its own or those of
    cross-attention. A second click lets go of it."""
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
    """With what tints tokens; likelihood and copy go below where there is no room beside it."""
    translating, actions = state.translating, list[Action]()
    edge = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    imgui.align_text_to_frame_padding()
    text(ui, tr("Target"), bold=True)
    if not translating.tokens:
        return actions
    imgui.same_line(0, ui.u(4))
    look = _draw_look(state, ui)
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
    if look != translating.look:
        actions.append(LookAcross(look))
    if tinted != translating.tinted:
        actions.append(TintTarget(tinted))
    return actions


def _draw_look(state: AppState, ui: Ui) -> CrossLook:
    """Which heads tint the source."""
    look, model = state.translating.look, state.model
    assert model is not None
    width = min(ui.u(36), imgui.get_content_region_avail().x)
    look = replace(
        look, by=picker(ui, "translating.by", tr_labels(BY), look.by, width, tr(BY_HINT))
    )
    if look.by == "all":
        return look
    imgui.same_line(0, ui.u(1))
    layers = [(str(i), tr("Layer {i}").format(i=i)) for i in range(model.layers)]
    layer = str(min(look.layer, model.layers - 1))
    look = replace(look, layer=int(picker(ui, "translating.layer", layers, layer, ui.u(22))))
    if look.by == "layer":
        return look
    imgui.same_line(0, ui.u(1))
    heads = [(str(i), tr("Head {i}").format(i=i)) for i in range(model.heads)]
    head = str(min(look.head, model.heads - 1))
    return replace(look, head=int(picker(ui, "translating.head", heads, head, ui.u(22))))


def _draw_foot(state: AppState, ui: Ui) -> None:
    """What the colours mean, and what it took; why there is nothing more."""
    translating = state.translating
    result = translating.result
    if result is None:
        return
    if result.problem:
        wrapped(ui, sentence(said(fit_line(result.problem, PROBLEM))), "error")
        ui.mark("translating.problem")
        return
    if not result.tokens:
        text(ui, tr("It was stopped before the first token."), "muted", "small")
        return
    _draw_legend(state, ui)
    told = facts(result) if translating.mode is None else [*facts(result), translating.mode]
    wrapped(ui, "  ·  ".join(told), "muted", "small")
    ui.mark("translating.facts")


def _draw_legend(state: AppState, ui: Ui) -> None:
    """On a line of its own, which is kept free where nothing has colours."""
    rows, found = look_of(state), None
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
    """How it was found, how long that took, and how it ended."""
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
        _draw_looks(state, ui, pointed)
        imgui.end_tooltip()


def _draw_looks(state: AppState, ui: Ui, pointed: TokenAt) -> None:
    translating, rows = state.translating, state.attention_rows
    if pointed != translating.pointed:
        return
    if pointed.side == "target" and pointed.position >= state.context_used:
        imgui.dummy(ImVec2(ui.u(60), 0))
        wrapped(ui, tr(LAST))
        return
    if rows is not None and rows.message and rows.position == pointed.position:
        imgui.dummy(ImVec2(ui.u(60), 0))
        wrapped(ui, f"{rows.message[:1].upper()}{rows.message[1:]}.")
    found = look_of(state)
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
