"""Sites: the places of a model that can be read, by name.

A site is what an op makes for each token, and its name is the op's label in the plan:
`layers.3.attention.heads` are the outputs of layer 3's heads side by side. The names that
TransformerLens (hook_points.py) and modules of Hugging Face's models have for the same place are
aliases.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.plan.plan import Plan

_ROUNDED = ".a8"  # the int8 copy of what the op before made
# By the end of a site's name: in TransformerLens behind "blocks.L.", in Hugging Face's modules
# behind "model.layers.L.". Several may stand for one; those that a model lacks are no aliases.
_LENS = {
    "ln1.hook_normalized": "attention.norm",
    "attn.hook_q": "attention.q",
    "attn.hook_k": "attention.k",
    "attn.hook_v": "attention.v",
    "attn.hook_rot_q": "attention.q_rope",
    "attn.hook_rot_k": "attention.k_rope",
    "attn.hook_z": "attention.heads",
    "hook_attn_out": "attention.output",
    "hook_resid_mid": "attention.residual",
    "ln2.hook_normalized": "feed_forward.norm",
    "mlp.hook_pre": "feed_forward.gate",
    "mlp.hook_pre_linear": "feed_forward.up",
    "mlp.hook_post": "feed_forward.silu_mul",
    "hook_mlp_out": "feed_forward.down",
}
_MODULES = {
    "input_layernorm": "attention.norm",
    "self_attn.q_proj": "attention.q",
    "self_attn.k_proj": "attention.k",
    "self_attn.v_proj": "attention.v",
    "self_attn.o_proj": "attention.output",
    "self_attn": "attention.output",
    "post_attention_layernorm": "feed_forward.norm",
    "mlp.gate_proj": "feed_forward.gate",
    "mlp.up_proj": "feed_forward.up",
    "mlp.down_proj": "feed_forward.down",
    "mlp": "feed_forward.down",
}
_WHOLE = {
    "embedding": ("hook_embed", "model.embed_tokens"),
    "output.norm": ("ln_final.hook_normalized", "model.norm"),
    "logits": ("lm_head",),
}
_LAYER = re.compile(r"layers\.(\d+)\.(.+)")


class Site(Struct, frozen=True):
    """A place of a plan: what its op `index` makes, [tokens, columns]."""

    name: str
    index: int
    columns: int
    aliases: tuple[str, ...] = ()


def sites_of(plan: Plan) -> tuple[Site, ...]:
    """Return the sites of a plan, in the order of its ops."""
    found, aliases = [], _aliases(plan)
    for index, op in enumerate(plan.ops):
        if op.label.endswith(_ROUNDED) or op.name in ("store", "output_rows"):
            continue
        columns = plan.tensors[op.outputs[0]].shape[1]
        found.append(Site(op.label, index, columns, aliases.get(op.label, ())))
    return tuple(found)


def site_of(plan: Plan, name: str) -> Site:
    """Return the site of this name or alias. RequestError that names the closest where there is
    none."""
    known = _by_name(tuple(sites_of(plan)))
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 1, 0.0)
    raise RequestError(f"the model has no site {name[:80]!r}: did you mean {close[0]}?")


@cache
def _by_name(sites: tuple[Site, ...]) -> Mapping[str, Site]:
    return {name: site for site in reversed(sites) for name in (*site.aliases, site.name)}


def _aliases(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return by the site's name what else it is called."""
    found: dict[str, list[str]] = {name: list(others) for name, others in _WHOLE.items()}
    for op in plan.ops:
        if match := _LAYER.fullmatch(op.label):
            layer, place = match.groups()
            names = found.setdefault(op.label, [])
            names += [f"blocks.{layer}.{one}" for one, own in _LENS.items() if own == place]
            names += [
                f"model.layers.{layer}.{one}" for one, own in _MODULES.items() if own == place
            ]
    input_of = "embedding"
    for layer, end in enumerate(plan.layer_ends):
        found.setdefault(input_of, []).append(f"blocks.{layer}.hook_resid_pre")
        input_of = plan.ops[end].label
        names = found.setdefault(input_of, [])
        names += [f"blocks.{layer}.hook_resid_post", f"model.layers.{layer}"]
    return {name: tuple(others) for name, others in found.items()}
