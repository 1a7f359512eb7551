"""Steps that several sequences share, on the software driver: against the definition, and each
sequence beside others against itself alone, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.formats.gguf.reader import open_gguf
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from tests.make_gguf import write_tiny_llama

pytestmark = pytest.mark.vulkan

PAGES = PageShape(pages=9, segments=4, context=2 * PAGE)
PLAIN = Tuning(attention_lanes=16, share_heads=True)
WAYS = {
    "vectors": Tuning(vector_tokens=4),
    "own": replace(PLAIN, share_heads=False),
    "shared": replace(PLAIN, subgroups=True),
    "split": replace(PLAIN, attention_splits=4, attention_share=32, tile_lanes=16),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = write_tiny_llama(tmp_path_factory.mktemp("model") / "tiny.gguf", context=512)
    file = open_gguf(path)
    return read_model(file.metadata, file.tensors, path), file.tensors


def program(model, pages=PAGES, *, kv="f32", integer=False, sizes=(1, 8, 48)):
    buckets = tuple(Bucket(size, size) for size in sizes)
    context = 2 * PAGE
    return model.build(BuildOptions(context, kv, kv, "f32", integer, buckets, 256, pages=pages))


class Mix:
    """Sequences of random tokens in pages of their own, and steps of some tokens of several."""

    def __init__(self, lengths, seed=0, pages=PAGES):
        self.random = np.random.default_rng(seed)
        self.tokens = [self.random.integers(0, 32, n).astype(np.int32) for n in lengths]
        free = self.random.permutation(pages.pages).astype(np.int32)
        needed = [-(-n // PAGE) for n in lengths]
        self.pages = np.split(free[: sum(needed)], np.cumsum(needed)[:-1])

    def step(self, *parts):
        """Of parts (sequence, first token, count), all with logits."""
        segments = tuple(Segment(at, count, count, self.pages[i]) for i, at, count in parts)
        tokens = np.concatenate([self.tokens[i][at : at + count] for i, at, count in parts])
        return Step(tokens, 0, len(tokens), segments)

    def chunks(self, sizes):
        """By sequence, its parts: of one or a few tokens, or many, as `sizes` has them."""
        found = []
        for number, tokens in enumerate(self.tokens):
            own, at = [], 0
            while at < len(tokens):
                count = min(int(self.random.choice(sizes)), len(tokens) - at)
                own.append((number, at, count))
                at += count
            found.append(own)
        return found

    def together(self, chunks, most):
        """Steps of parts in random company, each with at most `most` tokens."""
        waiting = [list(own) for own in chunks]
        while any(waiting):
            step, room = [], most
            for i in self.random.permutation(len(waiting)):
                if waiting[i] and self.random.random() < 0.8 and waiting[i][0][2] <= room:
                    room -= waiting[i][0][2]
                    step.append(waiting[i].pop(0))
            if step:
                yield step


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kv", "integer"), [("f32", False), ("f16", False), ("i8", True)])
def test_shared_steps_are_as_defined(make_vulkan, model, way, kv, integer):
    description, tensors = model
    built = program(description, kv=kv, integer=integer)
    executor = make_vulkan(built, tensors, tuning=WAYS[way])
    reference = NumpyExecutor(built, tensors)
    mix = Mix((140, 150, 3, 60))
    for parts in mix.together(mix.chunks((1, 3, 40)), 48):
        step = mix.step(*parts)
        assert compare(reference, executor, step) is None
    step = mix.step((0, 139, 1), (3, 20, 5), (1, 130, 20))
    expected = reference.run(step)
    np.testing.assert_allclose(executor.run(step), expected, atol=2e-3 if kv == "f32" else 5e-2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("integer", [False, True])
def test_the_same_bits_alone_and_together(make_vulkan, model, way, integer):
    description, tensors = model
    executor = make_vulkan(program(description, integer=integer), tensors, tuning=WAYS[way])
    mix = Mix((180, 150, 40, 60), seed=1)
    chunks = mix.chunks((1, 1, 5, 30))
    alone = {part: executor.run(mix.step(part)) for own in chunks for part in own}
    for parts in mix.together(chunks, 48):
        found, at = executor.run(mix.step(*parts)), 0
        for part in parts:
            assert np.array_equal(found[at : at + part[2]], alone[part]), (part, parts)
            at += part[2]
