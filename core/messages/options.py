"""How a model is run and how an answer is chosen: what people set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

Backend = Literal["auto", "vulkan", "cpu", "numpy"]
Mode = Literal["as-stored", "fp32", "fp16", "int8", "int4"]
Activations = Literal["auto", "a32", "a8"]
KvType = Literal["fp16", "fp32", "int8", "int4"]
Speculate = Literal["off", "auto", "lookup", "slice"]
DraftLearning = Literal["off", "use", "learn"]
Budget = Annotated[int, Meta(ge=0, le=1 << 40)]  # bytes
BACKENDS: tuple[Backend, ...] = ("auto", "vulkan", "cpu", "numpy")
MODES: tuple[Mode, ...] = ("as-stored", "fp32", "fp16", "int8", "int4")
ACTIVATIONS: tuple[Activations, ...] = ("auto", "a32", "a8")
KV_TYPES: tuple[KvType, ...] = ("fp16", "fp32", "int8", "int4")
SPECULATES: tuple[Speculate, ...] = ("off", "auto", "lookup", "slice")
DRAFT_LEARNINGS: tuple[DraftLearning, ...] = ("off", "use", "learn")


class EngineOptions(Struct, frozen=True):
    """How a model is run. 0 means: let the program choose."""

    backend: Backend = "auto"
    device: Annotated[int, Meta(ge=0, le=255)] | None = (
        None  # index of the Vulkan device for inference; None: the shared one
    )
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
    force: bool = False  # load what will not fit into memory, too

    @property
    def weighs_drafts(self) -> bool:
        """Whether drafts are made where they pay, from all sources; `lookup` makes all it finds."""
        return self.speculate in ("auto", "slice")


class SamplingDefault(Struct, frozen=True):
    """What a model's own files or card say of a field of `SamplingOptions`, and where."""

    name: str
    value: float
    source: str  # "generation_config.json", say


def in_force(
    defaults: Sequence[SamplingDefault], chosen: Mapping[str, object]
) -> tuple[SamplingDefault, ...]:
    """The defaults that hold beside what a person has chosen, by name: of no name that was chosen
    and, at a temperature of 0, which asks for the likeliest token, no penalty."""
    greedy = chosen.get("temperature") == 0
    return tuple(
        default
        for default in defaults
        if default.name not in chosen and not (greedy and default.name == "repetition_penalty")
    )


DRY_BREAKERS = ("\n", ":", '"', "*")


class SamplingOptions(Struct, frozen=True):
    """How the next token is chosen, and where the answer ends.

    `core.generation.sampling` says in which order all this acts, and where each formula is from.
    Temperature 0 is greedy: of what changes the choice, only mask, biases and penalties count then.
    """

    temperature: float = 0.4
    top_k: int = 40  # 0: off
    top_p: float = 0.9  # 1: off
    min_p: float = 0.05  # 0: off
    repetition_penalty: float = 1.0  # 1: off
    penalty_window: int = 64  # how many last tokens the three penalties look at
    seed: int | None = None  # None: a new one each time
    max_new_tokens: int = 1024
    presence_penalty: float = 0.0  # 0: off
    frequency_penalty: float = 0.0  # 0: off
    typical_p: float = 1.0  # 1: off
    xtc_probability: float = 0.0  # 0: off
    xtc_threshold: float = 0.1  # above 0.5: off
    dry_multiplier: float = 0.0  # 0: off
    dry_base: float = 1.75
    dry_allowed_length: int = 2  # tokens
    dry_window: int = 1024  # how many last tokens are searched for repeats
    dry_breakers: tuple[str, ...] = DRY_BREAKERS  # repeats do not reach across these
    mirostat_tau: float = 0.0  # bits of surprise aimed at; 0: off
    mirostat_eta: float = 0.1  # how fast it is aimed at
    logit_bias: tuple[tuple[int, float], ...] = ()  # token id, what is added to its logit
    stop: tuple[str, ...] = ()  # the answer ends before the first of these
    max_thinking_tokens: int = 0  # 0: as many as it likes
    json_schema: str = ""  # the answer is JSON of this schema
    grammar: str = ""  # or a text of this grammar: GBNF or Lark
    repetition_guard: bool = True  # an answer that repeats itself without an end is ended
