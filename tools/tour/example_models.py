"""A machine with models, a small hub and a queue, in memory: the tour uses no network, and shows
nothing of the machine that it runs on. Names are of real models; sizes are about theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.fit.recommend import BY_QUALITY, LEAST_CONTEXT, instead_of
from llm_lite.core.messages import Mode
from llm_lite.core.messages.library import (
    CuratedModel,
    Fit,
    HubFile,
    HubModel,
    JobStage,
    LocalModel,
    MemoryPart,
    ModelJob,
    Origin,
    QueueState,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.state import FitAnswer, FitQuestion, HubSearch, Weighed

GIB, MIB = 1 << 30, 1 << 20
FREE = 6 * GIB  # bytes of memory
HOME = Path("/home/you")
BITS: dict[Mode, float] = {"int4": 4.5, "int8": 8.5, "fp16": 16.0, "fp32": 32.0}
PROGRAM = 210 * MIB


def _local(
    name: str, origin: Origin, form: Any, size: float, architecture: str, **more: Any
) -> LocalModel:
    path = HOME / "models" / name
    files = (path,)
    return LocalModel(name, path, origin, form, files, round(size * MIB), architecture, **more)


APACHE = "apache-2.0"
LOCAL = (
    _local(
        "smollm2-135m-instruct", "bundled", "gguf", 93.5, "llama", format="Q4_1",
        parameters=134_515_008, context=8192, licence=APACHE,
    ),
    _local(
        "qwen3-4b-instruct", "huggingface", "huggingface", 7672, "qwen3", format="BF16",
        parameters=4_022_468_096, context=262_144, licence=APACHE,
        repo="Qwen/Qwen3-4B-Instruct-2507", revision="cdbee75f17c01a7cc42f958dc650907174af0554",
    ),
    _local(
        "qwen3-4b-instruct-int4", "llm-lite", "variant", 2210, "qwen3", format="int4",
        parameters=4_022_468_096, context=262_144, licence=APACHE, made_of="qwen3-4b-instruct",
    ),
    _local(
        "qwen3-4b-instruct-int8", "llm-lite", "variant", 4080, "qwen3", format="int8",
        parameters=4_022_468_096, context=262_144, licence=APACHE, made_of="qwen3-4b-instruct",
    ),
    _local(
        "gemma-3n-e4b-it", "huggingface", "huggingface", 14_980, "gemma3n", format="BF16",
        parameters=7_849_978_192, context=32_768, licence="gemma", repo="google/gemma-3n-E4B-it",
    ),
    _local(
        "gemma-3n-e4b-it-e2b", "llm-lite", "slice", 0.02, "gemma3n", format="BF16",
        parameters=5_439_438_272, context=32_768, licence="gemma", made_of="gemma-3n-e4b-it",
    ),
    _local(
        "llama-3.2-3b-instruct-q4_k_m", "lm-studio", "gguf", 1926, "llama", format="Q4_K_M",
        parameters=3_212_749_888, context=131_072, licence="llama3.2",
    ),
    _local(
        "phi4-mini", "ollama", "gguf", 2376, "phi3", format="Q4_K_M", parameters=3_836_021_856,
        context=131_072, licence="mit",
    ),
    _local(
        "mistral-7b-instruct-v0.3-q8_0", "llama.cpp", "gguf", 7346, "llama", format="Q8_0",
        parameters=7_248_023_552, context=32_768, licence=APACHE,
    ),
    _local(
        "nomic-embed-text-v1.5", "ollama", "gguf", 261, "nomic-bert", format="F16",
        parameters=136_727_040, context=2048, licence=APACHE, runnable=False,
    ),
    _local(
        "granite-3.3-2b-instruct", "huggingface", "huggingface", 1440, "granite", format="BF16",
        licence=APACHE, repo="ibm-granite/granite-3.3-2b-instruct",
        problem="model-00002-of-00002.safetensors: expected 2,113,929,216 bytes, found 402,653,184",
    ),
)  # fmt: skip
CURATED = (
    CuratedModel(
        "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", "smollm2-1.7b-instruct-q4_k_m.gguf",
        "SmolLM2 1.7B Instruct", APACHE, 1007 * MIB, 1640 * MIB, "2026-11-20",
        "Small, quick on any processor, and open in all of its parts.",
    ),
    CuratedModel(
        "Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf", "Qwen3 4B", APACHE, 2382 * MIB, 3190 * MIB,
        "2026-11-20", "The most for its size: many languages, thoughts, and functions.",
    ),
    CuratedModel(
        "ggml-org/gemma-3n-E2B-it-GGUF", "gemma-3n-E2B-it-Q8_0.gguf", "Gemma 3n E2B", "gemma",
        4558 * MIB, 3240 * MIB, "2026-11-20",
        "Half of its weights stay on the disk, so it takes little memory for what it knows.",
    ),
    CuratedModel(
        "Qwen/Qwen3-14B-GGUF", "Qwen3-14B-Q4_K_M.gguf", "Qwen3 14B", APACHE, 8584 * MIB,
        10_100 * MIB, "2026-11-20", "For machines with 16 GiB of memory that is free.",
    ),
)  # fmt: skip


def _file(name: str, form: str, size: float) -> HubFile:
    return HubFile(name, (name,), round(size * MIB), "gguf", form)


def _hub(repo: str, architecture: str, parameters: float, context: int, downloads: int,
         files: Sequence[HubFile], **more: Any) -> HubModel:  # fmt: skip
    values: dict[str, Any] = {
        "licence": APACHE, "gated": False, "task": "text-generation", "updated": "2026-10-02",
        "description": "", "problem": "", "runnable": True,
    }  # fmt: skip
    return HubModel(
        repo=repo, revision="0123456789abcdef0123456789abcdef01234567", architecture=architecture,
        parameters=round(parameters), context=context, downloads=downloads, files=tuple(files),
        **(values | more),
    )  # fmt: skip


FOUND = (
    _hub(
        "Qwen/Qwen3-4B-GGUF", "qwen3", 4.02e9, 40_960, 2_218_402,
        [
            _file("Qwen3-4B-Q4_K_M.gguf", "Q4_K_M", 2382),
            _file("Qwen3-4B-Q5_K_M.gguf", "Q5_K_M", 2756),
            _file("Qwen3-4B-Q6_K.gguf", "Q6_K", 3154), _file("Qwen3-4B-Q8_0.gguf", "Q8_0", 4084),
            _file("Qwen3-4B-BF16.gguf", "BF16", 7676),
        ],
        description="Qwen3 is a family of language models that switch between thinking and "
        "answering at once. They know more than a hundred languages.",
    ),
    _hub(
        "Qwen/Qwen3-4B", "qwen3", 4.02e9, 40_960, 1_904_518,
        [
            HubFile(
                "model-00001-of-00003.safetensors",
                tuple(f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)),
                7673 * MIB, "huggingface", "BF16",
            )
        ],
    ),
    _hub(
        "Qwen/Qwen3-VL-4B-Instruct", "qwen3_vl", 4.44e9, 262_144, 702_114, [],
        task="image-text-to-text", runnable=False,
        problem="this build does not know the architecture qwen3_vl",
    ),
    _hub(
        "unsloth/Qwen3-4B-Instruct-2507-GGUF", "qwen3", 4.02e9, 262_144, 91_733,
        [_file("Qwen3-4B-Instruct-2507-Q4_K_M.gguf", "Q4_K_M", 2382)],
    ),
    _hub(
        "google/gemma-3-4b-it-qat-q4_0-gguf", "gemma3", 3.88e9, 131_072, 60_215,
        [_file("gemma-3-4b-it-q4_0.gguf", "Q4_0", 3002)], licence="gemma", gated=True,
    ),
    _hub(
        "a-person-with-a-long-name/A-model-whose-name-is-so-long-that-no-card-has-room-for-all-of-it-GGUF",
        "llama", 0, 0, 12, [_file("model.gguf", "", 0)], licence="",
    ),
)  # fmt: skip
DOWNLOADING = ModelJob(
    "aaaa", "Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf", "hf:Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf",
    None,
    (
        JobStage(
            "download", "running", 1432 * MIB, 2382 * MIB, 11.8 * MIB, 80.5, "Qwen3-4B-Q4_K_M.gguf"
        ),
    ),
)  # fmt: skip
CHAIN = ModelJob(
    "bbbb", "google/gemma-3n-E4B-it", "hf:google/gemma-3n-E4B-it", "int4",
    (
        JobStage("download", "done", 14_980 * MIB, 14_980 * MIB),
        JobStage("slice", "done", 1000, 1000),
        JobStage("quantize", "paused", 412, 1000, detail="blk.17.ffn_down.weight"),
        JobStage("delete source"),
    ),
    slice="E2B",
)  # fmt: skip
FAILED = ModelJob(
    "cccc", "meta-llama/Llama-3.2-3B-Instruct", "hf:meta-llama/Llama-3.2-3B-Instruct", "int8",
    (JobStage("download", "failed", 0, 6128 * MIB), JobStage("quantize")),
    "meta-llama/Llama-3.2-3B-Instruct is gated: accept its licence on "
    "https://huggingface.co/meta-llama/Llama-3.2-3B-Instruct and set HF_TOKEN.",
)  # fmt: skip
DONE = ModelJob(
    "dddd", "qwen3-4b-instruct", "qwen3-4b-instruct", "int4",
    (JobStage("quantize", "done", 1000, 1000),), result="qwen3-4b-instruct-int4",
)  # fmt: skip
DELETION = ModelJob(
    "eeee", "mistral-7b-instruct-v0.3-q8_0", "mistral-7b-instruct-v0.3-q8_0", None,
    (JobStage("delete"),), deletes=("mistral-7b-instruct-v0.3-q8_0",), frees=7346 * MIB,
)  # fmt: skip
QUEUE = QueueState((DOWNLOADING, CHAIN, FAILED, DONE, DELETION), works=True)


def fit_of(stored: int, parameters: int, question: FitQuestion) -> Fit:
    """Estimate the parts of a model of that size on a machine with FREE bytes of memory."""
    fit = _fit(stored, parameters, question.mode, question.context)
    return fit if fit.fits else replace(fit, instead=_instead(stored, parameters, fit))


def _fit(stored: int, parameters: int, mode: Mode, context: int) -> Fit:
    weights = stored if mode == "as-stored" else round(parameters * BITS[mode] / 8)
    cache = round(parameters * context / 45_000)
    parts = (
        MemoryPart("weights", weights, 0),
        MemoryPart("cache", cache, 0),
        MemoryPart("scratch", weights // 60 + 18 * MIB, 0),
        MemoryPart("maps", 64 * MIB, 0),
        MemoryPart("program", PROGRAM, 0),
    )
    speed = 40e9 / (weights + cache) if parameters else None
    return Fit(mode, context, "cpu", parts, FREE, None, speed)


def _instead(stored: int, parameters: int, asked: Fit) -> str:
    """Name the most exact mode that fits, and the longest context that does, in core's words."""
    modes = (_fit(stored, parameters, mode, asked.context) for mode in BY_QUALITY)
    contexts = []
    context = asked.context // 2
    while context >= LEAST_CONTEXT:
        contexts.append(_fit(stored, parameters, asked.mode, context))
        context //= 2
    fitting = (next((fit for fit in fits if fit.fits), None) for fits in (modes, contexts))
    return instead_of([fit for fit in fitting if fit is not None], asked)


class ExampleServices:
    """Example services with the methods of `CoreServices`; `requests` lists what was requested."""

    def __init__(self, local: tuple[LocalModel, ...] = LOCAL) -> None:
        self.models, self.jobs = local, QUEUE
        self.requests: list[object] = []

    def local(self) -> tuple[LocalModel, ...]:
        return self.models

    def disk_free(self) -> int | None:
        return 182 * GIB

    def accelerators(self) -> tuple[str, ...]:
        return ()

    def curated(self) -> tuple[CuratedModel, ...]:
        return CURATED

    def hub(self) -> str:
        return "https://huggingface.co"

    def search(self, search: HubSearch) -> tuple[HubModel, ...]:
        self.requests.append(search)
        return tuple(model for model in FOUND if model.runnable or not search.runnable)

    def read(self, repo: str) -> HubModel:
        self.requests.append(repo)
        for model in FOUND:
            if model.repo == repo:
                return model
        raise RequestError(f"{repo} is not on the hub of this example")

    def fits(
        self,
        questions: Sequence[FitQuestion],
        subject: LocalModel | HubModel,
    ) -> Mapping[FitQuestion, FitAnswer]:
        local = isinstance(subject, LocalModel)
        if isinstance(subject, LocalModel):
            sizes = {"": subject.size}
        else:
            sizes = {file.name: file.size for file in subject.files}
        return {
            one: FitAnswer(fit_of(sizes[one.file], subject.parameters, one), rough=not local)
            for one in questions
        }

    def verify(self, model: LocalModel, stop: Callable[[], bool]) -> str:
        return f"{model.name} is whole: every byte is as it should be"

    def weigh(self, models: Sequence[LocalModel]) -> Weighed:
        return Weighed(sum(model.size for model in models))

    def import_model(self, path: Path) -> str:
        self.requests.append(path)
        return self.models[0].name

    def begin_queue(self, changed: Callable[[QueueState], None]) -> None:
        changed(self.jobs)

    def queue(self, action: object) -> None:
        self.requests.append(action)

    def remove(self, models: Sequence[LocalModel]) -> None:
        self.requests.append(tuple(models))

    def close(self) -> None:
        self.requests.append("closed")
