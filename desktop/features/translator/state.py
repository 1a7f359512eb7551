"""What a person has typed for an encoder-decoder, and what it has written about it.

Pure, like everything in the state.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import Mode, OtherTarget, SourceToken, TargetFinished, TargetToken
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import Head

LookBy = Literal["all", "layer", "head"]
Side = Literal["source", "target"]
LONGEST = 100_000  # characters that can be typed or pasted


class TokenAt(Struct, frozen=True):
    """A token of the source, or of the target without the token that it starts with."""

    side: Side
    index: int

    @property
    def position(self) -> int:
        """Where maps of cross-attention have it: targets start with a token of their own."""
        return self.index + (self.side == "target")


class CrossLook(Struct, frozen=True):
    """By which heads of cross-attention tokens are tinted: the mean of all, of a layer, or one."""

    by: LookBy = "all"
    layer: int = 0
    head: int = 0

    def heads(self, layers: int, heads: int) -> tuple[Head, ...]:
        """Those of a model of so many."""
        if self.by == "all":
            return tuple((layer, head) for layer in range(layers) for head in range(heads))
        layer = min(self.layer, layers - 1)
        if self.by == "layer":
            return tuple((layer, head) for head in range(heads))
        return ((layer, min(self.head, heads - 1)),)


class TranslatingState(Struct, frozen=True):
    """`request` is of the target that is being written; 0: none is."""

    draft: str = ""
    prefix: str = ""  # of a task; goes before the draft
    beams: int = 0  # hypotheses at a time; 0: as many as the model's file says
    longest: int = 0  # tokens of a target; 0: as many as its source asks for
    request: int = 0
    began: float = 0.0  # when it was asked for
    stopping: bool = False
    clearing: bool = False  # the page is to be empty when it has stopped
    asked: str = ""  # the source of what is shown, its prefix included
    source: tuple[SourceToken, ...] = ()
    start: str = ""  # text of the token that the decoder begins with
    tokens: tuple[TargetToken, ...] = ()  # nan: how likely one was is told at the end
    result: TargetFinished | None = None
    mode: Mode | None = None  # of the weights that wrote it
    choices: int = 0  # how often another hypothesis was chosen
    tinted: bool = True  # targets by how likely each token was
    look: CrossLook = CrossLook()
    pointed: TokenAt | None = None
    cleared: TranslatingState | None = None  # what was here before it was cleared

    @property
    def running(self) -> bool:
        return self.request != 0

    @property
    def text(self) -> str:
        """The target so far."""
        if self.result is not None and not self.result.problem:
            return self.result.text
        return "".join(token.text for token in self.tokens).strip()

    def begun(self, request: int, source: str, now: float) -> TranslatingState:
        """A target about a source was asked for: what was shown of another goes."""
        return replace(self._chosen(self.draft), request=request, began=now, asked=source)

    def choosing(self, number: int) -> TranslatingState:
        """With another hypothesis as the target, and the one that was it among the others, the best
        first."""
        result = self.result
        if result is None:
            return self
        best = OtherTarget(result.text, result.score, result.tokens)
        chosen, others = result.others[number], list(result.others)
        others[number] = best
        others.sort(key=lambda other: -other.score)
        stats = replace(result.stats, new_tokens=len(chosen.tokens))
        told = replace(
            result, tokens=chosen.tokens, text=chosen.text, score=chosen.score,
            others=tuple(others), stats=stats,
        )  # fmt: skip
        return replace(
            self, tokens=chosen.tokens, result=told, pointed=None, choices=self.choices + 1
        )

    def emptied(self) -> TranslatingState:
        """Without a source and its target, which can be brought back."""
        return replace(
            self._chosen(""), cleared=replace(self, clearing=False, pointed=None, cleared=None)
        )

    def _chosen(self, draft: str) -> TranslatingState:
        """What a person has chosen, with a draft."""
        chosen = TranslatingState(draft, self.prefix, self.beams, self.longest)
        return replace(chosen, tinted=self.tinted, look=self.look)

    def forgotten(self) -> TranslatingState:
        """For another model: what was typed stays."""
        return TranslatingState(self.draft, tinted=self.tinted)


def grown(tokens: tuple[int, ...], texts: tuple[str, ...]) -> tuple[TargetToken, ...]:
    """While a target is being written nobody says how likely its tokens are."""
    return tuple(map(_unjudged, tokens, texts))


def _unjudged(token: int, text: str) -> TargetToken:
    return TargetToken(token, text, math.nan)
