"""Activations of a model beside what hooks on transformers' modules found
(tests/fixtures/make_activations.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.runner_replay import sites_of_runner
from llm_lite.core.questions.sites import Site
from tests import (
    encoder_checks,
    encoder_families,
    families,
    family_checks,
    seq2seq_checks,
    seq2seq_families,
)
from tests.activation_cases import (
    ENCODERS,
    FAMILIES,
    GEMMA3N,
    POSITIONS,
    SEQ2SEQ,
    SMOLLM2_TOKENS,
)
from tests.asking import asked
from tests.make_huggingface import GEMMA3N_CASES, write_tiny_gemma3n
from tests.paths import FIXTURES
from tests.runners import exact, running

Rows = Mapping[str, np.ndarray]
TOLERANCE = 1e-3  # of the largest value
TINY = tuple(
    f"{family}.{case}"
    for group in (FAMILIES, {"gemma3n": GEMMA3N[:1]}, ENCODERS, SEQ2SEQ)
    for family, cases in group.items()
    for case in cases
)
_LAYER = re.compile(r"\.(\d+)(?=\.|:|$)")
_OF_LENS = re.compile(r"(?:blocks|encoder|decoder)\.(\d+)\.((?:\w+\.)?hook_\w+)")


@cache
def hooks(name: str) -> Rows:
    """By the name of a module what it makes of the tokens at POSITIONS, float32 [2, columns]."""
    with np.load(FIXTURES / "activations.npz") as arrays:
        columns, values = json.loads(str(arrays[f"{name}.names"])), arrays[f"{name}.values"]
    found, at = {}, 0
    for module, width in columns.items():
        found[module] = values[at : at + 2 * width].reshape(2, width)
        at += 2 * width
    assert at == len(values)
    return found


@contextmanager
def reading(name: str, backend: str, folder: Path, device: Any) -> Iterator[Any]:
    """A runner that has read the tokens of a stored model, which is written into a folder, or to a
    GGUF file of this name."""
    family, _, case = name.partition(".")
    if family in ENCODERS:
        of_encoder = encoder_families.family_of(family)
        path = encoder_checks.write_case(of_encoder, case, folder)
        runner = encoder_checks.started(path, backend, device)
        try:
            runner.session.hidden(encoder_checks.stored(family, case)["tokens"].tolist())
            yield runner
        finally:
            runner.close()
            runner.model_file.close()
    elif family in SEQ2SEQ:
        known = seq2seq_checks.stored(family, case)
        path = seq2seq_checks.write_case(seq2seq_families.family_of(family), case, folder)
        with running(path, exact(backend), device=device) as runner:
            runner.read_source(known["source"].tolist())
            runner.session.prefill(known["target"].tolist())
            yield runner
    else:
        tokens, context = list(GEMMA3N[1]), 0
        if family == "gemma3n":
            path = write_tiny_gemma3n(folder, **GEMMA3N_CASES[case])
        else:
            of = families.family_of(family)
            path, context = folder, of.context.get(case, 0)
            if folder.suffix == ".gguf":
                family_checks.write_gguf(of, case, path)
            else:
                path = family_checks.write_case(of, case, folder)
            tokens = family_checks.reference(of, case).tokens
        options = exact(backend, context=context, whole_caches=True)
        with running(path, options, device=device) as runner:
            runner.session.prefill(tokens)
            yield runner


def differences(name: str, runner: Any) -> tuple[dict[str, float], list[str]]:
    """By alias the largest difference to what its hook found, of the largest value there; and the
    aliases, of layers that are stored, that no hook is known for."""
    sites = sites_of_runner(runner)
    made = asked(ReadActivations(tuple(site.name for site in sites)), runner).values
    rows = {site: made[site.name][list(POSITIONS)] for site in sites}
    known, found, unknown = _Hooks(name, sites), {}, []
    for site in sites:
        for alias in site.aliases:
            if not known.has_layer(alias):
                continue
            expected = known.of(alias, site)
            if expected is None or expected.shape != rows[site].shape:
                unknown.append(alias)
            else:
                scale = np.abs(expected).max()
                largest = float(np.abs(rows[site] - expected).max() / scale)
                found[alias] = max(largest, found.get(alias, 0.0))  # of each site of this name
    return found, unknown


def smollm2_differences(
    path: Path, backend: str, device: Any
) -> tuple[dict[str, float], list[str]]:
    with running(path, exact(backend, context=256), device=device) as runner:
        runner.session.prefill(SMOLLM2_TOKENS)
        return differences("smollm2", runner)


class _Hooks:
    """What hooks found, by the names of aliases."""

    def __init__(self, name: str, sites: tuple[Site, ...]) -> None:
        self._family, _, self._case = name.partition(".")
        self._found = hooks(name)
        self._aliases = {alias for site in sites for alias in site.aliases}
        self._late = any("hook_normalized" in alias for alias in self._aliases)
        matches = [(one, _LAYER.search(one)) for one in self._found]
        stems = {(one[: m.start()], int(m[1])) for one, m in matches if m}
        self._stems = {
            (stem, number) for stem, number in stems if not stem.split(".")[-1].startswith("altup")
        }
        self._renamed = _stand_ins(self._family, self._case)

    def has_layer(self, alias: str) -> bool:
        """Whether the layer is one of those that are stored."""
        match = _LAYER.search(alias)
        if match is None:
            return True
        stacks = {"encoder", "decoder"} & set(alias.split(".")[:2])
        of_stack = [one for one in self._stems if stacks <= set(one[0].split("."))]
        return int(match[1]) in {number for _, number in of_stack}

    def of(self, alias: str, site: Site) -> np.ndarray | None:
        own = _OF_LENS.fullmatch(alias)
        if own:
            return self._of_lens(self._stem(alias, int(own[1])), own[2], site)
        if alias in ("hook_embed", "hook_full_embed"):
            return self._embedded(alias)
        for plain in ("", "bert.", "roberta.", "distilbert."):
            name = self._renamed(plain + alias)
            if name in self._found:
                return self._found[name]
        # Where the model was run without a head, its names lack the first part.
        return self._found.get(alias.partition(".")[2])

    def _stem(self, alias: str, number: int) -> str:
        """The module of a layer, of a name of TransformerLens."""
        stack = alias.partition(".")[0]
        stems = [stem for stem, n in self._stems if n == number]
        if stack in ("encoder", "decoder"):
            stems = [stem for stem in stems if stem.startswith(stack)]
        return f"{min(stems, key=len)}.{number}"

    def _first(self, at: str, *names: str) -> np.ndarray | None:
        return next((self._found[f"{at}{n}"] for n in names if f"{at}{n}" in self._found), None)

    def _embedded(self, alias: str) -> np.ndarray | None:
        at = f"{min((stem for stem, n in self._stems if n == 0), key=len)}.0"
        if alias == "hook_full_embed" or "granite" in self._family:  # scaled behind the module
            return self._found.get(f"{at}:input")
        if self._family == "muse_glimmer":  # the module norms them, too
            family = families.family_of(self._family)
            known = family_checks.reference(family, self._case)
            table = "model.language_model.embed_tokens.weight"
            rows = family.values(table, known.shapes[table], self._case)
            return rows[[known.tokens[at] for at in POSITIONS]]
        names = ("embed_tokens", "wte", "embed_in", "word_embeddings")
        return next((v for n, v in self._found.items() if n.rpartition(".")[2] in names), None)

    def _of_lens(self, at: str, end: str, site: Site) -> np.ndarray | None:
        if self._late and end in _OF_LATE:
            return self._first(at, *_OF_LATE[end])
        if f"{at}.pre_feedforward_layernorm" in self._found and end in _BETWEEN_NORMS:
            return self._first(at, *_BETWEEN_NORMS[end])
        if f"{at}.post_feedforward_layernorm" in self._found and end in _NORMED_BEHIND:
            return self._first(at, *_NORMED_BEHIND[end])
        if "granite" in self._family and end in ("hook_attn_out", "hook_mlp_out"):  # scaled
            middle = self._found[f"{at}.post_attention_layernorm:input"]
            if end == "hook_attn_out":
                return middle - self._found[f"{at}:input"]
            return self._found[at] - middle
        found = self._first(at, *_PLAIN.get(end, ()))
        return self._part(at, end, site) if found is None else found

    def _part(self, at: str, end: str, site: Site) -> np.ndarray | None:
        """The columns of a matrix that makes several at once."""
        both = self._found.get(f"{at}.mlp.gate_up_proj")
        if end in ("mlp.hook_pre", "mlp.hook_pre_linear") and both is not None:
            return both[:, : site.columns] if end == "mlp.hook_pre" else both[:, -site.columns :]
        if end not in _FUSED:
            return None
        part = _FUSED.index(end)
        for name in ("attention.query_key_value", "self_attention.query_key_value"):
            if (of_heads := self._found.get(f"{at}.{name}")) is not None:
                heads = families.family_of(self._family).common(self._case)["num_attention_heads"]
                return of_heads.reshape(2, heads, 3, -1)[:, :, part].reshape(2, -1)
        whole = self._first(at, ".attn.c_attn", ".self_attn.qkv_proj")
        if whole is None:
            return None
        first = 0 if part == 0 else whole.shape[1] - (3 - part) * site.columns
        return whole[:, first : first + site.columns]


_FUSED = ("attn.hook_q", "attn.hook_k", "attn.hook_v")
# What a place of TransformerLens is among modules of transformers, in a layer: the first that there
# is.
_NORM = ".post_attention_layernorm"
_PLAIN: Mapping[str, tuple[str, ...]] = {
    "hook_resid_pre": (":input",),
    "hook_resid_post": ("",),
    "hook_resid_mid": (
        *(f"{_NORM}:input", ".ffn_norm:input", ".ln_2:input"),
        *(".layer.1.layer_norm:input",),
    ),
    "hook_resid_mid_cross": (".layer.2.layer_norm:input",),
    "attn.hook_q": (
        *(".self_attn.q_norm:input", ".self_attn.q_proj", ".attention.self.query"),
        *(".attention.q_lin", ".layer.0.SelfAttention.q"),
    ),
    "attn.hook_k": (
        *(".self_attn.k_proj", ".attention.self.key"),
        *(".attention.k_lin", ".layer.0.SelfAttention.k"),
    ),
    "attn.hook_v": (
        *(".self_attn.v_proj", ".attention.self.value"),
        *(".attention.v_lin", ".layer.0.SelfAttention.v"),
    ),
    "attn.hook_rot_q": (
        *(".self_attn.query_layernorm:input", ".self_attn:query", ".attention:query"),
    ),
    "attn.hook_rot_k": (".self_attn.key_layernorm:input", ".self_attn:key", ".attention:key"),
    "attn.hook_z": (
        *(".self_attn:heads", ".attention:heads", ".attention.self:heads", ".attn:heads"),
        *(".layer.0.SelfAttention:heads", ".self_attention.dense:input", ".attn.c_proj:input"),
    ),
    "hook_attn_out": (
        *(".post_self_attn_layernorm", ".self_attention.dense", ".attention.output.dense"),
        *(".self_attn", ".attention", ".attn", ".layer.0.SelfAttention"),
    ),
    "mlp.hook_pre": (
        *(".mlp.gate_proj", ".mlp.c_fc", ".mlp.dense_h_to_4h", ".feed_forward.w1"),
        *(".intermediate.dense", ".ffn.lin1", ".layer.1.DenseReluDense.wi_0"),
        *(".layer.2.DenseReluDense.wi_0", ".layer.1.DenseReluDense.wi"),
        *(".layer.2.DenseReluDense.wi",),
    ),
    "mlp.hook_pre_linear": (
        *(".mlp.up_proj", ".feed_forward.w3", ".layer.1.DenseReluDense.wi_1"),
        *(".layer.2.DenseReluDense.wi_1",),
    ),
    "mlp.hook_post": (
        *(".mlp.down_proj:input", ".mlp.c_proj:input", ".mlp.dense_4h_to_h:input"),
        *(".feed_forward.w2:input", ".output.dense:input", ".ffn.lin2:input"),
        *(".layer.1.DenseReluDense.wo:input", ".layer.2.DenseReluDense.wo:input"),
    ),
    "hook_mlp_out": (
        *(".post_mlp_layernorm", ".mlp.dense_4h_to_h", ".output.dense", ".mlp"),
        *(".feed_forward", ".ffn", ".layer.1.DenseReluDense", ".layer.2.DenseReluDense"),
    ),
    "cross_attn.hook_q": (".layer.1.EncDecAttention.q",),
    "cross_attn.hook_k": (".layer.1.EncDecAttention.k",),
    "cross_attn.hook_v": (".layer.1.EncDecAttention.v",),
    "cross_attn.hook_z": (".layer.1.EncDecAttention:heads",),
    "hook_cross_attn_out": (".layer.1.EncDecAttention",),
}
_OF_LATE: Mapping[str, tuple[str, ...]] = {  # norms stand behind the residual
    "hook_resid_mid": (
        *(".attention.output.LayerNorm:input", ".sa_layer_norm:input", ".ln_1:input"),
    ),
    "hook_resid_post": (*(".output.LayerNorm:input", ".output_layer_norm:input", ".ln_2:input"),),
    "hook_normalized_resid_post": ("",),
}
_BETWEEN_NORMS: Mapping[str, tuple[str, ...]] = {  # before and behind each sublayer
    "hook_resid_mid": (".pre_feedforward_layernorm:input",),
    "hook_attn_out": (_NORM,),
    "hook_mlp_out": (".post_feedforward_layernorm",),
}
_NORMED_BEHIND = {**_BETWEEN_NORMS, "hook_resid_mid": (".mlp:input",)}


@cache
def _stand_ins(family: str, case: str) -> Callable[[str], str]:
    """What a module of a family is called in the model that stands in for it: where tensors of
    both are equal, so are the modules that have them, and those around these."""
    of = families.family_of(family) if family in FAMILIES else None
    if of is None or of.stand_in is None:
        return lambda name: name
    shapes = family_checks.reference(of, case).shapes
    own = {name: of.values(name, shape, case) for name, shape in shapes.items()}
    others = of.stand_in.tensors(own, of.raw(case))
    found: dict[str, str] = {}
    for name, values in own.items():
        equal = [n for n, v in others.items() if v.shape == values.shape and (v == values).all()]
        if len(equal) == 1:
            mine, other = name.split(".")[:-1], equal[0].split(".")[:-1]
            for count in range(min(len(mine), len(other))):
                found.setdefault(
                    ".".join(mine[: len(mine) - count]), ".".join(other[: len(other) - count])
                )
    return lambda name: found.get(name, name)
