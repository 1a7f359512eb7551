"""Steps that several sequences share: each gets the logits that it would get alone."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.inspect.inspected import SequenceGains
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from tests.make_gguf import write_tiny_llama

PAGES = PageShape(pages=7, segments=3, context=2 * PAGE, slots=3)
LAYERS, HEADS = 2, 4
ABLATED = np.array([[0, 1, 1, 1], [1, 1, 0, 1]], np.float32)
VULKAN = pytest.mark.vulkan


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = write_tiny_llama(tmp_path_factory.mktemp("model") / "tiny.gguf", context=512)
    file = open_gguf(path)
    return read_model(file.metadata, file.tensors, path), file.tensors


def program(model, pages=None):
    buckets = (Bucket(1, 1), Bucket(150, 150))
    options = BuildOptions(2 * PAGE, "f32", "f32", "f32", False, buckets, 256, pages=pages)
    return model.build(options)


def executor_of(request, backend, program, tensors):
    if backend == "vulkan":
        return request.getfixturevalue("make_vulkan")(program, tensors)
    executor = (
        NumpyExecutor(program, tensors) if backend == "numpy" else CpuExecutor(program, tensors, 2)
    )
    request.addfinalizer(executor.close)
    return executor


def alone(executor, tokens, chunks):
    """Logits of all tokens, read in these chunks."""
    done, rows = 0, []
    for count in chunks:
        rows.append(executor.run(Step(tokens[done : done + count], done, count)))
        done += count
    return np.concatenate(rows)


def shared(steps):
    """One step of (tokens, start, outputs, pages), and perhaps a slot."""
    segments = tuple(
        Segment(start, len(tokens), outputs, np.array(pages, np.int32), *slot)
        for tokens, start, outputs, pages, *slot in steps
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


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("vulkan", marks=VULKAN)])
def test_each_sequence_has_the_gains_of_its_slot(request, model, backend):
    """Bit for bit what each gets in a step by itself, whatever gains the others have; and what a
    plain step with these gains has."""
    description, tensors = model
    generator = np.random.default_rng(9)
    tokens = [generator.integers(0, 32, n).astype(np.int32) for n in (9, 5, 9)]
    tokens[2] = tokens[0]  # the same, with other gains
    gains = [None, generator.normal(1, 1, (LAYERS, HEADS)).astype(np.float32), ABLATED]
    executor = executor_of(request, backend, program(description, PAGES), tensors)
    for slot in (1, 2):
        SequenceGains(executor, slot).write(gains[slot])
    parts = [(own, 0, len(own), [page], page) for page, own in enumerate(tokens)]
    together = np.split(executor.run(shared(parts)), np.cumsum([9, 5]))
    for slot, part in enumerate(parts):
        np.testing.assert_array_equal(executor.run(shared([part])), together[slot])
        plain = NumpyExecutor(program(description), tensors)
        if gains[slot] is not None:
            SequenceGains(plain).write(gains[slot])
        expected = alone(plain, tokens[slot], (len(tokens[slot]),))
        assert np.allclose(together[slot], expected, atol=1e-3)
    assert not np.allclose(together[0], together[2], atol=0.01)


def test_a_slot_that_the_plan_has_not_is_refused(request, model):
    description, tensors = model
    executor = executor_of(request, "cpu", program(description, PAGES), tensors)
    for slot in (-1, 3):
        with pytest.raises(RequestError, match=f"slot {slot} of 3"):
            executor.run(shared([(np.array([5], np.int32), 0, 1, [0], slot)]))
