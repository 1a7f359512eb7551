"""Colours of tokens: by attention, by likelihood, by drafts, or only to tell one from the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import AttentionRows
from llm_lite.desktop.attention.colors import table
from llm_lite.desktop.features.attention.rows import pointed_rows
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokens.state import DraftOutcome, Passage
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui

FULL = 0.12  # share of the scale from which a colour is opaque: below, the text stays as it is
INK, PAPER = 0x14161A, 0xFFFFFF
BRIGHT = 0.19  # linear luminance from which ink reads better
LEAST_TOP = 0.01  # weight of the last colour at least: less is not painted as if it were much
RAREST = 1e-3  # probability of the strongest tint
Paint = Callable[[int], tuple[int, int]]  # token -> colours behind and of its text


class Shades(Struct, frozen=True):
    """Packed colours by position, and the value of the last one."""

    fills: tuple[int, ...]
    texts: tuple[int, ...]  # 0: as it is
    top: float
    beyond: bool = False  # whether there is more than that


class KeptShades(Struct):
    """The tints that were made last, and what they were made of."""

    rows: AttentionRows | None = None
    key: tuple[object, ...] = ()
    shades: Shades | None = None


def weights_of(state: AppState) -> AttentionRows | None:
    """Return the attention of the token under the pointer, once it is read."""
    rows = pointed_rows(state)
    return rows if rows is not None and rows.weights else None


def shown_weights(rows: AttentionRows, choice: AttentionChoice) -> np.ndarray:
    """Return the weights. If the first token is excluded, the others are scaled to the sum 1."""
    weights = np.array(rows.weights, np.float64)
    if not choice.exclude_first:
        return weights
    weights[0] = 0.0
    total = weights.sum()
    return weights / total if rows.direction == "from" and total > 0 else weights


def shades(state: AppState, ui: Ui) -> Shades | None:
    """Return the tints of the attention that is shown, as `shades_of` does."""
    rows = weights_of(state)
    if rows is None:
        return None
    return shades_of(ui, rows, state.attention, state.theme)


def shades_of(
    ui: Ui, rows: AttentionRows, choice: AttentionChoice, theme: str, *, first_counts: bool = False
) -> Shades:
    """Return the tints of attention weights; they are kept until those, the theme or the scale
    change. With `first_counts` the scale may end at the first token's weight."""
    key = (choice.colors, choice.exclude_first, theme, first_counts)
    kept = ui.local(KeptShades)
    if kept.shades is None or kept.rows is not rows or kept.key != key:
        kept.rows, kept.key, kept.shades = rows, key, _shade(rows, choice, ui, first_counts)
    return kept.shades


def _shade(rows: AttentionRows, choice: AttentionChoice, ui: Ui, first_counts: bool) -> Shades:
    # The scale is linear, or all of the text would light up. It ends at the largest weight but for
    # that of the first token, which exceeds all others in a text that attends to itself.
    weights = shown_weights(rows, choice)
    rest = weights[1:] if len(weights) > 1 and not first_counts else weights
    top = max(float(rest.max()), LEAST_TOP)
    shares = np.clip(weights / top, 0.0, 1.0)
    light = ui.theme.palette.base & 0xFF > 0x7F
    colors = table(choice.colors, light)[np.rint(shares * 255).astype(int)].astype(np.float64)
    alpha = np.clip(shares / FULL, 0.0, 1.0)
    base = ui.theme.palette.base
    behind = np.array([base >> 16, base >> 8 & 255, base & 255], np.float64)
    mixed = colors[:, :3] * alpha[:, None] + behind * (1 - alpha[:, None])
    bright = luminance(mixed) > BRIGHT
    packed = np.rint(mixed).astype(np.uint32)
    fills = packed[:, 0] | packed[:, 1] << 8 | packed[:, 2] << 16 | np.uint32(0xFF000000)
    fills = np.where(alpha < 0.02, 0, fills)
    texts = np.where(bright, u32(INK), u32(PAPER))
    texts = np.where(alpha < 0.4, 0, texts)
    return Shades(tuple(fills.tolist()), tuple(texts.tolist()), top, float(weights.max()) > top)


def paint_of(state: AppState, ui: Ui, message: Message, cut: Passage) -> Paint:
    """Return the colours of the tokens of a message, and of the template around it."""
    first, own, behind = cut.first, cut.own, cut.behind
    found = shades(state, ui)
    text, faint = ui.color("text"), ui.color("muted")
    chips = (ui.color("hover", 0.55), ui.color("hover"))

    def paint(token: int) -> tuple[int, int]:
        color = text if token < 0 or own <= token < behind else faint
        if token < 0:
            return 0, color
        if found is not None and first is not None:
            position = first + token
            if position < len(found.fills):
                fill = found.fills[position]
                return fill, found.texts[position] or color
            return 0, color
        at = cut.token(token)
        if state.xray.drafts:
            return draft_tint(ui, message.drafting(at)), color
        if state.xray.probabilities:
            return likely(ui, math.nan if at is None else message.likelihood(at)), color
        return chips[token % 2], color

    return paint


def likely(ui: Ui, value: float) -> int:
    """Return the tint of a probability: none for what was certain, strong for what was rare. What
    was half likely differs visibly from what was certain."""
    if math.isnan(value):
        return 0
    share = math.log(max(value, RAREST)) / math.log(RAREST)
    return ui.color("warning", 0.12 + 0.63 * share) if share > 0.02 else 0


def draft_tint(ui: Ui, outcome: DraftOutcome) -> int:
    """Return the tint of a token that was drafted, or that came in place of drafts."""
    if outcome == "accepted":
        return ui.color("good", 0.4)
    return ui.color("warning", 0.6) if outcome == "rejected" else 0


@lru_cache(maxsize=8192)
def mix(low: int, high: int, share: float) -> int:
    """Return a colour between two, each 0xRRGGBB."""
    parts = [(low >> at & 255, high >> at & 255) for at in (16, 8, 0)]
    red, green, blue = (round(a + (b - a) * share) for a, b in parts)
    return red << 16 | green << 8 | blue


@lru_cache(maxsize=4096)
def legible(fill: int) -> int:
    """Return dark ink or white, the more legible one on a colour, 0xRRGGBB."""
    parts = np.array([fill >> at & 255 for at in (16, 8, 0)], np.float64)
    return INK if luminance(parts) > BRIGHT else PAPER


def luminance(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the luminance of sRGB 0..255 [..., 3] relative to white (Rec. 709, gamma 2.2)."""
    found: NDArray[np.float64] = (rgb / 255) ** 2.2 @ np.array([0.2126, 0.7152, 0.0722])
    return found
