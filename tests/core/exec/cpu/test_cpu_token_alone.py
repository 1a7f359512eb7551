"""With int8 activations a token gets the same bits in a prompt, decoded alone, beside drafts and in
a shared step. Attention gives the same bits whatever activations are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.formats.gguf_reader import GgufFile, open_gguf
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.processor import emulated_isas
from tests.core.exec.one_op import ISAS, weight
from tests.make_gguf import write_tiny_llama
from tests.pairs import tiered_pairs

BUILDS = [*ISAS, *emulated_isas()]
COUNTS = (2, 3, 5, 8, 9, 16, 33)  # tokens of a step; each takes other paths through a product
MOST = max(COUNTS)
BEFORE = 131  # tokens before them: more than a chunk of positions
CONTEXT = 2 * PAGE
# Levels of each kind, with a zero point, a minimum or neither, one scale for 32 columns or for 16
DTYPES = ("q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q6_k", "iq4_nl", "mxfp4")
CACHES = ("f16", "f32", "i8", "i4")
A32 = 2e-5  # of the largest logit: how far float32 activations of a prompt are from a token alone


def programs(file: GgufFile, *, a8: bool, cache: str) -> tuple[Program, Program]:
    """Of plain steps, and of shared ones."""
    model = read_model(file.metadata, file.tensors, file.path)
    plain = (Bucket(1, 1), Bucket(MOST, MOST))
    pages = PageShape(pages=4, segments=MOST, context=CONTEXT)
    types = (cache, cache, "f16", a8)
    return (
        model.build(BuildOptions(CONTEXT, *types, plain)),
        model.build(BuildOptions(CONTEXT, *types, (Bucket(MOST, MOST),), pages=pages)),
    )


def tokens_of(count: int) -> NDArray[np.int32]:
    return np.random.default_rng(3).integers(0, 300, count).astype(np.int32)


def in_chunks(cpu: CpuExecutor, tokens: NDArray[np.int32]) -> None:
    for start in range(0, len(tokens), MOST):
        some = tokens[start : start + MOST]
        cpu.run(Step(some, start, 0))


def alone(cpu: CpuExecutor, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
    rows = [cpu.run(Step(tokens[i : i + 1], i, 1))[0] for i in range(BEFORE, len(tokens))]
    return np.stack(rows)


@tiered_pairs("isa, dtype, cache", BUILDS, DTYPES, CACHES)
def test_a_token_of_a_step_has_the_bits_that_it_has_alone(
    isa: str, dtype: str, cache: str, tmp_path: Path
) -> None:
    path = write_tiny_llama(tmp_path / "m.gguf", dtype=dtype, width=256, ffn=512)
    tokens = tokens_of(BEFORE + MOST)
    with open_gguf(path) as file:
        plain, shared = (
            CpuExecutor(program, file.tensors, 2, isa=isa)
            for program in programs(file, a8=True, cache=cache)
        )
        in_chunks(plain, tokens[:BEFORE])
        expected = alone(plain, tokens)
        for count in COUNTS:
            some = tokens[BEFORE : BEFORE + count]
            found = plain.run(Step(some, BEFORE, count))
            np.testing.assert_array_equal(found, expected[:count], f"{count} tokens")
        pages = [np.array(own, np.int32) for own in ((3, 1), (0, 2))]
        for first in range(0, BEFORE, MOST):
            some = tokens[first : min(first + MOST, BEFORE)]
            shared.run(Step(some, 0, 0, (Segment(first, len(some), 0, pages[0]),)))
        for count in COUNTS:  # as drafts are verified
            some = tokens[BEFORE : BEFORE + count]
            parts = tuple(Segment(BEFORE + i, 1, 1, pages[0]) for i in range(count))
            found = shared.run(Step(some, 0, count, parts))
            np.testing.assert_array_equal(found, expected[:count], f"{count} segments")
        both = np.concatenate([tokens[BEFORE : BEFORE + 9], tokens[:7]])
        parts = (Segment(BEFORE, 9, 9, pages[0]), Segment(0, 7, 7, pages[1]))
        np.testing.assert_array_equal(shared.run(Step(both, 0, 16, parts))[:9], expected[:9])
        plain.close()
        shared.close()


@pytest.mark.parametrize("dtype", ["f16", "q4_0", "q8_0"])
@pytest.mark.parametrize("isa", BUILDS)
def test_float32_activations_are_close_to_those_of_a_token_alone(
    isa: str, dtype: str, tmp_path: Path
) -> None:
    tokens = tokens_of(BEFORE + MOST)
    with open_gguf(write_tiny_llama(tmp_path / "m.gguf", dtype=dtype)) as file:
        cpu = CpuExecutor(programs(file, a8=False, cache="f32")[0], file.tensors, 2, isa=isa)
        in_chunks(cpu, tokens[:BEFORE])
        expected = alone(cpu, tokens)
        for count in COUNTS:
            found = cpu.run(Step(tokens[BEFORE : BEFORE + count], BEFORE, count))
            assert np.abs(found - expected[:count]).max() <= A32 * np.abs(expected).max()
        cpu.close()


HEADS = ((1, 1, 1), (9, 3, 64), (4, 2, 13), (2, 1, 127), (32, 4, 8), (36, 4, 6), (4, 2, 80))
TYPES = (*((own, own) for own in CACHES), ("i4", "f16"), ("f16", "i8"))
# Window, and rows of the ring; positions from which on 20 tokens are attended to: in the first
# chunk, across the ends of chunks and of parts, in parts of two chunks, behind the end of a ring
RINGS = ((0, 2600), (70, 110), (1300, 1600))
STARTS = (0, 100, 120, 250, 2040, 2290)
LAST = STARTS[-1] + 20


@tiered_pairs("isa, shape, types, rings, threads", BUILDS, HEADS, TYPES, RINGS, (1, 2, 5))
def test_attention_of_a_token_has_the_bits_that_it_has_alone(
    isa: str,
    shape: tuple[int, int, int],
    types: tuple[str, str],
    rings: tuple[int, int],
    threads: int,
) -> None:
    (heads, kv_heads, head_dim), (window, rows) = shape, rings
    if head_dim % max(WHOLE_WORDS.get(dtype, 1) for dtype in types):
        pytest.skip(f"heads of {head_dim} have no such cache")
    random = np.random.default_rng(1)
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "window": window}
    widths = {"q": heads * head_dim, "k": kv_heads * head_dim, "v": kv_heads * head_dim}
    weights = {n: weight(n, "f32", random.normal(0, 1, (LAST, c))) for n, c in widths.items()}
    plans = []
    for bucket in (Bucket(1, 1), Bucket(20, 20)):
        b = PlanBuilder(weights, bucket, integer_activations=False)
        q, k, v = (b.embed(b.weight(name), f"{name}.rows") for name in "qkv")
        caches = [
            b.state(name, dtype, (rows, kv_heads * head_dim), block=head_dim)
            for name, dtype in zip(("k_cache", "v_cache"), types, strict=True)
        ]
        b.store([(k, caches[0]), (v, caches[1])], "store")
        gains = b.state("gains", "f32", (1, heads), fill=0.5)
        y = b.attention(q, *caches, gains, "y", layer=0, scale=head_dim**-0.5, **sizes)
        plans.append(b.finish(b.output_rows(y, "rows")))
    cpu = CpuExecutor(Program(tuple(plans), LAST, heads * head_dim), weights, threads, isa=isa)
    positions = np.arange(LAST, dtype=np.int32)
    for first in range(0, LAST, 20):
        some = positions[first : first + 20]
        found = cpu.run(Step(some, first, len(some)))
        if not any(start <= first < start + 40 for start in STARTS):
            continue
        for row, position in zip(found, some, strict=True):
            own = cpu.run(Step(np.array([position], np.int32), int(position), 1))[0]
            np.testing.assert_array_equal(row, own, f"position {position}")
    cpu.close()
