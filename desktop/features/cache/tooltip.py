"""What the pointer says over the map: the token, its role, and what was measured there."""

from __future__ import annotations

import math

from imgui_bundle import imgui

from llm_lite.core.messages import CacheLayerInfo
from llm_lite.desktop.features.cache.state import age, layer_bytes, reused_positions
from llm_lite.desktop.features.chat.turns import token_id
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import SYSTEM, TARGET, TEMPLATE
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import size, tokens
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text

AROUND = 4  # tokens before and behind
NAMES = {
    "key-norm": mark("key norm"),
    "value-norm": mark("value norm"),
    "received": mark("attention received"),
}


def draw_tip(state: AppState, ui: Ui, numbers: tuple[int, ...], column: int, position: int) -> None:
    """`numbers` of the layers in the layout; `position` is negative where nothing is held."""
    assert state.model is not None
    number = numbers[0]
    layer = state.model.cache.layers[number]
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    if 0 <= position < min(len(state.positions), len(state.owners)):
        _draw_token(state, ui, position)
        _small(ui, "  ·  ".join(_facts(state, number, position)))
    else:
        text(ui, _empty(state, layer, position), bold=True)
        words = tr("place {n:,}") if state.cache.slots else tr("position {n:,}")
        _small(ui, words.format(n=column))
    _small(ui, layer_words(tuple(state.model.cache.layers[n] for n in numbers)))
    imgui.end_tooltip()


def _small(ui: Ui, words: str) -> None:
    text(ui, words, "muted", "small")


def _draw_token(state: AppState, ui: Ui, position: int) -> None:
    """The token between its neighbours."""
    labels = state.positions
    before = labels[max(0, position - AROUND) : position]
    after = labels[position + 1 : position + 1 + AROUND]
    text(ui, f"“{visible(labels[position])}”", bold=True)
    imgui.same_line(0, ui.u(3))
    _small(ui, "".join(map(_plain, before)))
    imgui.same_line(0, 0)
    text(ui, _plain(labels[position]), "accent", "small")
    imgui.same_line(0, 0)
    _small(ui, "".join(map(_plain, after)))


def _plain(words: str) -> str:
    return words.replace("\n", "⏎").replace("\t", "→")


def _facts(state: AppState, number: int, position: int) -> list[str]:
    token = token_id(state, position)
    known = [] if token is None else [tr("token {n:,}").format(n=token)]
    known += [tr("position {n:,}").format(n=position), whose(state, position)]
    if position < reused_positions(state.cache):
        known.append(tr("reused"))
    value = value_at(state, number, position)
    if value is not None:
        known.append(value)
    return known


def whose(state: AppState, position: int) -> str:
    owner = state.owners[position]
    if owner == TEMPLATE:
        return tr("the chat template's own")
    if owner == TARGET:
        return tr("the target's") if position else tr("the token that the decoder starts with")
    if owner == SYSTEM or not 0 <= owner < len(state.messages):
        return tr("system prompt")
    yours = state.messages[owner].role != "assistant"
    return (tr("you, message {n}") if yours else tr("answer, message {n}")).format(n=owner + 1)


def value_at(state: AppState, number: int, position: int) -> str | None:
    """What the colours say there, in words."""
    cache = state.cache
    if cache.by == "age":
        since = age(cache, position)
        return tr("{since} ago").format(since=tokens(since)) if since else tr("the newest")
    known = cache.measured
    if known is None or known.what != cache.by or position >= known.values.shape[1]:
        return None
    value = float(known.values[number, position])
    if math.isnan(value):
        return None
    shown = f"{value:.3g}" if known.what != "received" else f"{value:.2%}"
    return f"{tr(NAMES[known.what])} {shown}"


def layer_words(layers: tuple[CacheLayerInfo, ...]) -> str:
    """The layer under the pointer, or those that a row of the map stands for."""
    layer = layers[0]
    if len(layers) > 1:
        owners = ranges(tuple(one.layer for one in layers))
        words = [tr("Layers {numbers}").format(numbers=owners)]
    else:
        words = [tr("Layer {i}").format(i=layer.layer)]
    words.append(tr("{size} a token").format(size=size(sum(map(layer_bytes, layers)))))
    if layer.shared_with and len(layers) == 1:
        shared = layer.shared_with
        also = trn("also read by layer {numbers}", "also read by layers {numbers}", len(shared))
        words.append(also.format(numbers=ranges(shared)))
    if layer.window:
        words.append(tr("looks back {n:,}").format(n=layer.window))
    return "  ·  ".join(words)


def ranges(numbers: tuple[int, ...]) -> str:
    """ "20–22, 25"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)


def _empty(state: AppState, layer: CacheLayerInfo, position: int) -> str:
    """Where no token of the conversation is known."""
    if position >= 0:
        return tr("From an earlier answer: its text is known once the conversation goes on")
    if position == -1:
        return tr("Free")
    if state.cache.slots:
        return tr("This layer has no such place")
    return tr("Overwritten: this layer keeps the last {n:,}").format(n=layer.rows)
