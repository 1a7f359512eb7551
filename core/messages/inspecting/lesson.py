"""One token traced through the loaded model: the request, and all numbers of it.

Values are float32 as the running executor computed them. What could be long is bounded: vectors
tell their first values, and beside them their size and root mean square; scores are those of the
tokens of one sentence, and one sum for the rest of the cache.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from llm_lite.core.messages.kinds import Event, StepRequest
from llm_lite.core.records import about

ANY_HEAD = -1  # the lesson chooses
MOST_VALUES = 128  # of a vector; a head is rarely wider
MOST_TOKENS = 24  # of a sentence
MOST_NEURONS = 10
MOST_LOGITS = 512
MOST_BESIDE = 400  # characters of a text that is compared
TEMPERATURES = tuple(step / 10 for step in range(1, 21))  # at which tails of logits are summed

ModelPath = Literal["decoder", "encoder", "encoder_decoder"]
Norm = Literal["rms", "layer", "none"]
Gate = Literal["silu", "gelu", "none"]
Curve = Literal["silu", "gelu", "relu"]
Positions = Literal["rotary", "learned", "sines", "bias", "none"]


class FollowToken(StepRequest, frozen=True):
    """Ask for a TokenFollowed: the token at `position` of the cache runs once more, over the cache
    as it stands, and leaves no trace in it. One layer is opened, and one head of it; ANY_HEAD is
    the one that attends most to other tokens than the first, the last and this one. Scores are of
    the positions `first`..`position`, MOST_TOKENS at most; for an encoder of those around it.

    For an encoder the token is one of the text that was encoded last; `beside` is a text whose
    vector is compared, MOST_BESIDE characters at most. For an encoder-decoder it is one of the
    target.

    Served between two tokens of an answer.
    """

    position: Annotated[int, about("Of the token.")]
    layer: Annotated[int, about("The layer that is opened.")]
    head: Annotated[
        int,
        about("The head of it that is opened; -1: the one that attends most elsewhere."),
    ]
    first: Annotated[int, about("The first position whose scores are told.")] = 0
    beside: Annotated[str, about("Of an encoder: a text whose vector is compared.")] = ""


class VectorPart(Struct, frozen=True):
    values: tuple[float, ...]  # the first, MOST_VALUES at most
    size: int  # of the whole vector
    rms: float  # sqrt(mean(x^2)), of the whole vector


class TracedShape(Struct, frozen=True):
    """The model's sizes that formulas show, and how the opened layer is built."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int
    context: int
    norm: Norm  # of the opened layer's attention, before it or behind its sum
    post_norm: bool  # what attention and feed-forward give is normed
    qk_norm: bool
    positions: Positions  # "bias": a number by distance is added to scores
    rotary_dim: int  # values of a head that are rotated by position
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
    path: ModelPath = "decoder"
    norm_behind: bool = False  # the sum with the residual is normed, not what a part is given
    final_norm: bool = True  # behind the last layer
    curve: Curve = "gelu"  # the activation; `gate` says whether there is a second factor
    segments: int = 0  # rows of the table of segments; 0: there is none
    embedding_norm: bool = False  # the embedding's sum is normed
    has_head: bool = True  # logits are made; an encoder may have only hidden states
    encoder_layers: int = 0  # of an encoder-decoder
    beams: int = 1  # hypotheses that the model's own settings keep
    parallel: bool = False  # the feed-forward is given what attention is, not what follows it
    output_gate: bool = False  # a gate of the token multiplies what its heads found
    state_layers: int = 0  # that have a recurrent state instead of attention
    state_values: int = 0  # numbers of all their states together, however long the text

    @property
    def causal(self) -> bool:
        """Return True if tokens see none of those that follow."""
        return self.path != "encoder"


class TokenScore(Struct, frozen=True):
    """The score of one earlier token by the head."""

    position: int
    dot: float  # q . k
    score: float  # what softmax is given: dot * scale + bias, within the cap where there is one
    probability: float
    unscaled: float  # probability that softmax would give without the scale
    key: tuple[float, ...]  # [d], MOST_VALUES at most
    value: tuple[float, ...]  # [d], likewise
    bias: float = 0.0  # by distance


class HeadTrace(Struct, frozen=True):
    """The chosen head, and beside it the others of its layer."""

    query_raw: VectorPart  # [d], before its rotation; equal to `query` if there is none
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


class Neuron(Struct, frozen=True):
    index: int
    gate: float | None  # before its activation; None where the feed-forward has no gate
    up: float  # before its activation, where there is no gate
    value: float  # what goes into the matrix `down`


class FeedForwardTrace(Struct, frozen=True):
    normed: VectorPart  # [width]
    neurons: tuple[Neuron, ...]  # the strongest, by |value|
    strong: int  # neurons whose |value| is at least a tenth of the strongest
    size: int
    output: VectorPart  # [width], what is added to the residual


class LayerGrowth(Struct, frozen=True):
    """Root mean squares of what a layer adds to the residual, and of the residual behind it."""

    attention: float  # or what is read of a recurrent state
    feed_forward: float  # and all else at the layer's end
    residual: float
    cross: float = 0.0  # cross-attention, where there is one


class LayerTrace(Struct, frozen=True):
    """The opened layer. `residual` is what it is given, `after_attention` what it is then."""

    residual: VectorPart
    normed: VectorPart  # the input of q, k and v
    head: HeadTrace
    attended: VectorPart  # [width], what attention adds to the residual
    after_attention: VectorPart
    feed_forward: FeedForwardTrace
    after: VectorPart
    summed: VectorPart | None = None  # residual + attention, where a norm stands behind the sum
    cross: CrossTrace | None = None  # of an encoder-decoder


class CrossTrace(Struct, frozen=True):
    """Cross-attention of the opened layer: a query of the target over keys of the source. Scores
    of `head` are of the source's positions."""

    head: HeadTrace
    attended: VectorPart  # [width], what it adds to the residual
    after: VectorPart  # [width], the residual behind it


class TracedSource(Struct, frozen=True):
    position: int
    id: int
    hidden: VectorPart  # [width], what the encoder makes of it
    text: str = ""


class DenseShape(Struct, frozen=True):
    """A dense layer behind the pooling: y = activation(W x + b)."""

    rows: int  # values that come out
    columns: int  # values that go in
    is_tanh: bool  # else there is no activation
    has_bias: bool


class Pooled(Struct, frozen=True):
    """The pooling of an encoder's hidden states into the vector of a text."""

    names: tuple[str, ...]  # of the ways that are used, "mean" or "cls"
    states: tuple[VectorPart, ...]  # hidden states of the sentence's tokens
    count: int  # tokens of the whole text
    normalized: bool
    vector: VectorPart  # of the whole text
    length: float  # of the vector before it was normalized
    beside: VectorPart | None = None  # of the other text
    similarity: float = 0.0  # cosine of the two
    dense: tuple[DenseShape, ...] = ()  # between the pooling and the division by the length


class TokenLogit(Struct, frozen=True):
    id: int
    text: str
    logit: float


class Distribution(Struct, frozen=True):
    """Logits of what follows. `tails`: for each of TEMPERATURES, the sum over all tokens that are
    not among `top` of e^((logit - largest logit) / temperature)."""

    top: tuple[TokenLogit, ...]  # the largest, MOST_LOGITS at most
    tails: tuple[float, ...]
    went_on: TokenLogit | None  # the token that stands behind the followed one
    rank: int  # of that token: 1 is the likeliest; 0: there is none


class TokenTrace(Struct, frozen=True):
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
    distribution: Distribution  # without tokens where the model has no head
    segment: VectorPart | None = None  # the row of its segment
    embedding_sum: VectorPart | None = None  # before the embedding's norm
    source: tuple[TracedSource, ...] = ()  # of an encoder-decoder, MOST_TOKENS at most
    pooled: Pooled | None = None  # of an encoder without a masked-token head
    texts: tuple[str, ...] = ()  # of `tokens`, each by itself


class TokenFollowed(Event, frozen=True):
    """The answer to FollowToken: all numbers of a token on its way through the model."""

    trace: TokenTrace
