"""A whole model whose heads have sinks, on every executor: its logits and its maps."""

from functools import partial

import numpy as np
import pytest

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.generation.session import Session
from llm_lite.core.inspect.attention import AttentionSource, head_maps
from llm_lite.core.inspect.lesson.collecting import trace_token
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages.inspecting.lesson import FollowToken
from llm_lite.core.models.blocks import attention_block, decoder_plan, gated_block
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.models.registry import architecture_of
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import chat_pages
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.questions.attention_reader import mean_map
from tests.make_gguf import write_tiny_llama

TOKENS, CONTEXT = 20, 32
OPTIONS = BuildOptions(
    CONTEXT,
    "f32",
    "f32",
    "f32",
    False,
    (Bucket(1, 1), Bucket(8, 8)),
    query_rows=CONTEXT,
    pages=chat_pages(CONTEXT, 8),
)


def _layer(d, x, layer):
    return gated_block(d, attention_block(d, x, layer, sinks="attn_sinks"), layer)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The program with sinks, that without, and weights by the size of the sinks."""
    source = open_source(write_tiny_llama(tmp_path_factory.mktemp("sinks") / "m.gguf", dtype="f32"))
    architecture = architecture_of(source.metadata, source.path)
    config = architecture.config_of(source.metadata, source.tensors, source.path)

    def weights(size):
        rng, more = np.random.default_rng(2), {}
        for layer in range(config.layers):
            values = (rng.normal(size=config.heads) + size).astype("<f4")
            name = f"blk.{layer}.attn_sinks.weight"
            more[name] = TensorData(name, "f32", values.shape, values.view(np.uint8))
        return {**source.tensors, **more}

    plain = architecture.read(source.metadata, source.tensors, source.path).build(OPTIONS)
    graph = partial(decoder_plan, _layer, config, weights(0.0))
    return Model(config.shape, graph, frozenset()).build(OPTIONS), plain, weights


def _run(executor, weights, tokens):
    """Logits, and the maps of all heads of a layer."""
    session = Session(executor, weights)
    logits = [session.prefill(tokens[: TOKENS // 2]).copy()]
    logits += [session.decode(token).copy() for token in tokens[TOKENS // 2 :]]
    source = AttentionSource(executor, session, weights=weights)
    heads = range(source.layers[1].heads)
    maps = np.empty((len(heads), TOKENS, TOKENS), np.float32)
    head_maps(source, 1, heads, maps)
    mean = mean_map(source, 1, range(TOKENS), TOKENS, heads)
    np.testing.assert_allclose(mean, maps.mean(axis=0), atol=1e-6)
    source.close()
    executor.close()
    return np.stack(logits), maps


@pytest.mark.vulkan
@pytest.mark.parametrize("size", [0.0, 5.0, 300.0])
def test_executors_agree_and_rows_lack_the_sinks_share(made, device, size):
    program, _, weights_of = made
    weights, tokens = weights_of(size), np.random.default_rng(3).integers(3, 250, TOKENS).tolist()
    expected, maps = _run(NumpyExecutor(program, weights), weights, tokens)
    for executor in (CpuExecutor(program, weights), VulkanExecutor(device, program, weights)):
        found, own = _run(executor, weights, tokens)
        np.testing.assert_allclose(found, expected, atol=2e-4)
        np.testing.assert_allclose(own, maps, atol=1e-5)
    shares = maps.sum(axis=2)
    assert (shares < 1).all()
    assert shares.max() < 1e-20 if size == 300.0 else shares.min() > 1e-4


def test_sinks_far_below_all_scores_are_none(made):
    program, plain, weights_of = made
    weights, tokens = weights_of(-1e4), list(range(30, 30 + TOKENS))
    found, maps = _run(CpuExecutor(program, weights), weights, tokens)
    expected, all_there = _run(CpuExecutor(plain, weights), weights, tokens)
    assert np.array_equal(found, expected)
    np.testing.assert_allclose(maps, all_there, atol=1e-6)


def test_the_lesson_tells_what_goes_to_no_token(made):
    program, _, weights = made
    held = weights(0.0)
    executor = NumpyExecutor(program, held)
    session = Session(executor, held)
    session.prefill(list(range(3, 3 + TOKENS))[:8])
    source = AttentionSource(executor, session, weights=held)
    for head in range(source.layers[1].heads):
        maps = np.empty((1, 8, 8), np.float32)
        head_maps(source, 1, [head], maps)
        found = trace_token(session, source, FollowToken(7, 1, head)).opened.head
        shares = [score.probability for score in found.scores]
        assert np.abs(np.array(shares) - maps[0, 7]).max() < 1e-6
        assert 0.01 < found.sink < 0.99 and abs(sum(shares) + found.sink - 1) < 1e-5
        bare = [score.unscaled for score in found.scores]
        assert abs(sum(bare) + found.sink_unscaled - 1) < 1e-5
