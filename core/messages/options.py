"""The options that people set: how a model is run and how an answer is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

# One of BACKENDS, or the name of an executor that a package registers (core/exec/accelerator.py)
Backend = Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,39}$")]
Mode = Literal["as-stored", "fp32", "fp16", "int8", "int4"]
Activations = Literal["auto", "a32", "a8"]
KvType = Literal["fp16", "fp32", "int8", "int4"]
Speculate = Literal["off", "auto", "lookup", "slice"]
DraftLearning = Literal["off", "use", "learn"]
ExpertsIn = Literal["auto", "memory", "cpu", "file"]
Budget = Annotated[int, Meta(ge=0, le=1 << 40)]  # bytes
BACKENDS: tuple[Backend, ...] = ("auto", "vulkan", "cpu", "numpy")
MODES: tuple[Mode, ...] = ("as-stored", "fp32", "fp16", "int8", "int4")
ACTIVATIONS: tuple[Activations, ...] = ("auto", "a32", "a8")
KV_TYPES: tuple[KvType, ...] = ("fp16", "fp32", "int8", "int4")
SPECULATES: tuple[Speculate, ...] = ("off", "auto", "lookup", "slice")
DRAFT_LEARNINGS: tuple[DraftLearning, ...] = ("off", "use", "learn")
EXPERTS_IN: tuple[ExpertsIn, ...] = ("auto", "memory", "cpu", "file")


class EngineOptions(Struct, frozen=True):
    """The options with which a model is run. 0 means: let the program choose."""

    backend: Backend = "auto"
    # index of the Vulkan device for inference; None: the shared one
    device: Annotated[int, Meta(ge=0, le=255)] | None = None
    mode: Mode = "as-stored"
    activations: Activations = "auto"
    keys: KvType = "fp16"  # of the cache
    values: KvType = "fp16"
    threads: Annotated[int, Meta(ge=0, le=1024)] = 0
    context: Annotated[int, Meta(ge=0, le=1 << 24)] = 0  # tokens
    query_budget: Budget = 64 << 20  # for the queries behind attention maps; 0 keeps none
    pool_budget: Budget = 256 << 20  # for prefixes of recent conversations; 0 keeps none
    whole_caches: bool = False  # sliding layers keep all positions too, for maps of all rows
    # Tokens are drafted and verified several in a pass: never, where it pays, whenever the text
    # repeats itself, or where it pays by a slice of the model too. Answers are the same.
    speculate: Speculate = "auto"
    # A path or name: a smaller model that drafts where nothing repeats.
    draft_model: Annotated[str, Meta(max_length=4096)] = ""
    # Drafts of what the model wrote in other conversations: none, of what was learned before, or
    # of that and of these answers too, which a file on disk keeps.
    learned_drafts: DraftLearning = "off"
    # Where a mixture's experts are. memory: where the other weights are, which is fastest. cpu: in
    # the host's memory, computed in C++ beside a device that has all else. file: in C++ too, as
    # they lie in the file; memory holds what it has room for. auto: the first of these that fits.
    experts: ExpertsIn = "auto"
    force: bool = False  # load what will not fit into memory, too

    @property
    def weighs_drafts(self) -> bool:
        """Return True if drafts from all sources are made where they pay; `lookup` makes all it
        finds."""
        return self.speculate in ("auto", "slice")


class SamplingDefault(Struct, frozen=True):
    """A default for a field of `SamplingOptions` by the model's own files or card, and where it is
    from."""

    name: str
    value: float
    source: str  # "generation_config.json", say


def in_force(
    defaults: Sequence[SamplingDefault], chosen: Mapping[str, object]
) -> tuple[SamplingDefault, ...]:
    """Return the defaults that apply besides what a person has chosen, by name: none for a name
    that was chosen, and no penalty at a temperature of 0, which asks for the likeliest token."""
    greedy = chosen.get("temperature") == 0
    return tuple(
        default
        for default in defaults
        if default.name not in chosen and not (greedy and default.name == "repetition_penalty")
    )
