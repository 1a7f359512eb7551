"""Sites: the places of a model that can be read, by name.

A site is what an op makes for each token, and its name is the op's label in the plan:
`layers.3.attention.heads` are the outputs of layer 3's heads side by side. The names that
TransformerLens (hook_points.py) and modules of Hugging Face's models have for the same place are
aliases.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Op, Plan

_ROUNDED = ".a8"  # the int8 copy of what the op before made


def _biased(place: str) -> tuple[str, str]:
    return f"{place}.biased", place


_MLP = ("feed_forward.sum.shared", "feed_forward.sum", *_biased("feed_forward.down"))
# By the end of a name in TransformerLens (behind "blocks.L.") and of a module of Hugging Face's
# (behind "model.layers.L."), which sites of a layer it may be: the first of them that a model has.
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
    ),
    "hook_mlp_out": ("feed_forward.post_norm", "feed_forward.scaled", *_MLP),
}
_MODULES: dict[str, tuple[str, ...]] = {
    "input_layernorm": ("attention.norm",),
    "self_attn.q_proj": _biased("attention.q"),
    "self_attn.k_proj": _biased("attention.k"),
    "self_attn.v_proj": _biased("attention.v"),
    "self_attn.o_proj": _biased("attention.output"),
    "self_attn": _biased("attention.output"),
    "post_attention_layernorm": ("attention.post_norm", "feed_forward.norm"),
    "mlp.gate_proj": _biased("feed_forward.gate"),
    "mlp.up_proj": _biased("feed_forward.up"),
    "mlp.down_proj": _biased("feed_forward.down"),
    "mlp": ("feed_forward.dense.down", *_MLP),
}
_WHOLE: dict[str, tuple[str, ...]] = {
    "hook_embed": ("embedding.scaled", "embedding"),
    "model.embed_tokens": ("embedding",),
    "model.norm": ("output.norm",),
    "lm_head": ("logits",),
}
_LAYER = re.compile(r"layers\.(\d+)\.(.+)")


class Site(Struct, frozen=True):
    """A place of a plan: what its op `index` makes, [tokens, columns]."""

    name: str
    index: int
    columns: int
    aliases: tuple[str, ...] = ()


def sites_of(plan: Plan) -> tuple[Site, ...]:
    """Return the sites of a plan, in the order of its ops.

    What experts make is none: it stands in the order of the experts, not of the tokens.
    """
    outputs = {
        i: plan.tensors[op.outputs[0]] for i, op in enumerate(plan.ops) if _is_site(plan, op)
    }
    aliases = _aliases(plan, [plan.ops[index].label for index in outputs])
    return tuple(
        Site(label := plan.ops[index].label, index, tensor.shape[1], aliases.get(label, ()))
        for index, tensor in outputs.items()
    )


def _is_site(plan: Plan, op: Op) -> bool:
    if op.label.endswith(_ROUNDED) or op.name in ("store", "output_rows", "expert_places"):
        return False
    return plan.tensors[op.outputs[0]].per_token == 1


def site_of(plan: Plan, name: str) -> Site:
    """Return the site of this name or alias. RequestError that names the closest where there is
    none."""
    return sites_named(plan, (name,))[name]


def sites_named(plan: Plan, names: Iterable[str]) -> dict[str, Site]:
    """Return sites by the names or aliases that are given. RequestError as of `site_of`."""
    sites = reversed(sites_of(plan))
    known = {name: site for site in sites for name in (*site.aliases, site.name)}
    found = {}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name[:80], known, 1, 0.0)
            raise RequestError(f"the model has no site {name[:80]!r}: did you mean {close[0]}?")
        found[name] = known[name]
    return found


def _aliases(plan: Plan, sites: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return by the site's name what else it is called."""
    found: dict[str, list[str]] = {}
    places: dict[str, dict[str, str]] = {}  # by layer, sites by what stands behind it
    for site in sites:
        if match := _LAYER.fullmatch(site):
            places.setdefault(match[1], {})[match[2]] = site
    whole = dict(_WHOLE)
    if "embedding.scaled" in sites:  # by some families' module, and by others behind it
        del whole["model.embed_tokens"]
    _add(found, whole, "", {site: site for site in sites})
    for layer, own in places.items():
        lens, modules = dict(_LENS), dict(_MODULES)
        if not own.keys() & set(_biased("feed_forward.gate")):
            del lens["mlp.hook_pre_linear"]
        if {"attention.post_norm", "feed_forward.norm"} <= own.keys():
            del modules["post_attention_layernorm"]  # either, by the family
        _add(found, lens, f"blocks.{layer}.", own)
        _add(found, modules, f"model.layers.{layer}.", own)
    inputs = [site for site in sites if site.partition(".")[0] == "embedding"]
    input_of = inputs[-1] if inputs else ""
    for layer_number, end in enumerate(plan.layer_ends):
        found.setdefault(input_of, []).append(f"blocks.{layer_number}.hook_resid_pre")
        input_of = plan.ops[end].label
        names = found.setdefault(input_of, [])
        names += [f"blocks.{layer_number}.hook_resid_post", f"model.layers.{layer_number}"]
    return {name: tuple(others) for name, others in found.items()}


def _add(
    found: dict[str, list[str]],
    table: Mapping[str, tuple[str, ...]],
    before: str,
    places: Mapping[str, str],
) -> None:
    """Add the names of a table, with what stands before them, to the sites that they are."""
    for name, candidates in table.items():
        site = next((places[one] for one in candidates if one in places), None)
        if site is not None:
            found.setdefault(site, []).append(before + name)
