"""Texts with a number for each token, tinted in a notebook: likelihoods, attention, anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import lines, one_line

RAREST = 0.001  # a probability from here on down has the strongest tint
_AMBER, _BLUE = "245, 158, 11", "59, 130, 246"  # for what was unlikely; for what weighs
_STRONGEST = 0.6  # opacity: the text on it can be read on a light ground and on a dark one
_BOX = (
    "font-family: ui-sans-serif, system-ui, sans-serif; line-height: 1.9; white-space: pre-wrap; "
    "overflow-wrap: anywhere; max-width: 60em"
)


class TokenText:
    """A text's tokens and a weight for each.

    `tokens` are their texts, `weights` float32 [n]; NaN where there is none. A notebook shows the
    text with a tint behind each token: the more unlikely the stronger where the weights are
    likelihoods, else the more weight the stronger. A pointer on a token tells its number.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        weights: NDArray[Any] | Sequence[float],
        *,
        likelihood: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        """Store the tokens and a weight for each; RequestError if the counts differ. `notes` has a
        further line for each token, which is shown under the pointer."""
        self.tokens = tuple(tokens)
        self.weights = np.asarray(weights, np.float32)
        self.likelihood = likelihood
        self._notes = notes or [""] * len(self.tokens)
        if self.weights.shape != (len(self.tokens),):
            found = list(self.weights.shape)
            raise RequestError(
                f"weights: expected [{len(self.tokens)}], one a token, found {found}"
            )

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        text = self.text
        shown = text if len(text) <= 40 else text[:39] + "…"
        what = "likelihoods" if self.likelihood else "weights"
        return f"<TokenText of {len(self)} tokens with {what}: {shown!r}>"

    def _repr_html_(self) -> str:
        color = _AMBER if self.likelihood else _BLUE
        spans = [
            _span(text, self._told(weight, note), strength, color)
            for text, weight, note, strength in zip(
                self.tokens, self.weights, self._notes, self._strengths(), strict=True
            )
        ]
        return f'<div style="{_BOX}">{"".join(spans)}</div>'

    def _strengths(self) -> NDArray[np.float64]:
        """Return the strengths of the tints, 0 to 1 [n]."""
        weights = self.weights.astype(np.float64)
        if self.likelihood:
            shares = np.log(np.clip(weights, RAREST, 1)) / math.log(RAREST)
        else:
            most = np.nanmax(np.abs(weights), initial=0.0)
            shares = np.abs(weights) / most if most else np.zeros_like(weights)
        return np.nan_to_num(shares)

    def _told(self, weight: float, note: str) -> str:
        number = (
            "" if math.isnan(weight) else f"{weight:.2%}" if self.likelihood else f"{weight:.4g}"
        )
        return "\n".join(filter(None, (number, note)))


def visible(token: str) -> str:
    """One line, by itself: spaces are seen where there is nothing else."""
    text = one_line(token)
    return text if text.strip() else "␣" * len(text)


def _span(text: str, told: str, strength: float, color: str) -> str:
    opacity = _STRONGEST * strength
    style = f"background: rgba({color}, {opacity:.2f})" if opacity >= 0.01 else ""
    shown = escape(lines(text)).replace("\n", "↵\n")
    return f'<span title="{escape(lines(told))}" style="border-radius: 3px; {style}">{shown}</span>'
