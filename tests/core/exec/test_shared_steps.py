"""Steps that several sequences share: each gets the logits that it would get alone."""

import numpy as np
import pytest

from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from tests.make_gguf import write_tiny_llama

PAGES = PageShape(pages=7, segments=3, context=2 * PAGE)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = write_tiny_llama(tmp_path_factory.mktemp("model") / "tiny.gguf", context=512)
    file = open_gguf(path)
    return read_model(file.metadata, file.tensors, path), file.tensors


def program(model, pages=None):
    buckets = (Bucket(1, 1), Bucket(150, 150))
    options = BuildOptions(2 * PAGE, "f32", "f32", "f32", False, buckets, 256, pages=pages)
    return model.build(options)


def alone(executor, tokens, chunks):
    """Logits of all tokens, read in these chunks."""
    done, rows = 0, []
    for count in chunks:
        rows.append(executor.run(Step(tokens[done : done + count], done, count)))
        done += count
    return np.concatenate(rows)


def shared(steps):
    """One step of (tokens, start, outputs, pages)."""
    segments = tuple(
        Segment(start, len(tokens), outputs, np.array(pages, np.int32))
        for tokens, start, outputs, pages in steps
    )
    tokens = np.concatenate([tokens for tokens, *_ in steps])
    return Step(tokens, 0, sum(s.outputs for s in segments), segments)


def test_sequences_in_pages_are_as_alone(model):
    description, tensors = model
    generator = np.random.default_rng(7)
    a, b, c = (generator.integers(0, 32, n).astype(np.int32) for n in (140, 131, 3))
    plain = [
        alone(NumpyExecutor(program(description), tensors), tokens, (len(tokens),))
        for tokens in (a, b, c)
    ]
    executor = NumpyExecutor(program(description, PAGES), tensors)
    of_a, of_b, of_c = [3, 0], [6, 2], [5]
    executor.run(shared([(a[:100], 0, 0, of_a), (b[:20], 0, 0, of_b)]))
    first = executor.run(shared([(b[20:130], 20, 1, of_b), (a[100:139], 100, 2, of_a)]))
    assert np.allclose(first, [plain[1][129], *plain[0][137:139]], atol=1e-4)
    last = executor.run(shared([(a[139:], 139, 1, of_a), (c, 0, 3, of_c), (b[130:], 130, 1, of_b)]))
    assert np.allclose(last, [plain[0][139], *plain[2], plain[1][130]], atol=1e-4)


def test_a_prefix_is_held_once(model):
    description, tensors = model
    generator = np.random.default_rng(8)
    a = generator.integers(0, 32, 140).astype(np.int32)
    b = np.concatenate([a[:PAGE], a[::-1][:5]])
    executor = NumpyExecutor(program(description, PAGES), tensors)
    executor.run(shared([(a, 0, 0, [4, 1])]))
    both = executor.run(shared([(b[PAGE:], PAGE, 5, [4, 2]), (a[139:], 139, 1, [4, 1])]))
    for tokens, found in ((a, both[5:]), (b, both[:5])):
        plain = alone(NumpyExecutor(program(description), tensors), tokens, (len(tokens),))
        assert np.allclose(found, plain[-len(found) :], atol=1e-4)
