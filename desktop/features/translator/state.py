"""State of the page of an encoder-decoder: the source that is typed, and its target."""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import (
    Mode,
    OtherTarget,
    SourceToken,
    TargetFinished,
    TargetToken,
    Translate,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import Head

HeadsBy = Literal["all", "layer", "head"]
Side = Literal["source", "target"]
LONGEST = 100_000  # characters that can be typed or pasted


class TokenAt(Struct, frozen=True):
    """A token of the source, or of the target without the token that it starts with."""

    side: Side
    index: int

    @property
    def position(self) -> int:
        """Return its row in maps of cross-attention, where a start token precedes the target."""
        return self.index + (self.side == "target")


class CrossHeads(Struct, frozen=True):
    """The heads of cross-attention by which tokens are tinted: all, those of a layer, or one."""

    by: HeadsBy = "all"
    layer: int = 0
    head: int = 0

    def heads(self, layers: int, heads: int) -> tuple[Head, ...]:
        """Return the heads in a model of this many layers, with this many heads each."""
        if self.by == "all":
            return tuple((layer, head) for layer in range(layers) for head in range(heads))
        layer = min(self.layer, layers - 1)
        if self.by == "layer":
            return tuple((layer, head) for head in range(heads))
        return ((layer, min(self.head, heads - 1)),)


class TranslatingState(Struct, frozen=True):
    """The page's state."""

    draft: str = ""
    prefix: str = ""  # of a task; goes before the draft
    beams: int = 0  # hypotheses at a time; 0: as many as the model's file says
    longest: int = 0  # tokens of a target; 0: as many as its source asks for
    writing: Translate | None = None  # the command for the target that is being written
    began: float = 0.0  # when it was asked for
    stopping: bool = False
    clearing: bool = False  # the page is to be empty when it has stopped
    asked: str = ""  # the source of what is shown, its prefix included
    source: tuple[SourceToken, ...] = ()
    start: str = ""  # text of the token that the decoder begins with
    tokens: tuple[TargetToken, ...] = ()  # their probabilities are nan until the end
    result: TargetFinished | None = None
    problem: str = ""  # a sentence where the target could not be written
    mode: Mode | None = None  # of the weights that wrote it
    choices: int = 0  # how often another hypothesis was chosen
    tinted: bool = True  # targets by how likely each token was
    cross: CrossHeads = CrossHeads()
    pointed: TokenAt | None = None
    cleared: TranslatingState | None = None  # what was here before it was cleared

    @property
    def running(self) -> bool:
        return self.writing is not None

    @property
    def text(self) -> str:
        """Return the text of the target so far."""
        if self.result is not None:
            return self.result.text
        return "".join(token.text for token in self.tokens).strip()

    def begun(self, command: Translate, now: float) -> TranslatingState:
        """Begin the target of a source: what was shown of another is removed."""
        chosen = self._chosen(self.draft)
        return replace(chosen, writing=command, began=now, asked=command.source)

    def choosing(self, number: int) -> TranslatingState:
        """Make another hypothesis the target. The one that was it joins the others, which are
        ordered by score."""
        result = self.result
        if result is None:
            return self
        best = OtherTarget(result.text, result.score, result.tokens)
        chosen, others = result.others[number], list(result.others)
        others[number] = best
        others.sort(key=lambda other: -other.score)
        stats = replace(result.stats, new_tokens=len(chosen.tokens))
        swapped = replace(
            result, tokens=chosen.tokens, text=chosen.text, score=chosen.score,
            others=tuple(others), stats=stats,
        )  # fmt: skip
        return replace(
            self, tokens=chosen.tokens, result=swapped, pointed=None, choices=self.choices + 1
        )

    def emptied(self) -> TranslatingState:
        """Remove the source and its target, and keep them in `cleared`."""
        return replace(
            self._chosen(""), cleared=replace(self, clearing=False, pointed=None, cleared=None)
        )

    def _chosen(self, draft: str) -> TranslatingState:
        """Keep only what a person has chosen, with a draft."""
        chosen = TranslatingState(draft, self.prefix, self.beams, self.longest)
        return replace(chosen, tinted=self.tinted, cross=self.cross)

    def of_next_conversation(self) -> TranslatingState:
        return self

    def of_next_model(self) -> TranslatingState:
        """Return the page for another model: what was typed stays."""
        return TranslatingState(self.draft, tinted=self.tinted)


def grown(tokens: tuple[int, ...], texts: tuple[str, ...]) -> tuple[TargetToken, ...]:
    """Return the tokens of an unfinished target, whose probabilities are not known yet."""
    pairs = zip(tokens, texts, strict=False)
    return tuple(TargetToken(token, text, math.nan) for token, text in pairs)
