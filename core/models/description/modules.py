"""Names of the modules of `transformers`, from the rows of an architecture: a tensor of a
checkpoint has the name of its module, and "weight" or "bias" behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from llm_lite.core.models.description.decoder import HEAD, PAIRING_OF_LLAMA
from llm_lite.core.models.description.rows import rows_of
from llm_lite.core.models.description.tensors import FusedRow, NameRow, in_order
from llm_lite.core.plan.module_names import ModuleNames

Own = Mapping[str, tuple[str, ...]]
_ATTENTION = ("attention.output.biased", "attention.output")
_FEED_FORWARD = (
    "feed_forward.sum.shared",
    "feed_forward.sum",
    "feed_forward.down.biased",
    "feed_forward.down",
)
# Modules that hold others, by their names in a layer: what makes their output.
_HOLDERS: Own = {
    "self_attn": _ATTENTION,
    "attn": _ATTENTION,
    "attention": _ATTENTION,
    "encoder_attn": ("cross_attention.output.biased", "cross_attention.output"),
    "linear_attn": ("state.output",),
    "conv": ("convolution.output.biased", "convolution.output"),
    "mlp": _FEED_FORWARD,
    "feed_forward": _FEED_FORWARD,
    "block_sparse_moe": _FEED_FORWARD,
    "ffn": _FEED_FORWARD,
    "mlp.shared_expert": ("feed_forward.shared.down",),
}
_QUERIES_AND_KEYS = frozenset(
    f"attention.{one}{end}" for one in "qk" for end in ("", ".biased", "_rope", "_norm")
)
_VALUE_HEADS = frozenset(f"state.{one}" for one in ("qkv", "gate", "alpha", "beta", "gated"))


def of_decoder(name: str) -> tuple[str, ...]:
    """Return what a module of most decoders is called."""
    return (f"model.{name}",)


def of_transformer(name: str) -> tuple[str, ...]:
    """Return what a module of GPT-2 and those after it is called."""
    return (f"transformer.{name}",)


def module_names(
    rows: Sequence[NameRow],
    fused: Sequence[FusedRow],
    config: Any,
    full: Callable[[str], tuple[str, ...]],
    own: Own,
    stack: str = "",
) -> ModuleNames:
    """Return the names of a model's modules. `full`: of a name, what it is called in a model with
    a head, and without. `own`: other modules, as of `Architecture.modules`. `stack`: "encoder" or
    "decoder", of an encoder-decoder, whose other stack has labels that look alike."""
    found: dict[str, tuple[str, ...]] = {}
    parts = {part.gguf for one in fused for part in one.parts}

    def put(name: str, made_by: Iterable[str]) -> None:
        made_by = tuple(made_by)
        of_head = any(one == HEAD or one.startswith(_OF_HEAD) for one in made_by)
        for one in (name,) if of_head else full(name):
            found[one] = made_by

    layers: dict[str, set[int]] = {}
    for row, number in in_order(rows, config):
        if row.checkpoint is None:
            continue
        module, _, kind = row.checkpoint.rpartition(".")
        at = f"{{i}}{module.partition('{i}')[2]}" if row.count.endswith("layers") else ""
        begin = module.removesuffix(at) if at else ""
        of_stack = not stack or row.count == f"{stack}_layers"
        if at and of_stack:
            layers.setdefault(begin, set()).add(number)
            for holder in _holders(at.removeprefix("{i}.")):
                places = (f"layers.{number}.{one}" for one in _HOLDERS[holder])
                put(f"{begin}{number}.{holder}", places)
            if ".experts." in at:
                experts = at.partition(".experts.")[0].replace("{i}", str(number)) + ".experts"
                put(begin + experts, (f"layers.{number}.feed_forward.sum",))
        if kind == "weight" and row.gguf not in parts:
            weight = row.gguf.replace("{i}", str(number))
            bias = weight.removesuffix("weight") + "bias"
            put(module.replace("{i}", str(number)), (bias, weight))
    for begin, numbers in layers.items():
        for number in sorted(numbers):
            put(f"{begin}{number}", (f"layers.{number}",))
    for name, made_by in own.items():
        if stack and name.startswith("decoder." if stack == "encoder" else "encoder."):
            continue
        begin, is_of_layer, rest = name.partition("{i}")
        if not is_of_layer:
            put(name, made_by)
        for number in sorted(layers.get(begin, ())) if is_of_layer else ():
            put(f"{begin}{number}{rest}", (f"layers.{number}.{one}" for one in made_by))
    return ModuleNames(
        {name: made_by for name, made_by in found.items() if made_by}, _differ(config)
    )


_OF_HEAD = ("logits", "head.", "mlm.")


def _holders(name: str) -> list[str]:
    """Return the modules of `_HOLDERS` that a module lies in, by its name in a layer."""
    parts = name.split(".")
    within = (".".join(parts[:count]) for count in range(1, len(parts)))
    return [one for one in within if one in _HOLDERS]


def _differ(config: Any) -> frozenset[str]:
    """Return the ends of labels of what `transformers` has in another order or scale: GGUF files of
    Llama's kind have the values of queries and keys in pairs; some have the heads of recurrent
    states in turns; and factors of rotated queries and keys are a part of our scale of scores."""
    found: Collection[str] = ()
    pairing = rows_of(type(config)).get("pairing")
    if pairing == PAIRING_OF_LLAMA and config.pairing == "interleaved":
        found = _QUERIES_AND_KEYS
    elif getattr(config, "rotary_magnitude", 1.0) != 1.0:
        found = ("attention.q_rope", "attention.k_rope")
    return frozenset(found) | (_VALUE_HEADS if getattr(config, "tiled", False) else frozenset())
