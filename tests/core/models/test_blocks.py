"""What decoders share: caches, kept queries, gains and layer ends are wired in one place."""

import ast

import numpy as np
import pytest

from llm_lite.core.models.blocks import cached_attention, residual_stream
from llm_lite.core.models.model import BuildOptions, ModelShape
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.records import replace
from tests.core.models.test_llama import put
from tests.paths import ROOT

SHAPE = ModelShape(3, 4, 2, 8, 32, 64, 11, 512)
OPTIONS = BuildOptions(256, "f16", "i8", "f16", False, (Bucket(1, 1), Bucket(16, 1)), query_rows=48)
WINDOW = 20


def plan_of(options=OPTIONS, *, window=0, shared=None, softcap=0.0, sinks=False):
    """Three layers, of which the last may read the cache of layer `shared`."""
    weights = {}
    put(weights, "embedding", (SHAPE.vocabulary, SHAPE.width))
    put(weights, "kv", (SHAPE.kv_heads * SHAPE.head_dim, SHAPE.width))
    put(weights, "sinks", (SHAPE.heads,))
    b = PlanBuilder(weights, options.buckets[-1], integer_activations=False)

    def layer(x, index):
        at, owner = f"layers.{index}", shared if shared is not None and index == 2 else index
        kv = (
            b.matmul(x, b.weight("kv"), at + ".k"),
            b.matmul(x, b.weight("kv"), at + ".v"),
        )
        y = cached_attention(
            b, SHAPE, options, x, kv if owner == index else None, at,
            layer=index, owner=owner, window=window if index else 0, softcap=softcap,
            sinks=b.weight("sinks") if sinks else None,
        )  # fmt: skip
        return b.add(x, y, at + ".residual")

    x = residual_stream(b, SHAPE, b.embed(b.weight("embedding"), "x"), layer)
    x = b.output_rows(x, "rows")
    return b.finish(b.matmul(x, b.weight("embedding"), "logits"))


@pytest.mark.parametrize("rows", [0, 48])
def test_each_layer_keeps_its_queries_is_weighed_and_ends(rows):
    plan = plan_of(replace(OPTIONS, query_rows=rows))
    layers = attention_layers(plan)
    assert [one.queries for one in layers] == [f"q_ring.{i}" if rows else None for i in range(3)]
    assert [plan.ops[end].label for end in plan.layer_ends] == [
        f"layers.{i}.residual" for i in range(3)
    ]
    gains = {plan.tensors[op.inputs[3]].name for op in plan.ops if op.name == "attention"}
    assert gains == {"head_gains"}


def test_keys_are_stored_before_they_are_read():
    names = [(op.label, op.name) for op in plan_of().ops if op.name in ("store", "attention")]
    assert [name for _, name in names] == ["store", "attention"] * 3


@pytest.mark.parametrize(("whole", "rows"), [(False, WINDOW + 16), (True, 256)])
def test_a_sliding_layer_keeps_what_a_step_may_look_at(whole, rows):
    full, *sliding = cache_layers(plan_of(replace(OPTIONS, whole_caches=whole), window=WINDOW))
    assert full.rows == 256
    assert [one.rows for one in sliding] == [rows, rows]
    assert full.keys.dtype == "f16" and full.values.dtype == "i8"
    assert full.values.block == SHAPE.head_dim


def test_a_layer_reads_the_cache_of_another_and_keeps_its_own_queries():
    plan = plan_of(shared=1)
    assert [(one.layer, one.shared_with) for one in cache_layers(plan)] == [(0, ()), (1, (2,))]
    assert attention_layers(plan)[2].queries == "q_ring.2"


@pytest.mark.parametrize("softcap", [0.0, 50.0])
def test_maps_know_the_cap_of_their_scores(softcap):
    plan = plan_of(softcap=softcap)
    capped = [op.params["softcap"] for op in plan.ops if op.name == "attention"]
    assert capped == [layer.softcap for layer in attention_layers(plan)] == [softcap] * 3


@pytest.mark.parametrize("sinks", [False, True])
def test_maps_know_the_sinks_of_their_heads(sinks):
    values = [0.5, -1.0, 2.0, 0.0]
    layers = attention_layers(plan_of(sinks=sinks), {"sinks": values}.__getitem__)
    assert [layer.sinks for layer in layers] == [tuple(values) if sinks else ()] * 3
    assert layers[0].sink(2) == (2.0 if sinks else -np.inf)


def test_no_definition_wires_this_itself():
    wired = {"state", "store", "attention", "layer_end"}
    for path in (ROOT / "core" / "models").rglob("*.py"):
        if path.name != "blocks.py":
            calls = {
                node.func.attr
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            }
            assert not calls & wired, path.name
