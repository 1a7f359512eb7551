"""Inspection between two steps: interventions, logit lens, attention of a token, export."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from llm_lite.core.messages.answers import Alternative
from llm_lite.core.messages.interventions import Interventions
from llm_lite.core.messages.kinds import Event, StepRequest
from llm_lite.core.records import about

Direction = Literal["from", "to"]
AttentionRowsMode = Literal["heads", "layer-mean", "rollout"]
# What an encoder-decoder attends to: its target so far, its source while that is encoded, or the
# source while the target is written. Layers are counted in each. Other models have one part.
AttentionPart = Literal["decoder", "encoder", "cross"]


class SetInterventions(StepRequest, frozen=True):
    """Scale heads and experts, choose experts, and shift what layers leave, from the next step on,
    in the middle of an answer too; heads of an encoder from the next text on. They take the place
    of all earlier ones. The cache stays as it is: what it holds was made under those of its time.

    An answer that has interventions of its own keeps them to its end. A new model begins without
    any. InterventionsSet follows; RequestError for changes that cannot act while the model writes.
    """

    interventions: Interventions


class InterventionsSet(Event, frozen=True):
    """The interventions in force, with the names that their sites have in this model: those that
    were set, or after a refusal the earlier ones."""

    interventions: Interventions


class Inspect(StepRequest, frozen=True):
    """Ask for a LensResult at a position of the cache; served between two tokens of an answer."""

    position: Annotated[int, about("Of the token; what follows it is predicted.")]
    count: Annotated[int, about("Tokens of each layer.")] = 5


class ReadEffect(StepRequest, frozen=True):
    """Ask for EffectRead; served between two tokens of an answer."""


class ReadAttentionRows(StepRequest, frozen=True):
    """Ask for AttentionRows: the row (`from`) of the token at `position`, what it attends to, or
    the column (`to`), what attends to it. Of the mean over `heads` (layer, head), the mean over all
    heads of `layer`, or the attention rollout through all layers; in which the first token can be
    left out of every layer, as it takes nearly everything otherwise.

    Served between two tokens of an answer; a later request takes the place of one that still waits.
    """

    position: Annotated[int, about("Of the token.")]
    direction: Annotated[Direction, about("What it attends to (from), or what attends to it (to).")]
    mode: Annotated[
        AttentionRowsMode,
        about("The mean over heads, over all of a layer (layer-mean), or the rollout."),
    ]
    heads: Annotated[tuple[tuple[int, int], ...], about("Of heads: pairs of layer and head.")] = ()
    layer: Annotated[int, about("Of layer-mean.")] = 0
    without_first: Annotated[
        bool, about("Of a rollout: leave out the first token in every layer.")
    ] = False
    part: Annotated[AttentionPart, about("Of an encoder-decoder.")] = "decoder"


class ReadStates(StepRequest, frozen=True):
    """Ask for StatesRead: what a head of a layer with a delta rule holds of the last `positions`
    tokens of the cache. Served between two tokens of an answer; a later request takes
    the place of one that still waits."""

    layer: Annotated[int, about("One that has a recurrent state.")]
    head: Annotated[int, about("Of its state.")]
    positions: Annotated[int, about("How many of the last tokens.")] = 256


class ReadRouting(StepRequest, frozen=True):
    """Ask for RoutingRead: the experts that the tokens from position `first` on chose. Served
    between two tokens of an answer; a later request takes the place of one that still waits."""

    first: Annotated[int, about("The first position whose choices are told.")] = 0


class ExportMaps(StepRequest, frozen=True):
    """Write the maps of heads (layer, head) to an NPZ file, as they are between two tokens of an
    answer; MapsExported follows."""

    path: str
    heads: tuple[tuple[int, int], ...]
    part: AttentionPart = "decoder"


class LensRow(Struct, frozen=True):
    layer: int
    tokens: tuple[Alternative, ...]  # the likeliest first


class LensResult(Event, frozen=True):
    """The next token after `position` by each layer's residual stream.

    The residual behind the layer goes through the model's own output norm and head (nostalgebraist
    2020, "interpreting GPT: the logit lens").
    """

    position: int
    rows: tuple[LensRow, ...]  # one a layer


class EffectRead(Event, frozen=True):
    """KL(no interventions || those in force) of the next token after the last position, in nats.

    Only the last position is computed with each; the cache is as it stands.
    """

    kl: float


class AttentionRows(Event, frozen=True):
    """The answer to ReadAttentionRows: a weight for every position of the cache; 0: none."""

    position: int
    direction: Direction
    weights: tuple[float, ...]
    note: str = ""  # a sentence where weights of some positions are missing


class StatesRead(Event, frozen=True):
    """The answer to ReadStates, of the tokens at positions `first`.. up to the last.

    A head's state is all that it has of the text. A token leaves the part `kept` of it, and moves
    what its own key finds there by the part `written` towards its own value. `shares` [T][T] says
    what a token (row) reads of what another (column) wrote, as far as later ones have left it: its
    part of all that is read, by its length in that direction, so that parts against the whole are
    below 0. With `of_start`, what is read of all tokens before `first`, a row adds up to 1.
    """

    layer: int
    head: int
    first: int
    kept: tuple[float, ...]  # by token, between 0 and 1
    written: tuple[float, ...]  # by token, between 0 and 1
    norms: tuple[float, ...]  # by token, of the state behind it (Frobenius)
    shares: tuple[tuple[float, ...], ...]
    of_start: tuple[float, ...]
    # By layer with a state, by head: after how many tokens half of a state is left, by the mean of
    # the logarithm of `kept`; inf where nothing is forgotten
    half_lives: tuple[tuple[int, tuple[float, ...]], ...]


class RoutingRead(Event, frozen=True):
    """The answer to ReadRouting, of the tokens at positions `first`.. up to the last; the first of
    them may be a later one than was asked for, where the choices of earlier ones are gone.

    Arrays are bytes, little-endian: `Routing` of core/inspect/expert_choices.py reads them.
    """

    first: int
    epoch: int  # grows when equal tokens may have chosen others than before
    experts: int  # of a layer
    chosen: int  # of them, for each token
    layers: tuple[int, ...]  # that have experts, by number
    experts_chosen: bytes  # uint16 [tokens, layers, chosen], the one with the highest score first
    shares: bytes  # float32 [tokens, layers, chosen], what they weigh in the layer's result

    @property
    def count(self) -> int:
        """Return how many tokens there are."""
        return len(self.experts_chosen) // (2 * len(self.layers) * self.chosen)


class MapsExported(Event, frozen=True):
    path: str
