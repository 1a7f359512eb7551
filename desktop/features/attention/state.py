"""The choices of what is shown of attention."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import AttentionPart, ModelInfo
from llm_lite.core.records import replace
from llm_lite.desktop.language.translate import mark

Head = tuple[int, int]  # layer, head
Order = str  # "layer", or a name of core/inspect/attention_scores.py's SCORES
FigureName = Literal["grid", "heads", "text"]  # views that can be saved as pictures
MOST_LOCKED = 4
SINK = mark(
    "Many heads put most of their attention on the first token (an attention sink), which"
    " hides everything else. Leave it out, and the rest of each row is scaled to 1."
)

PARTS: tuple[tuple[AttentionPart, str], ...] = (
    ("encoder", mark("Encoder")),
    ("decoder", mark("Decoder")),
    ("cross", mark("Cross")),
)
PART_HINTS = (
    mark("How tokens of the source look at each other: in both directions, as all are there."),
    mark("How each token of the target looks back at those before it."),
    mark("How each token of the target looks at the source. Rows are the target's, columns its."),
)


class AttentionChoice(Struct, frozen=True):
    """`row` is the token whose row is marked, by position; None follows the newest. `part` is what
    is shown of an encoder-decoder, and `aside` the heads that are locked in its other parts.
    `state_head` is of a layer with a recurrent state, and is shown in the place of locked ones."""

    locked: tuple[Head, ...] = ()
    state_head: Head | None = None
    row: int | None = None
    row_of: tuple[str, ...] = ()  # the tokens up to it, as they were when it was chosen
    order: Order = "layer"
    layer: int | None = None  # only this one
    group: int | None = None  # only heads of this key head
    colors: str = "viridis"
    logarithmic: bool = True  # of maps; most of what a head does is faint
    high: float = 1.0  # value of the last colour
    exclude_first: bool = False
    large: bool = False  # over the whole window
    part: AttentionPart = "decoder"
    aside: tuple[tuple[AttentionPart, tuple[Head, ...]], ...] = ()

    def toggled(self, head: Head) -> AttentionChoice:
        """Lock `head`, or unlock it; the one locked first gives way to a fifth."""
        if head in self.locked:
            return replace(self, locked=tuple(h for h in self.locked if h != head))
        return replace(self, locked=(*self.locked, head)[-MOST_LOCKED:], state_head=None)

    def showing(self, part: AttentionPart) -> AttentionChoice:
        """Show another part, with the heads that were locked there."""
        if part == self.part:
            return self
        kept = {**dict(self.aside), self.part: self.locked}
        locked = kept.pop(part, ())
        aside = tuple(sorted(kept.items()))
        return replace(
            self, part=part, locked=locked, aside=aside, layer=None, group=None, row=None
        )

    def of_next_conversation(self) -> AttentionChoice:
        return replace(self, row=None)

    def of_next_model(self) -> AttentionChoice:
        return replace(self, row=None)

    def fit(self, model: ModelInfo) -> AttentionChoice:
        """Fit the choice to a model: what it lacks is not chosen. An encoder-decoder shows its
        cross-attention first."""
        layers, heads = model.attending_layers, model.heads
        part: AttentionPart = "cross" if model.translates else "decoder"
        locked = tuple(h for h in self.locked if h[0] in layers and h[1] < heads)
        locked = locked if part == self.part else ()
        return replace(
            self,
            part=part,
            aside=(),
            locked=locked,
            state_head=None,
            layer=None,
            group=None,
            row=None,
        )
