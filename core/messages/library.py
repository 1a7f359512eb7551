"""Models on this machine and on a hub, and what is done with them one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from llm_lite.core.messages.options import Mode

Origin = Literal[
    "bundled", "llm-lite", "huggingface", "lm-studio", "ollama", "llama.cpp", "imported"
]
Form = Literal["gguf", "huggingface", "variant", "slice"]
Stage = Literal["download", "slice", "quantize", "delete source", "delete"]
StageState = Literal["waiting", "running", "paused", "done", "failed", "skipped"]
Amount = Annotated[int, Meta(ge=0, lt=1 << 62)]  # bytes, or another count
Seconds = Annotated[float, Meta(ge=0)]


class LocalModel(Struct, frozen=True):
    """A model that lies on this machine, used where it lies; a broken one has a `problem`."""

    name: str  # unique here; commands take it, or a part that no other name has
    path: Path  # what a load takes: a GGUF file, or a directory
    origin: Origin
    form: Form
    files: tuple[Path, ...]  # what it is made of, each once, links followed
    size: int  # bytes of these files
    architecture: str = ""  # as the file calls it; "" where it cannot be read
    runnable: bool = True  # whether this build has the architecture
    format: str = ""  # "Q4_K_M", "BF16", "int4": what most weights are stored in
    parameters: int = 0
    context: int = 0  # tokens it was trained for; 0: unknown
    vocabulary: int = 0  # tokens; 0: unknown, or a model that continues no texts
    licence: str = ""
    repo: str = ""  # owner/name on the hub, where that is known
    revision: str = ""  # commit on the hub
    made_of: str = ""  # of a variant or slice: the name of the model it was made of
    problem: str = ""  # a sentence: why it can not be used


class HubFile(Struct, frozen=True):
    """A file, or the files of one model in parts or of a checkpoint, that can be fetched."""

    name: str  # path in the repository; of several, the first
    parts: tuple[str, ...]  # paths of all files that belong to it
    size: int  # bytes of all parts
    form: Form
    format: str  # of its weights: "Q4_K_M", "BF16"; "" where unknown
    problem: str = ""  # why this build can not run it


class HubModel(Struct, frozen=True):
    """A repository of models on the hub."""

    repo: str  # owner/name
    revision: str  # commit
    architecture: str  # GGUF's or config.json's word; "" where the hub does not tell
    runnable: bool
    problem: str  # why not, a sentence
    parameters: int
    context: int
    licence: str
    gated: bool
    task: str  # the hub's pipeline tag: "text-generation"
    downloads: int
    updated: str  # ISO date
    description: str  # one or two plain sentences, from outside: shown as text only
    files: tuple[HubFile, ...]
    config: str = ""  # its config.json, from outside; "" where it has none or was only found


class CuratedModel(Struct, frozen=True):
    """A row of the curated list."""

    repo: str
    file: str
    title: str
    licence: str
    size: int  # bytes of the file
    memory: int  # bytes that it takes with a context of 4,096 tokens
    date: str  # ISO, of the choice
    reason: str  # one sentence


class MemoryPart(Struct, frozen=True):
    name: Literal["weights", "cache", "scratch", "maps", "program"]
    host: int  # bytes in the memory of the system
    device: int  # bytes in the device's heap; of a shared memory they count as the host's


class Fit(Struct, frozen=True):
    """The memory that a model would take in a mode with a context, against what there is."""

    mode: Mode
    context: int  # tokens
    backend: Literal["cpu", "vulkan"]
    parts: tuple[MemoryPart, ...]
    host_free: int | None  # bytes to be had, a share left alone; None where nobody tells
    device_free: int | None  # of the device's heap; None without a device, or unified
    speed: float | None  # tokens/s in decode that the measured bandwidth allows; None: unmeasured
    instead: str = ""  # what would fit where this does not, a sentence; "" where it fits
    active_bytes: int = 0  # that a token of a mixture of experts reads; 0: it reads all
    # Of experts that stay in their file: of the parts are those that a token reads. 0: none do.
    in_file: int = 0
    rounded_again: float = 0.0  # share of the weights: see `ModelInfo`
    writes: bool = True  # tokens, one after the other: `speed` is of that

    @property
    def fits(self) -> bool:
        host = self.host_free is None or sum(p.host for p in self.parts) <= self.host_free
        device = self.device_free is None or sum(p.device for p in self.parts) <= self.device_free
        return host and device


class JobStage(Struct, frozen=True, forbid_unknown_fields=True):
    stage: Stage
    state: StageState = "waiting"
    done: Amount = 0  # bytes of a download, thousandths of what else
    total: Amount = 0
    rate: Annotated[float, Meta(ge=0)] = 0.0  # bytes/s over the last seconds
    left: Seconds | None = None
    detail: str = ""  # the file that is fetched, the tensor that is quantized


class ModelJob(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the queue: a model that is fetched, then perhaps quantized, its source deleted."""

    id: str
    title: str
    source: str  # "hf:owner/repo:file" or a local name
    mode: Mode | None  # what it is quantized to; None: used as stored
    stages: Annotated[tuple[JobStage, ...], Meta(min_length=1, max_length=8)]
    message: str = ""  # why it failed, a sentence
    result: str = ""  # the local name of what came out
    slice: str = ""  # "E2B": what is cut out of the source first
    deletes: tuple[str, ...] = ()  # of a deletion: the local names
    frees: Amount = 0  # bytes, of a deletion: what it will free, or has freed

    @property
    def current(self) -> JobStage | None:
        """Return the current stage; None if all are done."""
        return next((s for s in self.stages if s.state not in ("done", "skipped")), None)


class QueueState(Struct, frozen=True):
    """The state of the queue, which all programs of a person share, as one of them knows it."""

    jobs: tuple[ModelJob, ...] = ()
    works: bool = False  # whether this program carries it out; otherwise it shows what another does
    problem: str = ""  # a sentence: the queue's own file was damaged, or cannot be written
