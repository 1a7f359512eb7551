"""Long work that is no answer: runs side by side, and what weight modes cost and lose."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from llm_lite.core.messages.answers import (
    Alternative,
    ChatMessage,
    Generate,
    GenerationStats,
    StopReason,
)
from llm_lite.core.messages.interventions import Interventions
from llm_lite.core.messages.kinds import Command, Event, Task
from llm_lite.core.messages.models import ExecutorInfo
from llm_lite.core.messages.options import EngineOptions, Mode
from llm_lite.core.messages.sampling_options import SamplingOptions


class CompareRuns(Task, frozen=True):
    """Answer one prompt on two runs, a token of each in turn, then score every token of A's answer
    with run B. A run whose options are those of the loaded model runs on it. What A said before it
    was cancelled is still compared."""

    messages: tuple[ChatMessage, ...]
    runs: tuple[EngineOptions, EngineOptions]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)


class CompareElsewhere(Command, frozen=True):
    """Answer one prompt with the model here (run A) and with one that computes elsewhere (run B),
    both at once. The events are those of CompareRuns, except for what B would say of A's tokens:
    servers do not tell that. The owner of both engines executes it."""

    messages: tuple[ChatMessage, ...]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)


class CompareAnswer(Task, frozen=True):
    """Ask for an AnswerDivergence: every token of the answer to `asked` is scored under two
    settings of the interventions, whatever was said under the second."""

    asked: Generate
    tokens: tuple[int, ...]  # of the answer
    interventions: tuple[Interventions, Interventions]


class AnswerDivergence(Event, frozen=True):
    """KL(first interventions || second ones) at each of the first tokens of the answer, in nats: as
    many as their logits have room for."""

    kl: tuple[float, ...]


class MeasureDivergence(Task, frozen=True):
    """Perplexity of the loaded model over a text with `tested` and `reference` options, and how
    far they are from each other; see `DivergenceReport`."""

    path: str  # a text file, UTF-8; "" is the bundled sample
    tested: EngineOptions
    reference: EngineOptions
    chunk: int = 512  # tokens
    most_chunks: int = 0  # 0: all of the text


class MeasureModes(Task, frozen=True):
    """Ask for the speed and size of every weight mode on this machine."""

    options: EngineOptions


class AnalyzeTensors(Task, frozen=True):
    """Ask for a TensorReport of the loaded model in a weight mode."""

    mode: Mode


class KeepVariant(Task, frozen=True):
    """Write the loaded model in a weight mode to disk; from then on it is mapped, not made."""

    mode: Mode


class VariantKept(Event, frozen=True):
    mode: Mode
    path: str
    nbytes: int


class DropVariant(Task, frozen=True):
    """Delete what KeepVariant wrote in a weight mode; from then on it is made in memory again."""

    mode: Mode


class VariantDropped(Event, frozen=True):
    mode: Mode
    nbytes: int  # that it took


class RunReady(Event, frozen=True):
    """A run of CompareRuns can answer."""

    run: int  # 0: A, 1: B
    executor: ExecutorInfo
    weight_bytes: int
    cache_bytes: int  # of the keys and values of a token; 0: not known
    shared: bool  # it is the model of the chat


class RunToken(Event, frozen=True):
    run: int
    token: int
    text: str  # what became whole characters with this token; may be ""
    probability: float
    alternatives: tuple[Alternative, ...]


class RunFinished(Event, frozen=True):
    run: int
    stop_reason: StopReason
    stats: GenerationStats  # of the time that this run itself took


class Forced(Struct, frozen=True):
    """A token of A's answer, with its probabilities by both runs."""

    kl: float  # KL(A || B) of the distribution it came from, in nats
    probabilities: tuple[float, float]  # of the token, by A and by B
    alternatives: tuple[tuple[Alternative, ...], tuple[Alternative, ...]]  # five each


class RunsForced(Event, frozen=True):
    """Some more tokens of A's answer, from place `first` on."""

    first: int
    tokens: tuple[Forced, ...]


class DivergenceReport(Struct, frozen=True):
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


class DivergenceMeasured(Event, frozen=True):
    report: DivergenceReport


class ModeSpeed(Struct, frozen=True):
    mode: Mode
    activations: Literal["a32", "a8"]
    weight_bytes: int
    prefill_tok_s: float
    decode_tok_s: float
    rounded_again: float = 0.0  # share of the weights: see `ModelInfo`
    again_error: float = 0.0  # of these, likewise


class ModesMeasured(Event, frozen=True):
    """Every mode that ran, and the one to choose: see `core/metrics/modes.py`."""

    device: str
    rows: tuple[ModeSpeed, ...]
    recommended: int  # index of a row
    reason: str  # one sentence


class TensorRow(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    format: str
    bits_per_weight: float
    snr_db: float  # 10 log10(sum of squares / sum of squared errors); inf: exact


class TensorReport(Event, frozen=True):
    mode: Mode
    rows: tuple[TensorRow, ...]
