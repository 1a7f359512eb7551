"""The interface of a model definition to the session, and the options that it is built with."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from llm_lite.core.messages.models import Abilities
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.module_names import ModuleNames
from llm_lite.core.plan.plan import Plan, Program
from llm_lite.core.plan.step import PAGE, PageShape, pages_for
from llm_lite.core.records import replace


class ModelShape(Struct, frozen=True):
    """The numbers that describe any stack of layers, whatever its definition needs besides."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    feed_forward: int
    vocabulary: int
    trained_context: int
    short_context: int = 0  # within which rotary positions are those of short texts; 0: of any
    query_widths: tuple[int, ...] = ()  # by layer, where heads are not all `head_dim` wide
    recurrent_layers: tuple[int, ...] = ()  # that have a recurrent state, and do not attend
    state_bytes: int = 0  # of all of these states, of one sequence
    draft_block: bool = False  # behind the layers a block drafts further tokens
    cross_attention: bool = False  # each layer also attends to an encoder's output

    @property
    def attentions(self) -> int:
        """Return how many times heads attend: self-attention of every layer, then their
        cross-attention. Gains have a row for each, in this order; that of a recurrent layer weighs
        nothing."""
        return self.layers * (2 if self.cross_attention else 1)

    @property
    def query_values(self) -> int:
        """Return the number of values of one position's queries, all layers and heads together."""
        attending = self.attentions - len(self.recurrent_layers)
        return self.heads * (sum(self.query_widths) or attending * self.head_dim)


class Slice(Struct, frozen=True):
    """A smaller model among the weights of one. skip: layers left out. feed_forward: width of each
    layer that stays, or one for all."""

    skip: tuple[int, ...]
    feed_forward: int | tuple[int, ...]

    def widths(self, layers: int) -> dict[int, int]:
        """Return the width of each layer that stays, by its number in a model of `layers`."""
        kept = [layer for layer in range(layers) if layer not in self.skip]
        each = self.feed_forward
        widths = (each,) * len(kept) if isinstance(each, int) else each
        return dict(zip(kept, widths, strict=True))


class BuildOptions(Struct, frozen=True):
    """Options of a build; context: positions in the cache; buckets by ascending size.

    k_dtype, v_dtype: of the cache, "f16", "f32", "i8" or "i4"; q_dtype: of kept queries, "f16" or
    "f32".

    query_rows: positions whose queries are kept for attention maps, in the cache's type; 0: none.

    whole_caches: sliding layers keep all positions, not only a ring of those that are needed.

    pages: for steps that several sequences share, caches and kept queries lie in pages; `context`
    is then that of one sequence.

    source: of an encoder-decoder, positions of its encoder's keys and values; 0: no others have.

    head: whether an encoder ends with its masked-token head, or with hidden states.

    draft_slice: what plans of `sliced` buckets compute, for guessing tokens; None: there are none.
    """

    context: int
    k_dtype: str
    v_dtype: str
    q_dtype: str
    integer_activations: bool
    buckets: tuple[Bucket, ...]
    query_rows: int = 0
    whole_caches: bool = False
    pages: PageShape | None = None
    source: int = 0
    head: bool = True
    draft_slice: Slice | None = None

    @property
    def cache_rows(self) -> int:
        """Return the rows of a layer that keeps all positions."""
        return self.pages.pages * PAGE if self.pages else self.context

    def ring_of(self, rows: int) -> int:
        """Return the rows of a ring of so many positions or more, or 0 where all positions have
        rows; in pages, those of the first sequence, which may be all of its own."""
        if self.pages is None:
            return rows if rows < self.context else 0
        return min(pages_for(rows), self.pages.ringed) * PAGE

    def rows_with(self, ring: int, *, windowed: bool = False) -> int:
        """Return the rows of state with a ring of so many rows, 0 for none, and of all pages of
        the sequences but the first, or if `windowed` those that caches with a window have."""
        if not ring or self.pages is None:
            return ring or self.cache_rows
        others = self.pages.windowed if windowed else 0
        return ring + (others or self.pages.shared) * PAGE

    @property
    def query_ring(self) -> int:
        """Return the rows of the ring of kept queries, as `ring_of` does."""
        return self.ring_of(self.query_rows) if self.query_rows else 0

    def slides(self, window: int) -> bool:
        """Return whether a layer with this window, 0 for none, keeps what it needs and no more."""
        return window > 0 and not self.whole_caches


class TextEmbedding(Struct, frozen=True):
    """The way from an encoder's hidden states [tokens, width] to the vector of a text.

    poolings: of POOLINGS, side by side where there are several. dense: the activations of the
    layers behind, whose weights are `dense.{i}.weight` and `dense.{i}.bias`. normalized: divided by
    its length. most_tokens: of a text, its special tokens among them; the rest is not read.
    prompts: tasks, and what stands before texts of them; reads_prompt: its tokens are pooled too.
    """

    poolings: tuple[str, ...]
    normalized: bool
    most_tokens: int
    dense: tuple[str, ...] = ()
    prompts: tuple[tuple[str, str], ...] = ()
    reads_prompt: bool = True


# In the order in which sentence-transformers puts them side by side.
RANK = "rank"  # of GGUF: a score of two texts, which is no vector of one
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len", "weighted_mean", "last")


class DecodingDefaults(Struct, frozen=True):
    """The defaults of an encoder-decoder's file for the beginning and the search of its target.

    start: the token that the decoder begins with. banned: tokens that it never says. forced_end:
    what ends a target that is as long as it may be; None: nothing. prefixes: of its tasks, which
    stand before a source. forced_begin: what a target begins with behind `start`; None: anything.
    shortest: tokens of a target behind `start`, its end among them. no_repeat: so many tokens in a
    row do not come twice; 0: they may.
    """

    start: int
    banned: tuple[int, ...] = ()
    forced_end: int | None = None
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    prefixes: tuple[str, ...] = ()
    forced_begin: int | None = None
    shortest: int = 0
    no_repeat: int = 0


class Model(Abilities, Struct, frozen=True):
    """One model file understood: its shape, and how to plan a bucket of its program.

    `bidirectional`: an encoder. A step has a whole text; without a masked-token head its program's
    `logits` are the hidden states of all tokens, [tokens, width]. `embedding`: how these become the
    vector of a text; `has_head`: whether it has a masked-token head.

    `encoder`: of an encoder-decoder, the program that runs once over the source. It leaves keys and
    values in states of the same names (`cross_states`) as those that the decoder's program reads.
    `decoding` is what else is known of its target.

    `draft_slice`: the smaller model among its own weights that guesses its tokens; None: it was not
    trained to have one. `names`: what transformers calls its modules.
    """

    shape: ModelShape
    plan: Callable[[BuildOptions, Bucket], Plan]
    on_disk: frozenset[str] = frozenset()  # weights whose single rows are read on disk
    bidirectional: bool = False
    encoder: Model | None = None
    decoding: DecodingDefaults | None = None
    embedding: TextEmbedding | None = None
    has_head: bool = True
    draft_slice: Slice | None = None
    names: ModuleNames = ModuleNames()

    @property
    def embeds(self) -> bool:
        return self.bidirectional

    @property
    def translates(self) -> bool:
        return self.encoder is not None

    def build(self, options: BuildOptions) -> Program:
        """Build the program. An encoder's reads no source, though it has as many positions."""
        plans = tuple(
            replace(self.plan(options, bucket), names=self.names) for bucket in options.buckets
        )
        source = 0 if self.bidirectional else options.source
        return Program(plans, options.context, self.shape.vocabulary, options.pages, source)
