"""What a person has chosen to see of attention; part of the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from llm_lite.desktop.language.translate import mark

Head = tuple[int, int]  # layer, head
Order = str  # "layer", or a name of core/inspect/attention_scores.py's SCORES
FigureName = Literal["grid", "heads", "text"]  # views that can be saved as pictures
MOST_LOCKED = 4
SINK = mark(
    "Heads that have nothing to look for rest on the first token, and its column swamps everything "
    "else. Leave it out and the rest of each row is scaled to 1."
)


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """`row` is the token whose row is marked, by position; None follows the newest."""

    locked: tuple[Head, ...] = ()
    row: int | None = None
    order: Order = "layer"
    layer: int | None = None  # only this one
    group: int | None = None  # only heads of this key head
    colors: str = "viridis"
    logarithmic: bool = True  # of maps; most of what a head does is faint
    high: float = 1.0  # value of the last colour
    exclude_first: bool = False
    large: bool = False  # over the whole window

    def toggled(self, head: Head) -> AttentionChoice:
        """With `head` locked, or no longer; the one locked first gives way to a fifth."""
        if head in self.locked:
            return replace(self, locked=tuple(h for h in self.locked if h != head))
        return replace(self, locked=(*self.locked, head)[-MOST_LOCKED:])

    def fit(self, layers: int, heads: int) -> AttentionChoice:
        """For a model of so many layers and heads: what it lacks is not chosen."""
        locked = tuple(h for h in self.locked if h[0] < layers and h[1] < heads)
        return replace(self, locked=locked, layer=None, group=None, row=None)
