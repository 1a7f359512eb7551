"""State of weight modes and speed: two runs, measurements, and the task that is running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

from llm_lite.core.messages import (
    Alternative,
    Command,
    DivergenceReport,
    EngineOptions,
    ExecutorInfo,
    Forced,
    GenerationStats,
    KernelStudy,
    Mode,
    ModelInfo,
    ModesMeasured,
    StepAccount,
    StepProfile,
    StopReason,
    StudyBackend,
    TensorReport,
)
from llm_lite.core.records import replace

Page = Literal["modes", "report", "tensors"]
TaskKind = Literal[
    "runs", "report", "modes", "tensors", "keep", "drop", "step", "account", "kernels"
]
REPORTS = 6  # kept side by side


class RateSample(Struct, frozen=True):
    """Tokens of an answer that came between two moments, both on the window's clock."""

    begin: float  # seconds
    time: float  # its end
    tokens: int
    step_ms: float = 0.0  # that the model's steps for these tokens took, together
    answer: float = 0.0  # when it was asked for

    @property
    def rate(self) -> float:
        """Return tokens per second."""
        return self.tokens / (self.time - self.begin)

    @property
    def token_ms(self) -> float:
        """Return the mean milliseconds from one token to the next."""
        return 1e3 * (self.time - self.begin) / self.tokens

    @property
    def token_step_ms(self) -> float:
        """Return the mean milliseconds of the model's steps for a token."""
        return self.step_ms / self.tokens


class RunToken(Struct, frozen=True):
    id: int
    text: str
    probability: float
    alternatives: tuple[Alternative, ...] = ()


class RunAnswer(Struct, frozen=True):
    """The answer of a run, and the executor that computed it."""

    executor: ExecutorInfo | None = None  # None: not ready yet
    weight_bytes: int = 0
    cache_bytes: int = 0  # of a token
    shared: bool = False
    text: str = ""
    tokens: tuple[RunToken, ...] = ()
    stop_reason: StopReason | None = None
    stats: GenerationStats | None = None


class RunComparison(Struct, frozen=True):
    """One prompt on two runs."""

    prompt: str
    options: tuple[EngineOptions, EngineOptions]
    answers: tuple[RunAnswer, RunAnswer] = (RunAnswer(), RunAnswer())
    forced: tuple[Forced, ...] = ()  # of A's tokens, in order
    elsewhere: str = ""  # where B computes; its tokens are others then. "": here

    @property
    def partings(self) -> tuple[int | None, int | None]:
        """Return the first token of each run where their texts differ; None as for `parting`."""
        if not self.elsewhere:
            return self.parting, self.parting
        a, b = self.answers
        pairs = enumerate(zip(a.text, b.text, strict=False))
        most = min(len(a.text), len(b.text))
        same = next((at for at, (one, other) in pairs if one != other), most)
        shorter = min(a, b, key=lambda answer: len(answer.text))
        if same == len(shorter.text) and (a.text == b.text or shorter.stop_reason != "end"):
            return None, None
        return _token_at(a.tokens, same), _token_at(b.tokens, same)

    @property
    def parting(self) -> int | None:
        """Return the first token where the two differ; None while one is the beginning of the
        other, unless that one has ended."""
        a, b = self.answers
        for number, (one, other) in enumerate(zip(a.tokens, b.tokens, strict=False)):
            if one.id != other.id:
                return number
        shorter = min(a, b, key=lambda answer: len(answer.tokens))
        if len(a.tokens) == len(b.tokens) or shorter.stop_reason != "end":
            return None
        return len(shorter.tokens)

    def with_answer(self, run: int, answer: RunAnswer) -> RunComparison:
        a, b = self.answers
        return replace(self, answers=(a, answer) if run else (answer, b))


class Work(Struct, frozen=True):
    """A task of the engine that is running."""

    asked: Command
    kind: TaskKind
    stage: str = "starting"
    fraction: float = 0.0
    stopping: bool = False


class Choices(Struct, frozen=True):
    """The choices of a person; `runs` are the options of the two runs."""

    page: Page = "modes"
    runs: tuple[EngineOptions, EngineOptions] = (
        EngineOptions(mode="as-stored"),
        EngineOptions(mode="int4"),
    )
    prompt: str = ""
    greedy: bool = True
    length: int = 96  # tokens
    tested: Mode = "int4"
    reference: Mode = "fp32"
    path: str = ""  # of the text; "" is the sample
    tensors: Mode = "int4"
    step: int = 1  # tokens of the step to profile
    # of an accelerator's account that are not its own
    parameters: tuple[tuple[str, float], ...] = ()
    kernels: StudyBackend = "vulkan"  # that are studied


class Accounted(Struct, frozen=True):
    """The account of a step, and the executor that made it."""

    account: StepAccount
    executor: ExecutorInfo | None


class Quantization(Struct, frozen=True):
    """Two runs, measurements, and the task that is running."""

    choices: Choices = field(default_factory=Choices)
    work: Work | None = None
    problems: tuple[tuple[TaskKind, str], ...] = ()  # why the last of a kind did not end
    comparison: RunComparison | None = None
    reports: tuple[DivergenceReport, ...] = ()  # the newest first, one a pair of modes
    speeds: ModesMeasured | None = None
    tensors: TensorReport | None = None
    profile: StepProfile | None = None
    accounted: Accounted | None = None
    studies: tuple[KernelStudy, ...] = ()  # of kernels, one a backend: not of the model
    model: str = ""  # path of the one that was measured

    def of_next_conversation(self) -> Quantization:
        return self  # prompts and texts that it names

    def of_next_model(self) -> Quantization:
        return self

    def fit(self, model: ModelInfo) -> Quantization:
        """Return what is of this model: of another one, studies of kernels alone."""
        if model.path == self.model:
            return self
        choices = replace(self.choices, parameters=())
        return Quantization(choices, studies=self.studies, model=model.path)

    def account(self, executor: ExecutorInfo | None) -> StepAccount | None:
        """Return the last account of a step, if it is of this executor."""
        known = self.accounted
        return known.account if known is not None and known.executor == executor else None

    def with_account(self, account: StepAccount, executor: ExecutorInfo | None) -> Quantization:
        choices = replace(self.choices, parameters=self.parameters(executor))
        return replace(self, choices=choices, accounted=Accounted(account, executor))

    def parameters(self, executor: ExecutorInfo | None) -> tuple[tuple[str, float], ...]:
        """Return the parameters of accounts as they were chosen for this executor."""
        return self.choices.parameters if self.account(executor) is not None else ()

    def study(self, backend: StudyBackend) -> KernelStudy | None:
        return next((study for study in self.studies if study.backend == backend), None)

    def with_study(self, new: KernelStudy) -> Quantization:
        others = tuple(study for study in self.studies if study.backend != new.backend)
        return replace(self, studies=(*others, new))

    def problem(self, kind: TaskKind) -> str:
        return dict(self.problems).get(kind, "")

    def with_problem(self, kind: TaskKind, words: str) -> Quantization:
        others = tuple(item for item in self.problems if item[0] != kind)
        return replace(self, problems=(*others, (kind, words)) if words else others)


def _token_at(tokens: Sequence[RunToken], characters: int) -> int:
    """Return the index of the token that has the character behind so many."""
    for number, token in enumerate(tokens):
        characters -= len(token.text)
        if characters < 0:
            return number
    return len(tokens)


def with_report(
    reports: Sequence[DivergenceReport], new: DivergenceReport
) -> tuple[DivergenceReport, ...]:
    """Put `new` first; it replaces the report of the same pair of modes."""

    def pair(report: DivergenceReport) -> tuple[object, ...]:
        tested = report.tested
        return tested.mode, tested.activations, tested.backend, report.reference.mode

    others = tuple(report for report in reports if pair(report) != pair(new))
    return (new, *others)[:REPORTS]
