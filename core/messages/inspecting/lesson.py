"""One token followed through the loaded model: what is asked for, and all numbers of it.

Values are float32 as the running executor computed them. What could be long is bounded: vectors
tell their first values, and beside them their size and root mean square; scores are told for the
tokens of one sentence, the rest of the cache as one sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ANY_HEAD = -1  # the lesson chooses
MOST_VALUES = 128  # of a vector; a head is rarely wider
MOST_TOKENS = 24  # of a sentence
MOST_NEURONS = 10
MOST_LOGITS = 512
TEMPERATURES = tuple(step / 10 for step in range(1, 21))  # at which tails of logits are summed

Norm = Literal["rms", "layer", "none"]
Gate = Literal["silu", "gelu", "none"]
Positions = Literal["rotary", "learned", "none"]


@dataclass(frozen=True, slots=True)
class FollowToken:
    """Ask for a TokenFollowed: the token at `position` of the cache runs once more, over the cache
    as it stands, and leaves no trace in it. One layer is opened, and one head of it; ANY_HEAD is
    the one that looks most at the tokens between the first and this one. Scores are told for the
    positions `first`..`position`, MOST_TOKENS at most.

    Served between two tokens of an answer.
    """

    request: int
    position: int
    layer: int
    head: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class VectorPart:
    values: tuple[float, ...]  # the first, MOST_VALUES at most
    size: int  # of the whole vector
    rms: float  # sqrt(mean(x^2)), of the whole vector


@dataclass(frozen=True, slots=True)
class TracedShape:
    """What of the model stands in formulas, and how the opened layer is built."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    context: int
    norm: Norm  # before the opened layer's attention; "none": it has none there
    post_norm: bool  # what attention and feed-forward give is normed
    qk_norm: bool
    positions: Positions
    rotary_dim: int  # values of a head that are turned by position
    half_split: bool  # pairs are a half apart, not neighbours
    theta: float  # base of the angles
    places: int  # rows of the table of learned positions; 0: there is none
    embedding_factor: float  # of the embedding's row
    residual_factor: float  # of what attention and feed-forward add
    cache_layers: int  # that keep keys and values; others read those of an earlier one
    cache_values: int  # of one position, in all layers
    scale: float  # of q . k
    softcap: float  # of scores; 0: none
    window: int  # positions that the opened layer sees; 0: all
    gate: Gate
    logit_cap: float  # 0: none
    cache_bytes: int  # of one position, in all layers
    causal: bool = True  # False: tokens see those that follow, as in an encoder


@dataclass(frozen=True, slots=True)
class TokenScore:
    """How the head scores one earlier token."""

    position: int
    dot: float  # q . k
    score: float  # what softmax is given: dot * scale, within the cap where there is one
    probability: float
    unscaled: float  # probability that softmax would give without the scale
    key: tuple[float, ...]  # [d], MOST_VALUES at most
    value: tuple[float, ...]  # [d], likewise


@dataclass(frozen=True, slots=True)
class HeadTrace:
    """The chosen head, and beside it the others of its layer."""

    query_raw: VectorPart  # [d], before its position turned it; equal to `query` where none does
    query: VectorPart  # [d], as it meets the keys
    key_raw: VectorPart | None  # [d]; None: the layer reads the keys of an earlier one
    key: VectorPart  # [d], of the token itself, as the cache holds it
    value: VectorPart  # [d], likewise
    scores: tuple[TokenScore, ...]  # of the sentence, in its order
    others: int  # tokens that the head sees outside of the sentence
    others_probability: float
    others_unscaled: float
    sink: float  # share of softmax that goes to no token; 0: the head has no sink
    sink_unscaled: float
    gain: float  # by which a person weighs the head's output
    output: VectorPart  # [d], the weighted sum of values, times the gain
    outputs: tuple[float, ...]  # root mean square of the output of every head of the layer


@dataclass(frozen=True, slots=True)
class Neuron:
    index: int
    gate: float  # before its activation; nan where the feed-forward has no gate
    up: float  # before its activation, where there is no gate
    value: float  # what goes into the matrix `down`


@dataclass(frozen=True, slots=True)
class FeedForwardTrace:
    normed: VectorPart  # [width]
    neurons: tuple[Neuron, ...]  # the strongest, by |value|
    strong: int  # neurons whose |value| is at least a tenth of the strongest
    size: int
    output: VectorPart  # [width], what is added to the residual


@dataclass(frozen=True, slots=True)
class LayerGrowth:
    """Root mean squares of what a layer adds to the residual, and of the residual behind it."""

    attention: float
    feed_forward: float  # and all else that follows attention in the layer
    residual: float


@dataclass(frozen=True, slots=True)
class LayerTrace:
    """The opened layer. `residual` is what it is given, `after_attention` what it is then."""

    residual: VectorPart
    normed: VectorPart  # the input of q, k and v
    head: HeadTrace
    attended: VectorPart  # [width], what attention adds to the residual
    after_attention: VectorPart
    feed_forward: FeedForwardTrace
    after: VectorPart


@dataclass(frozen=True, slots=True)
class TokenLogit:
    id: int
    text: str
    logit: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """Logits of what follows. `tails`: for each of TEMPERATURES, the sum over all tokens that are
    not among `top` of e^((logit - largest logit) / temperature)."""

    top: tuple[TokenLogit, ...]  # the largest, MOST_LOGITS at most
    tails: tuple[float, ...]
    went_on: TokenLogit | None  # the token that stands behind the followed one
    rank: int  # of that token: 1 is the likeliest; 0: there is none


@dataclass(frozen=True, slots=True)
class TokenTrace:
    position: int
    token: int
    layer: int
    head: int
    shape: TracedShape
    tokens: tuple[tuple[int, int], ...]  # (position, id) of the sentence
    row: VectorPart  # the embedding's row of the token
    place: VectorPart | None  # the row of its position; None: positions are not learned
    embedded: VectorPart  # what the first layer is given
    opened: LayerTrace
    growth: tuple[LayerGrowth, ...]  # by layer
    final: VectorPart  # what the head of the model is given: the residual behind its last norm
    distribution: Distribution


@dataclass(frozen=True, slots=True)
class TokenFollowed:
    request: int
    trace: TokenTrace | None
    message: str = ""  # a sentence where there is no trace
