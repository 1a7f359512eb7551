"""Sites: the places of a model that can be read, by name.

A site is what an op makes for each token, and its name is the op's label in the plan:
`layers.3.attention.heads` are the outputs of layer 3's heads side by side. An encoder-decoder has
two plans, whose names begin with "encoder." and "decoder.". The names that TransformerLens
(hook_points.py) and modules of Hugging Face's `transformers` have for the same place are aliases;
a place that these have in another order or scale has none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Op, Plan

Stack = Literal["", "encoder", "decoder"]  # of an encoder-decoder; "": of any other model

_ROUNDED = ".a8"  # the int8 copy of what the op before made
_CROSS = re.compile(r"layers\.\d+\.cross_attention\.")
# Ops whose result is that of a module which has their weight.
_OF_MODULES = frozenset(
    {"matmul", "add_bias", "rms_norm", "layer_norm", "embed", "position_rows", "type_rows"}
)


def _biased(place: str) -> tuple[str, str]:
    return f"{place}.biased", place


# By the end of a name in TransformerLens (behind "blocks.L."), which sites of a layer it may be:
# the first of them that a model has.
_LENS: dict[str, tuple[str, ...]] = {
    "attn.hook_q": _biased("attention.q"),
    "attn.hook_k": _biased("attention.k"),
    "attn.hook_v": _biased("attention.v"),
    "attn.hook_rot_q": ("attention.q_rope",),
    "attn.hook_rot_k": ("attention.k_rope",),
    "attn.hook_z": ("attention.heads",),
    "hook_attn_out": (
        "attention.post_norm",
        "attention.scaled",
        *_biased("attention.output"),
    ),
    "hook_resid_mid": ("attention.residual",),
    "mlp.hook_pre": (*_biased("feed_forward.gate"), *_biased("feed_forward.up")),
    "mlp.hook_pre_linear": _biased("feed_forward.up"),  # where there is a gate, too
    "mlp.hook_post": (
        "feed_forward.silu_mul",
        "feed_forward.gelu_mul",
        "feed_forward.gelu",
        "feed_forward.gelu_new",
        "feed_forward.relu",
        "feed_forward.silu",
    ),
    "hook_mlp_out": (
        "feed_forward.post_norm",
        "feed_forward.scaled",
        "feed_forward.sum.shared",
        "feed_forward.sum",
        *_biased("feed_forward.down"),
    ),
}
# Of a decoder that attends to a source, too.
_LENS_OF_CROSS: dict[str, tuple[str, ...]] = {
    "cross_attn.hook_q": ("cross_attention.q",),
    "cross_attn.hook_k": ("cross_attention.k",),
    "cross_attn.hook_v": ("cross_attention.v",),
    "cross_attn.hook_z": ("cross_attention.heads",),
    "hook_cross_attn_out": ("cross_attention.output",),
    "hook_resid_mid_cross": ("cross_attention.residual",),
}
_LAYER = re.compile(r"layers\.(\d+)\.(.+)")


class Site(Struct, frozen=True):
    """A place of a plan: what its op `index` makes, [tokens, columns].

    `prefix` begins its name, and the op's label is what stands behind. `of_source`: of an
    encoder-decoder, the tokens are the source's, and not the target's.
    """

    name: str
    index: int
    columns: int
    aliases: tuple[str, ...] = ()
    prefix: str = ""
    of_source: bool = False

    @property
    def label(self) -> str:
        return self.name.removeprefix(self.prefix)


def sites_of(plan: Plan, stack: Stack = "") -> tuple[Site, ...]:
    """Return the sites of a plan, in the order of its ops.

    What experts make is none: it stands in the order of the experts, not of the tokens.
    """
    indices = [index for index, op in enumerate(plan.ops) if _is_site(plan, op)]
    aliases = _aliases(plan, stack, [plan.ops[index].label for index in indices])
    return tuple(
        Site(
            (prefix := _prefix(stack, label := plan.ops[index].label)) + label,
            index,
            plan.tensors[plan.ops[index].outputs[0]].shape[1],
            aliases.get(label, ()),
            prefix,
            stack == "encoder",
        )
        for index in indices
    )


def all_sites(plan: Plan | None, encoder: Plan | None) -> tuple[Site, ...]:
    """Return the sites of a model: of a decoder's plan, of an encoder's, or of both."""
    if plan is not None and encoder is not None:
        return (*sites_of(encoder, "encoder"), *sites_of(plan, "decoder"))
    return tuple(site for one in (plan, encoder) if one is not None for site in sites_of(one))


def _prefix(stack: Stack, label: str) -> str:
    """Return what a label's name begins with. An encoder's plan makes the keys and values of its
    decoder's cross-attention, too."""
    if stack == "encoder" and _CROSS.match(label):
        return "decoder."
    return f"{stack}." if stack else ""


def _is_site(plan: Plan, op: Op) -> bool:
    if op.label.endswith(_ROUNDED) or op.name in ("store", "output_rows", "expert_places"):
        return False
    return plan.tensors[op.outputs[0]].per_token == 1


def is_behind_layers(plan: Plan, site: Site) -> bool:
    """Return whether a site makes something of those tokens of a step alone whose outputs are
    asked for."""
    return plan.tensors[plan.ops[site.index].outputs[0]].rows == "outputs"


def logits_of(plan: Plan) -> Site:
    """Return the site of a plan's logits."""
    return next(one for one in sites_of(plan) if plan.ops[one.index].outputs[0] == plan.logits)


def site_of(plan: Plan, name: str) -> Site:
    """Return the site of this name or alias. RequestError that names the closest where there is
    none."""
    return sites_named(plan, (name,))[name]


def sites_named(plan: Plan, names: Iterable[str]) -> dict[str, Site]:
    """Return sites by the names or aliases that are given. RequestError as of `site_of`."""
    return named_among(sites_of(plan), names)


def named_among(sites: Sequence[Site], names: Iterable[str]) -> dict[str, Site]:
    """Return those of the sites that have these names or aliases, by these. RequestError as of
    `site_of`."""
    known = {name: site for site in reversed(sites) for name in (*site.aliases, site.name)}
    found = {}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name[:80], known, 1, 0.0)
            raise RequestError(f"the model has no site {name[:80]!r}: did you mean {close[0]}?")
        found[name] = known[name]
    return found


def _aliases(plan: Plan, stack: Stack, labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return by the site's label what else it is called."""
    found: dict[str, list[str]] = {label: [] for label in labels}
    for name, label in (*_of_lens(plan, stack, labels), *_of_modules(plan)):
        places = _LAYER.fullmatch(label)
        if label in found and (places is None or places[2] not in plan.names.differ):
            found[label].append(name)
    return {label: tuple(names) for label, names in found.items()}


def _ends(plan: Plan) -> list[Op]:
    """Return the op that ends each layer; the norm behind the last one, which models of vectors
    count to it, is none."""
    made_by = {op.outputs[0]: op for op in plan.ops}
    ends = [plan.ops[index] for index in plan.layer_ends]
    return [made_by[op.inputs[0]] if op.label == "output.norm" else op for op in ends]


def _of_modules(plan: Plan) -> Iterable[tuple[str, str]]:
    """Yield names of modules, and the labels of the ops that make their outputs."""
    made: dict[str, str] = {op.label: op.label for op in plan.ops}
    for op in plan.ops:
        if op.name in _OF_MODULES:
            for one in op.given:  # of the embedding, which may be the head too: the first op
                made.setdefault(plan.tensors[one].name, op.label)
    made |= {f"layers.{number}": op.label for number, op in enumerate(_ends(plan))}
    for module, candidates in plan.names.modules.items():
        label = next((made[one] for one in candidates if one in made), None)
        if label is not None:
            yield module, label


def _of_lens(plan: Plan, stack: Stack, labels: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield names of TransformerLens, and labels: of decoders, of encoders as BERT is, and of
    encoder-decoders as T5 is, whose norms stand before each sublayer."""
    ends = [op.label for op in _ends(plan)]
    late = any(end.endswith(".norm") for end in ends)  # norms behind the residual
    if late and stack:
        return
    embedded = [label for label in labels if label.partition(".")[0] == "embedding"]
    yield from (("hook_full_embed", one) for one in embedded[-1:] if late)
    if not stack and not late:
        first = "embedding.scaled" if "embedding.scaled" in labels else "embedding"
        yield "hook_embed", first
    of_layers: dict[int, dict[str, str]] = {}
    for label in labels:
        if match := _LAYER.fullmatch(label):
            of_layers.setdefault(int(match[1]), {})[match[2]] = label
    before = embedded[-1] if embedded else ""
    widths = {op.label: plan.tensors[op.outputs[0]].shape[1] for op in plan.ops}
    has_streams = widths.get(before) != widths[ends[0]]  # beside the residual one
    for layer, own in sorted(of_layers.items()):
        at, table = f"{stack or 'blocks'}.{layer}.", {**_LENS, **_LENS_OF_CROSS}
        if not own.keys() & set(_biased("feed_forward.gate")):
            del table["mlp.hook_pre_linear"]
        if _is_parallel(plan, own):
            del table["hook_resid_mid"]
        for name, candidates in table.items():
            label = next((own[one] for one in candidates if one in own), "")
            of_decoder = stack == "encoder" and label and _CROSS.match(label)
            yield f"decoder.{layer}.{name}" if of_decoder else at + name, label
        if layer < len(ends) and not has_streams:
            yield at + "hook_resid_pre", before
            before = ends[layer]
            if late:
                yield at + "hook_resid_post", own.get("feed_forward.residual", "")
                yield at + "hook_normalized_resid_post", before
            else:
                yield at + "hook_resid_post", before


def _is_parallel(plan: Plan, own: Mapping[str, str]) -> bool:
    """Return whether attention and the feed-forward of a layer read the same: the stream between
    them is then nothing that others have."""
    by_label = {op.label: op for op in plan.ops}
    middle = by_label.get(own.get("attention.residual", ""))
    if middle is None:
        return False
    readers = [op.label for op in plan.ops if middle.outputs[0] in op.inputs]
    return readers == [own.get("feed_forward.residual")]
