"""What a step reads: weights once, rows of what is looked up, caches as far as reached."""

import numpy as np
import pytest

from llm_lite.core.loading.runner import Runner
from llm_lite.core.plan.plan import Plan
from llm_lite.core.plan.step import Step
from llm_lite.core.plan.traffic import op_read_bytes, token_read_bytes
from tests.core.inspect.tiny_stack import DECODER, HEAD_DIM, HEADS, KV_HEADS, TinyStack
from tests.make_gguf import write_tiny_llama as write_tiny_gguf
from tests.make_huggingface import write_tiny_gemma3n, write_tiny_llama
from tests.runners import exact, running


def plan_of(runner: Runner) -> Plan:
    return runner.executor.program.plans[0]


@pytest.mark.parametrize("tied", [True, False])
def test_a_token_reads_a_row_of_what_it_looks_up(tied, tmp_path):
    """Products read their weights whole, the embedding too where it is the head."""
    folder = write_tiny_llama(tmp_path, tie_word_embeddings=tied)
    with running(folder, exact("cpu")) as runner:
        tensors = runner.model_file.file.tensors
        embedding = tensors["token_embd.weight"]
        row = embedding.nbytes // embedding.shape[0]
        whole = sum(t.nbytes for t in tensors.values())
        unread = 0 if tied else embedding.nbytes - row
        assert token_read_bytes(plan_of(runner), 0) == whole - unread


def test_a_gemma_reads_a_row_of_its_table_and_a_window_of_its_rings(tmp_path):
    folder = write_tiny_gemma3n(tmp_path)
    with running(folder, exact("cpu", keys="fp16", values="fp32")) as runner:
        tensors = runner.model_file.file.tensors
        table = tensors["per_layer_token_embd.weight"]
        weights = sum(t.nbytes for t in tensors.values()) - table.nbytes
        weights += table.nbytes // table.shape[0]
        assert token_read_bytes(plan_of(runner), 0) == weights
        kv = runner.model_info.kv_heads * runner.model_info.head_dim
        windows = [layer.window or 30 for layer in runner.model_info.cache.layers]
        assert sorted(windows) == [7, 7, 7, 30]
        assert token_read_bytes(plan_of(runner), 30) == weights + sum(windows) * kv * (2 + 4)


@pytest.mark.parametrize("mode", ["fp32", "int8"])
def test_a_token_reads_what_its_ops_read(mode, tmp_path):
    """Where no two of them share anything."""
    folder = write_tiny_llama(tmp_path, hidden_size=64, head_dim=16, intermediate_size=96)
    with running(folder, exact("cpu", mode=mode)) as runner:
        plan = plan_of(runner)
        step = runner.session.step([1], 30)
        read = sum(op_read_bytes(plan, op, step) for op in plan.ops)
        assert token_read_bytes(plan, step.kv_length) == read


def test_a_row_of_tiles_is_its_share_of_them(tmp_path):
    """A row of int8 is 32 levels and a header of 2 bytes for each block of 32."""
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    with running(path, exact("cpu", mode="int8")) as runner:
        plan = plan_of(runner)
        (embed,) = (op for op in plan.ops if op.name == "embed")
        columns = plan.tensors[embed.inputs[0]].shape[1]
        for tokens in (1, 3):
            step = runner.session.step([1] * tokens, 0)
            assert op_read_bytes(plan, embed, step) == tokens * columns // 32 * 34


def test_cross_attention_reads_as_much_as_its_source_has():
    stack = TinyStack(DECODER, columns=9)
    plan = stack.program.plans[0]
    steps = [Step(np.zeros(1, np.int32), 6, source=source) for source in (3, 20)]
    read = [sum(op_read_bytes(plan, op, step) for op in plan.ops) for step in steps]
    assert read[1] - read[0] == 17 * 2 * 2 * 4 * KV_HEADS * HEAD_DIM  # two layers' keys and values
    shared = 4 * 9 * HEADS  # a bias that two ops read counts once
    assert [token_read_bytes(plan, 7, s.source) + shared for s in steps] == read
    stack.close()
