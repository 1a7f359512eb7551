"""Shared steps of every family: windows, caps, learned positions, caches that layers share."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import NO_STATE, PAGE, PageShape, Segment, Step
from tests.families import family_of
from tests.family_checks import TOLERANCE, reference, write_case
from tests.make_huggingface import write_tiny_gemma3n
from tests.paths import FIXTURES

NAMES = sorted(path.stem for path in (FIXTURES / "families").glob("*.npz"))
CASES = [(name, case) for name in NAMES for case in family_of(name).cases]
PAGES = PageShape(pages=4, segments=3, context=PAGE, states=3)
# Segments of a step: which sequence, how many of its tokens
STEPS = (((0, 9), (1, 1)), ((1, 1), (2, 20)), ((2, 4), (0, 15), (1, 22)))


def program_of(source, context: int = 0, **types: str) -> Program:
    model = read_model(source.metadata, source.tensors, source.path)
    dtypes = {"k_dtype": "f32", "v_dtype": "f32", "q_dtype": "f32"} | types
    buckets = (Bucket(1, 1), Bucket(64, 64))
    options = BuildOptions(
        context or PAGE,
        integer_activations=False,
        buckets=buckets,
        query_rows=PAGE,
        pages=PAGES,
        **dtypes,
    )
    return model.build(options)


def steps(tokens: list[int]) -> Iterator[tuple[Step, list[int]]]:
    """Each with the positions of its tokens: three sequences, all of the same tokens."""
    done = [0, 0, 0]
    for parts in STEPS:
        segments, positions = [], []
        for sequence, wanted in parts:
            count = min(wanted, len(tokens) - done[sequence])
            if count == 0:
                continue
            page = np.array([3 - sequence], np.int32)
            states = (sequence if done[sequence] else NO_STATE, sequence)
            segments.append(Segment(done[sequence], count, count, page, states=states))
            positions += range(done[sequence], done[sequence] + count)
            done[sequence] += count
        ids = np.array([tokens[p] for p in positions], np.int32)
        yield Step(ids, 0, len(ids), tuple(segments)), positions


@pytest.mark.parametrize("name, case", CASES, ids=[f"{name}: {case}" for name, case in CASES])
def test_logits_are_those_of_transformers(tmp_path: Path, name: str, case: str) -> None:
    family = family_of(name)
    known = reference(family, case)
    source = open_source(write_case(family, case, tmp_path))
    executor = CpuExecutor(program_of(source, family.context.get(case, 0)), source.tensors, 2)
    for step, positions in steps(known.tokens):
        assert np.abs(executor.run(step) - known.logits[positions]).max() < TOLERANCE
    executor.close()


@pytest.mark.parametrize("types", [{}, {"k_dtype": "i8", "v_dtype": "f16"}], ids=["f32", "i8"])
def test_layers_of_gemma3n_share_caches_in_pages(tmp_path: Path, types: dict[str, str]) -> None:
    source = open_source(write_tiny_gemma3n(tmp_path))
    program = program_of(source, **types)
    cpu, numpy = CpuExecutor(program, source.tensors, 2), NumpyExecutor(program, source.tensors)
    for step, _ in steps(list(range(5, 29))):
        assert compare(numpy, cpu, step) is None
    cpu.close()
