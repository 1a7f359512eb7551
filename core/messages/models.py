"""Loading models and running them otherwise, and what is known of the one in use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.messages.kinds import Command, Event
from llm_lite.core.messages.library import Fit
from llm_lite.core.messages.options import (
    Activations,
    EngineOptions,
    KvType,
    Mode,
    SamplingDefault,
    in_force,
)
from llm_lite.core.messages.sampling_options import SamplingOptions
from llm_lite.core.messages.tools import ToolStyle
from llm_lite.core.messages.translating import TranslatorInfo

# What people call a model that continues texts, embeds them, or translates them.
ModelKind = Literal["decoder", "encoder", "encoder-decoder"]


class Abilities:
    """Tells what a model can do with texts, by the parts that it has."""

    __slots__ = ()

    @property
    def embeds(self) -> bool:
        """Return whether it makes a vector of a text."""
        raise NotImplementedError

    @property
    def translates(self) -> bool:
        """Return whether it writes a target about a source."""
        raise NotImplementedError

    @property
    def continues(self) -> bool:
        """Return whether it continues texts and answers conversations."""
        return not (self.embeds or self.translates)

    @property
    def kind(self) -> ModelKind:
        """Return what people call such a model, for sentences: checks use the properties above."""
        if self.embeds:
            return "encoder"
        return "encoder-decoder" if self.translates else "decoder"


class LoadModel(Command, frozen=True):
    """Load a model by path or name, as core/hub/catalog.py takes it; None is the default model."""

    source: str | None
    options: EngineOptions = field(default_factory=EngineOptions)


class Reconfigure(Command, frozen=True):
    """Run the loaded model with other options: another executor, device, mode, cache type or
    context. One that is still being prepared gives way to a later one, and ends unwanted.

    A client of the server changes the weight mode alone, to that of `options`: all else stays as it
    is when its turn comes, and gives way to nothing. A `ModeSwitch` reports its progress.
    """

    options: EngineOptions
    by_client: bool = False


class ModeSwitch(Struct, frozen=True):
    """The progress of a client's `Reconfigure`, or its end."""

    number: int  # of those since the engine began
    mode: Mode
    activations: Activations
    phase: Literal["waiting", "preparing", "done", "failed", "cancelled"] = "waiting"
    stage: str = ""  # as of LoadProgress
    fraction: float = 0.0  # 0..1
    problem: str = ""  # a sentence, where it failed

    @property
    def is_under_way(self) -> bool:
        return self.phase in ("waiting", "preparing")


class DraftModelInfo(Struct, frozen=True):
    """A smaller model that drafts for the one in use, on the same executor."""

    name: str
    path: str
    mode: Mode
    weight_bytes: int
    kv_bytes: int
    context: int  # tokens; longer texts are not drafted by it


class ExecutorInfo(Struct, frozen=True):
    """The executor that multiplies, and why: shown in the status bar."""

    backend: str  # "vulkan", "cpu", "numpy", "remote", or the name of an accelerator
    device: str  # "AMD Ryzen 5 4500U, 6 threads, AVX2" or the Vulkan device's name
    reason: str  # one sentence: why auto chose it, or what failed; "" if it was chosen
    mode: Mode
    activations: Literal["a32", "a8"]
    keys: KvType
    values: KvType
    threads: int
    draft: DraftModelInfo | None = None
    active_bytes: int = 0  # of weights that a token of a mixture reads; 0: it reads all
    experts: Literal["", "memory", "cpu", "file"] = ""  # where a mixture's are; "": a dense model
    shared: str = ""  # a sentence: what runs on an accelerator and what in C++ beside it
    accounts: bool = False  # True: an accelerator that says what a step would cost


class CacheLayerInfo(Struct, frozen=True):
    """A layer that owns keys and values, and the layers that read them too."""

    layer: int
    shared_with: tuple[int, ...]
    rows: int  # positions it has room for; fewer than the context in a ring
    window: int  # tokens that its attention reaches back; 0: all
    key_row_bytes: int  # of one position
    value_row_bytes: int
    kv_heads: int = 0  # 0: as many as the model says


class CacheLayout(Struct, frozen=True):
    layers: tuple[CacheLayerInfo, ...] = ()
    keys: KvType = "fp16"
    values: KvType = "fp16"
    reserved_bytes: int = 0
    page: int = 1  # positions that come into the cache together
    drafts: tuple[CacheLayerInfo, ...] = ()  # of the block that drafts: no map shows it

    @property
    def stored(self) -> tuple[CacheLayerInfo, ...]:
        """Return all that takes memory."""
        return self.layers + self.drafts

    @property
    def token_bytes(self) -> int:
        """Return the bytes that the keys and values of a token take in all layers together."""
        return sum(layer.key_row_bytes + layer.value_row_bytes for layer in self.stored)


class ModelInfo(Abilities, Struct, frozen=True):
    name: str
    path: str
    architecture: str
    parameters: int
    file_bytes: int
    weight_bytes: int  # as loaded
    kv_bytes: int  # reserved for the whole context
    context: int  # tokens available
    trained_context: int
    vocabulary: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    feed_forward: int
    has_chat_template: bool
    encoder: EncoderInfo | None = None  # of an encoder
    translator: TranslatorInfo | None = None  # of an encoder-decoder
    switches_thinking: bool = False  # the template has a switch for thoughts
    template_variables: tuple[str, ...] = ()  # that the template reads
    recurrent_layers: tuple[int, ...] = ()  # that have a state instead of attention
    delta_layers: tuple[int, ...] = ()  # of these, those whose heads ReadStates can ask for
    expert_layers: tuple[int, ...] = ()  # whose tokens choose among experts
    experts: int = 0  # of such a layer
    chosen_experts: int = 0  # of them, for each token
    has_slice: bool = False  # a smaller model among its weights, which can draft for it
    tool_style: ToolStyle = ""  # how its template has functions called; "": it knows of none
    mode_bytes: Mapping[str, int] = field(  # weight mode -> bytes of all weights in it
        default_factory=lambda: MappingProxyType({})
    )
    rounded_again: Mapping[str, float] = field(  # mode -> share of weights it rounds once more
        default_factory=lambda: MappingProxyType({})
    )
    # Mode -> how much that changes them, root mean square by root mean square, of a sample.
    again_error: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    stored_formats: Mapping[str, int] = field(  # format -> bytes, as in the file
        default_factory=lambda: MappingProxyType({})
    )
    format_notes: Mapping[str, str] = field(  # format -> a sentence on its blocks
        default_factory=lambda: MappingProxyType({})
    )
    block_formats: tuple[str, ...] = ()  # of the file's, those in which weights share scales
    conversion: str = ""  # a sentence on what is not multiplied as it is stored
    cache: CacheLayout = CacheLayout()
    kept: Mapping[str, str] = field(  # weight mode -> directory of a variant kept on disk
        default_factory=lambda: MappingProxyType({})
    )

    # How answers are chosen where nobody says otherwise, as the model's files or its card advise.
    sampling_defaults: tuple[SamplingDefault, ...] = ()

    @property
    def attending_layers(self) -> tuple[int, ...]:
        return tuple(i for i in range(self.layers) if i not in self.recurrent_layers)

    def sampling(self, **chosen: Any) -> SamplingOptions:
        """Return the sampling options that were `chosen`, and for the others the defaults of the
        model and of the program."""
        held = in_force(self.sampling_defaults, chosen)
        values: dict[str, Any] = {default.name: default.value for default in held}
        return SamplingOptions(**values, **chosen)

    @property
    def embeds(self) -> bool:
        return self.encoder is not None

    @property
    def translates(self) -> bool:
        return self.translator is not None

    @property
    def fills(self) -> bool:
        """Return whether it fills in masked tokens."""
        return self.encoder is not None and bool(self.encoder.mask_token)

    @property
    def gain_widths(self) -> tuple[int, ...]:
        """Return how many numbers each row of gains has, as `LiveChanges` has them."""
        of_experts = (2 * self.experts,) * (self.layers if self.experts else 0)
        return (self.heads,) * self.gain_rows + of_experts

    @property
    def gain_sites(self) -> tuple[str, ...]:
        """Return the site that each row of gains is of; "" where there is none, as of a layer with
        a recurrent state."""
        own = tuple(
            "" if i in self.recurrent_layers else f"layers.{i}.attention.heads"
            for i in range(self.layers)
        )
        if self.translator is not None:
            encoder = range(self.translator.encoder_layers)
            return (
                *(f"decoder.{site}" for site in own),
                *(f"decoder.layers.{i}.cross_attention.heads" for i in range(self.layers)),
                *(f"encoder.layers.{i}.attention.heads" for i in encoder),
            )
        if not self.experts:
            return own
        with_experts = (i in self.expert_layers for i in range(self.layers))
        return own + tuple(
            f"layers.{i}.feed_forward.route" if has else "" for i, has in enumerate(with_experts)
        )

    @property
    def gain_rows(self) -> int:
        """Return the rows of gains of heads, as `LiveChanges` has them: a layer with
        cross-attention has two."""
        if self.translator is None:
            return self.layers
        return 2 * self.layers + self.translator.encoder_layers


class LoadNeedsMemory(Event, frozen=True):
    """The requested model would take more memory than there is; the load ends. The same
    command with other options, of what fits or with `force`, is the answer: a `LoadModel`, or a
    `Reconfigure` where the model is `in_use`."""

    source: str | None
    options: EngineOptions
    in_use: bool
    fit: Fit
    others: tuple[Fit, ...] = ()  # what would fit, the closest first


class LoadStarted(Event, frozen=True):
    source: str
    mode: Mode | None = None  # of the weights, where a client of the server asked for it


class LoadProgress(Event, frozen=True):
    stage: str  # "reading", "converting weights", "uploading weights", ...
    fraction: float  # 0..1 of the whole load


class ModelLoaded(Event, frozen=True):
    model: ModelInfo
    executor: ExecutorInfo
    seconds: float


class FileDamaged(Event, frozen=True):
    """A file of the loaded model is not what was written; it stays in use."""

    message: str  # a sentence that names file and tensor


class ExecutorChanged(Event, frozen=True):
    """The executor changed under a loaded model: asked for, or because the device failed."""

    executor: ExecutorInfo
    model: ModelInfo
    options: EngineOptions | None = None  # in force now
