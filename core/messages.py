"""What the engine is told and what it says: frozen dataclasses, nothing else.

Commands go in, events come out. The engine keeps no conversation: each `Generate` carries the whole
of it, and the session reuses what its cache already holds, so edits, branches and regenerations
need no messages of their own. Times are in seconds, sizes in bytes, rates in tokens per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Backend = Literal["auto", "vulkan", "cpu", "numpy"]
Mode = Literal["as-stored", "fp32", "fp16", "int8", "int4"]
Activations = Literal["auto", "a32", "a8"]
KvType = Literal["fp16", "fp32", "int8"]
Overflow = Literal["stop", "forget-middle", "rolling"]
Measure = Literal["key-norm", "value-norm", "received"]
Role = Literal["system", "user", "assistant"]
StopReason = Literal["end", "length", "stopped", "context", "error"]
Level = Literal["info", "warning", "error"]
Direction = Literal["from", "to"]
LookMode = Literal["heads", "layer-mean", "rollout"]

BACKENDS: tuple[Backend, ...] = ("auto", "vulkan", "cpu", "numpy")
MODES: tuple[Mode, ...] = ("as-stored", "fp32", "fp16", "int8", "int4")
ACTIVATIONS: tuple[Activations, ...] = ("auto", "a32", "a8")
KV_TYPES: tuple[KvType, ...] = ("fp16", "fp32", "int8")
OVERFLOWS: tuple[Overflow, ...] = ("stop", "forget-middle", "rolling")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is run. 0 means: let the program choose."""

    backend: Backend = "auto"
    device: int | None = None  # index of the Vulkan device for inference; None: the shared one
    mode: Mode = "as-stored"
    activations: Activations = "auto"
    keys: KvType = "fp16"  # of the cache
    values: KvType = "fp16"
    threads: int = 0
    context: int = 0  # tokens
    query_budget: int = 64 << 20  # bytes for the queries behind attention maps; 0 keeps none
    pool_budget: int = 256 << 20  # bytes for prefixes of recent conversations; 0 keeps none
    whole_caches: bool = False  # sliding layers keep all positions too, for maps of all rows


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is chosen; temperature 0 is greedy: only the penalty counts then."""

    temperature: float = 0.4
    top_k: int = 40  # 0: off
    top_p: float = 0.9  # 1: off
    min_p: float = 0.05  # 0: off
    repetition_penalty: float = 1.05  # 1: off
    penalty_window: int = 64  # how many last tokens the penalty looks at
    seed: int | None = None  # None: a new one each time
    max_new_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str
    tokens: tuple[int, ...] = ()  # an assistant's ids as generated; () where unknown


# Commands


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load a model file or catalogue name; None is the default model."""

    source: str | None
    options: EngineOptions = EngineOptions()


@dataclass(frozen=True, slots=True)
class CancelLoad:
    pass


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Run the loaded model otherwise: another executor, device, mode, cache type or context."""

    options: EngineOptions


Gains = tuple[tuple[float, ...], ...]  # [layers][heads]; 1 leaves a head alone, 0 ablates it


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer the conversation. `request` is the caller's number and comes back in every event.

    With `continue_last`, the last message is an assistant's and is continued where it ended.
    With `raw`, the messages' text goes to the model as it is, without a chat template.
    With `gains`, all of the conversation is read and answered with these and no others: a cache
    that was made with others is cleared first. Without, the gains of `SetGains` hold.
    `forced` tokens begin the answer; they come back as TokenDecoded and do not count as new.
    `overflow` says what is done when the context is full: the answer ends, what lies between the
    first turn and the last tokens is forgotten, or all but the first tokens and the last.
    """

    request: int
    messages: tuple[ChatMessage, ...]
    sampling: SamplingOptions = SamplingOptions()
    continue_last: bool = False
    raw: bool = False
    gains: Gains | None = None
    forced: tuple[int, ...] = ()
    overflow: Overflow = "stop"


@dataclass(frozen=True, slots=True)
class Read:
    """Bring a conversation into the cache and say nothing, as when another branch of it is to be
    looked into. PrefillProgress tells how far it is, ConversationRead how it ended. Stop ends it;
    what was read so far stays.
    """

    request: int
    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True, slots=True)
class SetGains:
    """Weigh the output of every attention head from the next step on, in the middle of an answer
    too. The cache stays as it is: what it holds was made with the gains of its time.

    An answer that has gains of its own keeps them to its end. A new model begins with all 1.
    """

    gains: Gains


@dataclass(frozen=True, slots=True)
class Inspect:
    """Ask for a LensResult at a position of the cache; served between two tokens of an answer."""

    position: int
    request: int


@dataclass(frozen=True, slots=True)
class CompareGains:
    """Ask for a GainsEffect; served between two tokens of an answer."""

    request: int


@dataclass(frozen=True, slots=True)
class Look:
    """Ask for a Looked: the row (`from`) of the token at `position`, what it looks at, or the
    column (`to`), who looks at it. Of the mean over `heads` (layer, head), the mean over all heads
    of `layer`, or the attention rollout through all layers; in which the first token can be left
    out of every layer, as it takes nearly everything otherwise.

    Served between two tokens of an answer; a later Look takes the place of one that still waits.
    """

    request: int
    position: int
    direction: Direction
    mode: LookMode
    heads: tuple[tuple[int, int], ...] = ()
    layer: int = 0
    without_first: bool = False  # of a rollout


@dataclass(frozen=True, slots=True)
class MeasureCache:
    """Ask for a CacheMeasured of the positions `first`..`last`-1; served between two tokens."""

    request: int
    what: Measure
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SaveCache:
    """Write the cache's rows and tokens to a file."""

    path: str


@dataclass(frozen=True, slots=True)
class OpenCache:
    """Read a file of SaveCache; one of another model or a damaged one is only logged."""

    path: str


@dataclass(frozen=True, slots=True)
class ExportMaps:
    """Write the maps of heads (layer, head) to an NPZ file, as they are between two tokens of an
    answer; MapsExported tells when that is done."""

    request: int
    path: str
    heads: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class CompareLanes:
    """Answer one prompt on two lanes, a token of each in turn, then ask lane B for every token of
    what A said. A lane whose options are those of the loaded model runs on it. Stop ends both
    answers; what A said until then is still compared.
    """

    request: int
    messages: tuple[ChatMessage, ...]
    lanes: tuple[EngineOptions, EngineOptions]
    sampling: SamplingOptions = SamplingOptions()


@dataclass(frozen=True, slots=True)
class MeasureDivergence:
    """Perplexity of the loaded model over a text with `tested` and `reference` options, and how
    far they are from each other; see `DivergenceReport`. Stop ends it.
    """

    request: int
    path: str  # a text file, UTF-8; "" is the sample that comes along
    tested: EngineOptions
    reference: EngineOptions
    chunk: int = 512  # tokens
    most_chunks: int = 0  # 0: all of the text


@dataclass(frozen=True, slots=True)
class MeasureModes:
    """Ask for the speed and size of every weight mode on this machine. Stop ends it."""

    request: int
    options: EngineOptions


@dataclass(frozen=True, slots=True)
class AnalyzeTensors:
    """Ask for a TensorReport of the loaded model in a weight mode."""

    request: int
    mode: Mode


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the running answer; what was said stays."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    pass


Aside = SetGains | Inspect | CompareGains | Look | ExportMaps | MeasureCache  # between steps
Task = CompareLanes | MeasureDivergence | MeasureModes | AnalyzeTensors  # ends with TaskFinished

Command = (
    LoadModel
    | CancelLoad
    | Reconfigure
    | Generate
    | Read
    | SetGains
    | Inspect
    | CompareGains
    | Look
    | MeasureCache
    | SaveCache
    | OpenCache
    | ExportMaps
    | CompareLanes
    | MeasureDivergence
    | MeasureModes
    | AnalyzeTensors
    | Stop
    | Shutdown
)


# Events


@dataclass(frozen=True, slots=True)
class ExecutorInfo:
    """Who multiplies, and why: shown in the status bar."""

    backend: Literal["vulkan", "cpu", "numpy"]
    device: str  # "AMD Ryzen 5 4500U, 6 threads, AVX2" or the Vulkan device's name
    reason: str  # one sentence: why auto chose it, or what failed; "" when asked for
    mode: Mode
    activations: Literal["a32", "a8"]
    keys: KvType
    values: KvType
    threads: int


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """A layer that owns keys and values, and the layers that read them too."""

    layer: int
    shared_with: tuple[int, ...]
    rows: int  # positions it has room for; fewer than the context in a ring
    window: int  # tokens that its attention reaches back; 0: all
    key_row_bytes: int  # of one position
    value_row_bytes: int


@dataclass(frozen=True, slots=True)
class CacheLayout:
    layers: tuple[CacheLayer, ...] = ()
    keys: KvType = "fp16"
    values: KvType = "fp16"
    reserved_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ModelInfo:
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
    mode_bytes: Mapping[str, int] = field(  # weight mode -> bytes of all weights in it
        default_factory=lambda: MappingProxyType({})
    )
    stored_formats: Mapping[str, int] = field(  # format -> bytes, as in the file
        default_factory=lambda: MappingProxyType({})
    )
    cache: CacheLayout = CacheLayout()


@dataclass(frozen=True, slots=True)
class LoadStarted:
    source: str


@dataclass(frozen=True, slots=True)
class LoadProgress:
    stage: str  # "reading", "converting weights", "uploading weights", ...
    fraction: float  # 0..1 of the whole load


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    model: ModelInfo
    executor: ExecutorInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The load ended without a model; one that was loaded before stays in use."""

    source: str
    message: str
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ExecutorChanged:
    """The executor changed under a loaded model: asked for, or because the device failed."""

    executor: ExecutorInfo
    model: ModelInfo


@dataclass(frozen=True, slots=True)
class PromptToken:
    id: int
    text: str  # U+FFFD where it is a part of a character
    message: int  # index of the message that says it; -1: the template's own


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    request: int
    prompt_tokens: int  # tokens of the whole prompt
    reused_tokens: int  # of these, already in the cache
    prompt: tuple[PromptToken, ...] = ()  # by position; the answer's tokens follow


@dataclass(frozen=True, slots=True)
class ConversationRead:
    """The end of a Read: what the cache holds now, by position."""

    request: int
    prompt: tuple[PromptToken, ...] = ()
    message: str = ""  # a sentence where it could not be read; "" where it was, or was stopped


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    request: int
    done: int  # tokens
    total: int


@dataclass(frozen=True, slots=True)
class Alternative:
    token: int
    text: str  # U+FFFD where it is a part of a character
    probability: float  # at temperature 1, before any filter


@dataclass(frozen=True, slots=True)
class TokenDecoded:
    request: int
    token: int
    text: str  # what became whole characters with this token; may be ""
    probability: float  # of the chosen token, at temperature 1, before any filter; nan: see below
    context_used: int  # tokens
    # The five likeliest tokens, the likeliest first. Of forced tokens only the last is judged; the
    # others have none, and no probability.
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationStats:
    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    prefill_tok_s: float = 0.0
    decode_tok_s: float = 0.0
    ttft_ms: float = 0.0  # request to first token
    context_used: int = 0
    peak_rss_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    request: int
    stop_reason: StopReason
    stats: GenerationStats
    message: str = ""  # a sentence, for stop_reason "error" and "context"


@dataclass(frozen=True, slots=True)
class LensRow:
    layer: int
    tokens: tuple[Alternative, ...]  # five, the likeliest first


@dataclass(frozen=True, slots=True)
class LensResult:
    """What each layer's residual stream would already say after the token at `position`.

    The residual behind the layer goes through the model's own output norm and head
    (nostalgebraist 2020, "interpreting GPT: the logit lens").
    """

    request: int
    position: int
    rows: tuple[LensRow, ...]  # one a layer
    message: str = ""  # a sentence where there are no rows


@dataclass(frozen=True, slots=True)
class GainsEffect:
    """KL(all gains 1 || the gains in use) of the next token after the last position, in nats.

    Only the last position is computed with each; the cache is as it stands.
    """

    request: int
    kl: float  # nan where there is nothing to compare
    message: str = ""  # a sentence, then


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to a Look: a weight for every position of the cache; 0 where there is none."""

    request: int
    position: int
    direction: Direction
    weights: tuple[float, ...]
    message: str = ""  # a sentence where weights are missing


@dataclass(frozen=True, slots=True)
class CacheRewritten:
    """The context was full and a part of it was forgotten."""

    request: int
    tokens: tuple[PromptToken, ...]  # all that the cache holds now, by position
    forgotten: tuple[tuple[int, int], ...]  # of the full prompt and answer: first..last-1


@dataclass(frozen=True, slots=True)
class PooledPrefix:
    name: str
    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """Said at the start and the end of an answer, and after loads."""

    length: int  # tokens in the cache
    context: int
    reused: int  # of these, not computed again for the last answer
    pool_used: int  # bytes
    pool_budget: int  # bytes
    prefixes: tuple[PooledPrefix, ...]
    saved_bytes: int  # of the rows that were reused


@dataclass(frozen=True, slots=True)
class CacheMeasured:
    """A number for each position `first`.. of each layer that owns a cache."""

    request: int
    what: Measure
    first: int
    version: int
    values: tuple[tuple[float, ...], ...]  # [layers][positions]
    message: str = ""  # a sentence where there are none


@dataclass(frozen=True, slots=True)
class MapsExported:
    request: int
    path: str
    message: str = ""  # a sentence where nothing was written


@dataclass(frozen=True, slots=True)
class LaneReady:
    """A lane of CompareLanes can answer."""

    request: int
    lane: int  # 0: A, 1: B
    executor: ExecutorInfo
    weight_bytes: int
    resident_bytes: int  # memory that the lane took; 0 where the system does not tell
    shared: bool  # it is the model of the chat


@dataclass(frozen=True, slots=True)
class LaneToken:
    request: int
    lane: int
    token: int
    text: str  # what became whole characters with this token; may be ""
    probability: float
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class LaneFinished:
    request: int
    lane: int
    stop_reason: StopReason
    stats: GenerationStats  # of the time that this lane itself took


@dataclass(frozen=True, slots=True)
class Forced:
    """A token that A said, in the eyes of both lanes."""

    kl: float  # KL(A || B) of the distribution it came from, in nats
    probabilities: tuple[float, float]  # of the token, by A and by B
    alternatives: tuple[tuple[Alternative, ...], tuple[Alternative, ...]]  # five each


@dataclass(frozen=True, slots=True)
class LanesForced:
    """Some more tokens of what A said, from place `first` of its answer on."""

    request: int
    first: int
    tokens: tuple[Forced, ...]


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a CompareLanes, MeasureDivergence, MeasureModes or AnalyzeTensors is."""

    request: int
    stage: str
    fraction: float  # 0..1


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """The end of one of these; what was measured came before."""

    request: int
    message: str = ""  # a sentence where it did not come to its end


@dataclass(frozen=True, slots=True)
class DivergenceReport:
    """Perplexity of a text and divergence from a reference, over the second half of every chunk.

    Errors are standard errors of the mean. Divergences are in nats, probabilities 0..1.
    """

    ppl: float
    ppl_error: float
    ppl_reference: float
    ppl_reference_error: float
    kld_mean: float  # KL(reference || tested)
    kld_error: float
    kld_median: float
    kld_p90: float
    kld_p95: float
    kld_p99: float
    kld_p999: float
    kld_max: float
    delta_p_mean: float  # of the probability of the token that really follows
    delta_p_rms: float
    same_top: float  # share of tokens where both find the same one the likeliest
    same_top_error: float
    tokens_scored: int
    chunks: int
    chunk_tokens: int
    bits_per_weight: float  # all weights, as loaded
    matrix_bits_per_weight: float  # matrices only, without what pads their tiles
    weight_bytes: int
    reference_weight_bytes: int
    tested: ExecutorInfo
    reference: ExecutorInfo
    kld_quantiles: tuple[float, ...]  # 101: the least, every percent, the largest
    kld_by_chunk: tuple[float, ...]  # means


@dataclass(frozen=True, slots=True)
class DivergenceMeasured:
    request: int
    report: DivergenceReport


@dataclass(frozen=True, slots=True)
class ModeSpeed:
    mode: Mode
    activations: Literal["a32", "a8"]
    weight_bytes: int
    prefill_tok_s: float
    decode_tok_s: float


@dataclass(frozen=True, slots=True)
class ModesMeasured:
    """Every mode that ran, and the one to choose: see `core/metrics/modes.py`."""

    request: int
    device: str
    rows: tuple[ModeSpeed, ...]
    recommended: int  # index of a row
    reason: str  # one sentence


@dataclass(frozen=True, slots=True)
class TensorRow:
    name: str
    shape: tuple[int, ...]
    format: str
    bits_per_weight: float
    snr_db: float  # 10 log10(sum of squares / sum of squared errors); inf: exact


@dataclass(frozen=True, slots=True)
class TensorReport:
    request: int
    mode: Mode
    rows: tuple[TensorRow, ...]


@dataclass(frozen=True, slots=True)
class Logged:
    level: Level
    text: str
    time: float  # seconds since the epoch


Event = (
    LoadStarted
    | LoadProgress
    | ModelLoaded
    | LoadFailed
    | ExecutorChanged
    | GenerationStarted
    | ConversationRead
    | PrefillProgress
    | TokenDecoded
    | GenerationFinished
    | LensResult
    | GainsEffect
    | Looked
    | CacheRewritten
    | CacheStatus
    | CacheMeasured
    | MapsExported
    | LaneReady
    | LaneToken
    | LaneFinished
    | LanesForced
    | TaskProgress
    | TaskFinished
    | DivergenceMeasured
    | ModesMeasured
    | TensorReport
    | Logged
)
