"""What a scripted engine says when it is to compare or to measure: short, and always the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llm_lite.core.messages import (
    AccountParameter,
    AccountStep,
    Alternative,
    AnalyzeTensors,
    CommandProgress,
    CompareRuns,
    DivergenceMeasured,
    DivergenceReport,
    DropVariant,
    Event,
    ExecutorInfo,
    Forced,
    GenerationStats,
    KeepVariant,
    KernelForm,
    KernelsStudied,
    KernelStudy,
    MeasureDivergence,
    MeasureModes,
    ModesMeasured,
    ModeSpeed,
    OpAccount,
    OpTime,
    ProfileStep,
    RunFinished,
    RunReady,
    RunsForced,
    RunToken,
    StepAccount,
    StepAccounted,
    StepProfile,
    StepProfiled,
    StudyKernels,
    Task,
    TensorReport,
    TensorRow,
    VariantDropped,
    VariantKept,
)
from llm_lite.core.records import replace

BEGINNING = ("Once", "upon", "a", "time", "a", "light")
SAID = (*BEGINNING, "stood", "on", "a", "rock", "in", "the", "sea")
OTHER = (*BEGINNING, "shone", "over", "the", "harbour")
PARTING = len(BEGINNING)
ROWS = (
    ModeSpeed("as-stored", "a8", 96_400_000, 900.0, 90.0),
    ModeSpeed("fp16", "a32", 270_000_000, 400.0, 40.0),
    ModeSpeed("int4", "a8", 76_000_000, 1000.0, 120.0),
)
STEP = StepProfile(
    tokens=1,
    depth=40,
    seconds=4e-3,
    ops=(
        OpTime("embed", "embedding", 1e-4, 2_304),
        OpTime("matmul", "layers.0.attention.q", 5e-4, 5_000_000),
        OpTime("attention", "layers.0.attention.heads", 3e-4, 1_000_000),
        OpTime("matmul", "layers.0.feed_forward.up", 6e-4, 9_000_000),
        OpTime("matmul", "layers.1.attention.q", 5e-4, 5_000_000),
        OpTime("attention", "layers.1.attention.heads", 2e-4, 1_000_000),
        OpTime("matmul", "logits", 1.2e-3, 20_000_000),
    ),
    memory_gb_s=20.0,
    device="a scripted device",
)
MOVED = 5_000_000, 4_000_000  # bytes, and multiply-adds
ACCOUNT = StepAccount(
    "a scripted device",
    tokens=1,
    depth=40,
    ops=(
        OpAccount("embed", "embedding", "host", 1e-4),
        OpAccount(
            "matmul",
            "layers.0.attention.q",
            "accelerator",
            3e-3,
            1e-3,
            2.9e-3,
            5_000_000,
            4_000_000,
        ),
        OpAccount("attention", "layers.0.attention.heads", "host", 5e-4),
        OpAccount(
            "matmul",
            "layers.1.attention.q",
            "accelerator",
            2e-3,
            1.9e-3,
            5e-4,
            5_000_000,
            4_000_000,
        ),
        OpAccount("matmul", "logits", "host", 6e-3),
    ),
    joules=0.04,
    macs_per_second=3e11,
    bytes_per_second=19.2e9,
    parameters=(
        AccountParameter("rows", "Rows of multipliers", "", 32, 8, 128),
        AccountParameter("clock_mhz", "Clock", "MHz", 300, 50, 1000),
    ),
    assumptions=("Nothing overlaps: an op begins when the one before it has ended.",),
)
CODE = "for (uint k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];"
FORMS = tuple(
    KernelForm(name, f"{name} is faster.", "glsl", f"{name}.comp", CODE, ms, 0.9 * ms, 1.3 * ms)
    for name, ms in (
        ("naive", 0.4),
        ("coalesced", 0.2),
        ("tiled in shared memory", 0.04),
        ("register-blocked", 0.008),
        ("the program's own", 0.004),
    )
)
STUDY = KernelStudy("vulkan", "a scripted device", True, 512, 512, 512, 96.0, 12.0, FORMS)
TENSORS = (
    TensorRow("token_embd.weight", (49152, 576), "int4", 4.5, 21.0),
    TensorRow("blk.0.attn_norm.weight", (576,), "f32", 32.0, math.inf),
    TensorRow("blk.0.ffn_up.weight", (1536, 576), "int4", 4.5, 12.5),
)


def events(command: Task, executor: ExecutorInfo) -> Iterator[Event]:
    """Yield all that is said of a task."""
    yield CommandProgress("converting weights", 0.25)
    if isinstance(command, CompareRuns):
        yield from _runs(command, executor)
    elif isinstance(command, MeasureDivergence):
        tested = replace(executor, mode=command.tested.mode)
        reference = replace(executor, mode=command.reference.mode, activations="a32")
        yield DivergenceMeasured(report(tested, reference))
    elif isinstance(command, MeasureModes):
        yield ModesMeasured(executor.device, ROWS, 2, "int4 is the fastest here")
    elif isinstance(command, KeepVariant):
        yield VariantKept(command.mode, f"/variants/model-{command.mode}", 76_000_000)
    elif isinstance(command, DropVariant):
        yield VariantDropped(command.mode, 76_000_000)
    elif isinstance(command, ProfileStep):
        yield StepProfiled(replace(STEP, tokens=command.tokens))
    elif isinstance(command, AccountStep):
        changed = dict(command.parameters)
        parameters = tuple(
            replace(p, value=changed.get(p.name, p.value)) for p in ACCOUNT.parameters
        )
        yield StepAccounted(replace(ACCOUNT, tokens=command.tokens, parameters=parameters))
    elif isinstance(command, StudyKernels):
        for count in range(1, len(FORMS) + 1):
            study = replace(STUDY, backend=command.backend, forms=FORMS[:count])
            yield KernelsStudied(study)
    elif isinstance(command, AnalyzeTensors):
        yield TensorReport(command.mode, TENSORS)


def _runs(command: CompareRuns, executor: ExecutorInfo) -> Iterator[Event]:
    for run, options in enumerate(command.runs):
        info = replace(executor, mode=options.mode)
        yield RunReady(run, info, 76_000_000, 90_000_000, False)
    for number in range(len(SAID)):
        for run, words in enumerate((SAID, OTHER)):
            if number < len(words):
                token = number + 1000 * (words[number] != SAID[number])
                text = words[number] if number == 0 else " " + words[number]
                yield RunToken(run, token, text, 0.5, best(number))
    for run, words in enumerate((SAID, OTHER)):
        stats = GenerationStats(new_tokens=len(words), decode_tok_s=50.0 + run, ttft_ms=80.0)
        yield RunFinished(run, "end", stats)
    yield RunsForced(0, tuple(forced(number) for number in range(len(SAID))))


def best(number: int) -> tuple[Alternative, ...]:
    return tuple(Alternative(number + 10 * i, f" w{i}", 0.5 / 2**i) for i in range(5))


def forced(number: int) -> Forced:
    """Small everywhere but where they part."""
    kl = 0.8 if number == PARTING else 0.001 * (number + 1)
    return Forced(kl, (0.5, 0.5 - kl / 4), (best(number), best(number)[::-1]))


def report(tested: ExecutorInfo, reference: ExecutorInfo) -> DivergenceReport:
    loss = {"int4": 0.08, "int8": 0.001}.get(tested.mode, 1e-7)
    return DivergenceReport(
        ppl=20.0 * (1 + loss),
        ppl_error=0.5,
        ppl_reference=20.0,
        ppl_reference_error=0.5,
        kld_mean=loss,
        kld_error=loss / 50,
        kld_median=loss / 2,
        kld_p90=2 * loss,
        kld_p95=3 * loss,
        kld_p99=4 * loss,
        kld_p999=5 * loss,
        kld_max=6 * loss,
        delta_p_mean=-loss / 10,
        delta_p_rms=loss / 2,
        same_top=1 - loss,
        same_top_error=0.001,
        tokens_scored=512,
        chunks=2,
        chunk_tokens=512,
        bits_per_weight=4.5,
        matrix_bits_per_weight=4.5,
        weight_bytes=76_000_000,
        reference_weight_bytes=540_000_000,
        tested=tested,
        reference=reference,
        kld_quantiles=tuple(6 * loss * (n / 100) ** 2 for n in range(101)),
        kld_by_chunk=(loss * 0.9, loss * 1.1),
    )
