"""Drafts by a slice of the model's own weights: the slice is the model that the reference
implementation makes of cut weights, and leaves no trace in the cache that it shares."""

from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.speculation.slice_source import SliceDraftSource
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.loading import backends
from llm_lite.core.models.description.tensors import KnownShape
from llm_lite.core.models.gemma3n.architecture import GEMMA_3N
from llm_lite.core.models.gemma3n.config import LAUREL, PER_LAYER_TABLE
from llm_lite.core.models.gemma3n.cut import SLICES, Gemma3nCutter
from llm_lite.core.models.model import BuildOptions, Slice
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Kind, tensor_row_bytes
from llm_lite.core.plan.step import chat_pages
from llm_lite.core.plan.traffic import token_read_bytes
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import GREEDY, NO_END, SAMPLED, prompts, state
from tests.make_huggingface import (
    SLICE_SKIP,
    SLICE_SOURCE,
    SLICE_WIDTHS,
    TALL_SLICED,
    write_tall_gemma3n,
    write_tiny_gemma3n,
)
from tests.paths import FIXTURES
from tests.runners import BACKENDS, exact, running
from tests.tiers import thorough

CUT = Slice(SLICE_SKIP, SLICE_WIDTHS)
VERIFIED, MOST = 8, 16  # tokens of a step
BUCKETS = (
    Bucket(1, 1),
    Bucket(1, 1, sliced=True),
    Bucket(VERIFIED, VERIFIED),
    Bucket(MOST, 1),
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_tiny_gemma3n(tmp_path_factory.mktemp("whole") / "source", **SLICE_SOURCE)


@pytest.fixture(scope="module")
def tall(tmp_path_factory):
    """E4B's layers, each tiny: its slice lacks layers 20 to 24 and half of each feed-forward."""
    return write_tall_gemma3n(tmp_path_factory.mktemp("tall") / "source", **TALL_SLICED)


def device_of(backend, request):
    return request.getfixturevalue("device") if backend == "vulkan" else None


def executor_of(runner, cut, *, buckets=BUCKETS, weights=None, model=None):
    """Another executor of the runner's kind, whose program has the slice too."""
    pages = chat_pages(runner.build.context, MOST, segments=VERIFIED)
    build = replace(runner.build, buckets=buckets, draft_slice=cut, pages=pages)
    weights = weights or runner.weights
    program = (model or runner.model).build(build)
    return backends.make_executor(runner.choice, program, weights, 2, lambda _: None)


def logits_of(executor, tokens, *, sliced):
    """Of steps of a token."""
    steps = (Session(executor).step([token], place) for place, token in enumerate(tokens))
    return np.concatenate([executor.run(replace(step, sliced=sliced)) for step in steps])


@pytest.mark.parametrize("backend", BACKENDS)
def test_logits_are_those_of_transformers_with_the_cut_weights(backend, source, request):
    with np.load(FIXTURES / "huggingface_logits.npz") as arrays:
        tokens, expected = arrays["slice.tokens"].tolist(), arrays["slice.logits"]
    with running(source, exact(backend), device=device_of(backend, request)) as runner:
        executor = executor_of(runner, CUT)
        logits = logits_of(executor, tokens, sliced=True)
        whole = logits_of(executor, tokens[:1], sliced=False)
        executor.close()
    assert np.abs(logits - expected).max() < 3e-3  # of one token, whatever cuts the weights
    assert np.abs(whole - expected[:1]).max() > 0.1, "a plain step is of the whole model"


@pytest.mark.parametrize("mode", ["as-stored", "int4"])
@pytest.mark.parametrize("activations", ["a32", "a8"])
def test_bits_are_those_of_a_model_of_cut_weights(mode, activations, tall):
    """Prefixes of packed rows are what a cut of them leaves."""
    with running(tall, exact("cpu", mode=mode, activations=activations)) as runner:
        model, file = runner.model, runner.model_file.file
        cut = model.draft_slice
        assert cut == Slice((20, 21, 22, 23, 24), 256)
        executor = executor_of(runner, cut)
        config = GEMMA_3N.config_of(file.metadata, runner.weights, file.path)
        cutter = Gemma3nCutter(config, cut)
        cuts = [found.whole() for t in runner.weights.values() if (found := cutter.cut(t))]
        weights = {tensor.name: tensor for tensor in cuts}
        small = read_model(cutter.metadata(file.metadata), weights, file.path)
        reference = executor_of(
            runner, None, buckets=(Bucket(1, 1), Bucket(16, 1)), weights=weights, model=small
        )
        assert small.shape.layers == 30
        tokens = np.random.default_rng(1).integers(3, 290, 12).tolist()
        found = logits_of(executor, tokens, sliced=True)
        np.testing.assert_array_equal(found, logits_of(reference, tokens, sliced=False))
        executor.close()
        reference.close()


def keys_by_layer(plan):
    """The cache of keys that each layer's attention reads."""
    heads = [op for op in plan.ops if op.name == "attention"]
    return {int(op.params["layer"]): plan.tensors[op.inputs[1]].name for op in heads}


def test_the_slice_shares_the_caches_of_the_model(tall):
    """Layers behind those left out read the caches that they read in the whole model."""
    with running(tall, exact("cpu", speculate="slice")) as runner:
        program = runner.executor.program
        (sliced,) = [plan for plan in program.plans if plan.sliced]
        assert not program.plans[0].sliced
        whole, read = keys_by_layer(program.plans[0]), keys_by_layer(sliced)
        assert list(read) == [*range(20), *range(25, 35)]
        assert all(keys == whole[layer] for layer, keys in read.items())
        assert {read[layer] for layer in range(25, 35)} == {"k_cache.18", "k_cache.19"}


def added_bytes(program):
    """Bytes of state and of scratch with plans of the slice, and without."""
    plain = [plan for plan in program.plans if not plan.sliced]
    found = []
    for plans in (program.plans, plain):
        states = {t.name: t for p in plans for t in p.tensors if t.kind is Kind.STATE}
        state = sum(t.shape[0] * tensor_row_bytes(t) for t in states.values())
        found.append((state, max(plan.scratch_bytes for plan in plans)))
    return found


def weights_of(plan):
    kinds = (Kind.WEIGHT, Kind.TABLE)
    return {t.name: (t.dtype, t.shape) for t in plan.tensors if t.kind in kinds}


def test_memory_of_a_slice_of_real_size():
    """E4B's weights in int4: nothing is copied or cached twice; a drafted token reads half."""
    path = Path("config.json")
    metadata = GEMMA_3N.metadata_of(CheckpointConfig({"model_type": "gemma3n_text"}, path))
    sizes = {"token_embd.weight": (262_400, 1), PER_LAYER_TABLE: (262_144, 1), LAUREL: (64, 1)}
    shapes = GEMMA_3N.shapes_of(metadata, path, sizes=sizes)
    weights = {
        name: KnownShape(name, "int4" if len(shape) == 2 else "f32", shape)
        for name, shape in shapes
    }
    model = read_model(metadata, weights, path)
    assert model.draft_slice is not None
    assert Slice((20, 21, 22, 23, 24), (8192,) * 30) == SLICES["E2B"]
    assert model.draft_slice.widths(35) == SLICES["E2B"].widths(35)
    build = BuildOptions(
        4096, "f16", "f16", "f16", True, BUCKETS, query_rows=64, draft_slice=model.draft_slice
    )
    program = model.build(build)
    whole, sliced = program.plans[:2]
    with_slice, without = added_bytes(program)
    stored = sum(FORMATS[w.dtype].nbytes(w.shape) for w in weights.values())
    added = sum(with_slice) - sum(without)
    assert added <= 0.05 * stored
    assert with_slice[0] == without[0], "no cache of its own"
    assert weights_of(sliced).items() <= weights_of(whole).items(), "no weight of its own"
    share = token_read_bytes(sliced, 1000) / token_read_bytes(whole, 1000)
    assert 0.5 < share < 0.6


def test_memory_on_an_executor(tall):
    """Weights are the mapped ones, state and arena as large as without a slice."""
    held = []
    for speculate in ("lookup", "slice"):
        with running(tall, exact("cpu", speculate=speculate)) as runner:
            executor = runner.executor
            state = sum(np.asarray(memory).nbytes for memory in executor._state.values())
            addresses = {name: w.data.ctypes.data for name, w in executor._weights.items()}
            own = {name: t.data.ctypes.data for name, t in runner.weights.items()}
            matrices = [n for n, t in runner.weights.items() if len(t.shape) == 2]
            assert all(addresses[name] == own[name] for name in matrices)
            held.append((state, np.asarray(executor._arena).nbytes, executor.weight_bytes))
    assert held[0] == held[1]


def answered(session, prompt, sampling, *, drafts):
    """The choices, without what tells of drafts, and the counts."""
    session.speculation = (
        Speculation((SliceDraftSource(session),), LongestDrafts()) if drafts else None
    )
    session.clear()
    counts = AnswerDrafts(NO_END, session.speculation)
    items = generate_items(session, prompt, sampling, NO_END, drafts=counts)
    told = [
        replace(i, accepted=False, rejected=()) if hasattr(i, "accepted") else type(i)
        for i in items
    ]
    return told, counts


@pytest.mark.parametrize(
    ("backend", "sampling"),
    [thorough("numpy", GREEDY), ("cpu", GREEDY), ("vulkan", GREEDY), ("cpu", SAMPLED)],
)
def test_answers_and_what_they_leave_are_those_without_drafts(backend, sampling, source, request):
    """Of layers with windows and of layers that share caches; with a wide slice, so that some of
    what it drafts is right."""
    cut = Slice((), 64)
    with running(source, exact(backend), device=device_of(backend, request)) as runner:
        executor = executor_of(runner, cut)
        session = Session(executor, runner.weights)
        accepted = drafted = 0
        for prompt in prompts(6 if backend == "cpu" else 1):
            plain, counts = answered(session, prompt, sampling, drafts=False)
            left = state(session)
            assert counts.drafted == 0
            found, counts = answered(session, prompt, sampling, drafts=True)
            assert found == plain
            assert state(session) == left
            accepted, drafted = accepted + counts.accepted, drafted + counts.drafted
        executor.close()
    assert 0 < accepted < drafted


def likeliest(session, token, most):
    return tuple(place.token for place in session.draft_by_slice(token, most))


def test_a_slice_drafts_what_its_own_answers_say(source):
    """Its tokens are those of a model of the cut weights that answers greedily, from a cache that
    the whole model has written."""
    with running(source, exact("cpu")) as runner:
        executor = executor_of(runner, Slice((), (77,) * 10))
        session = Session(executor, runner.weights)
        session.prefill([5, 9, 44, 7])
        drafted = list(likeliest(session, 30, 5))
        token, expected = 30, []
        for _ in range(5):
            token = int(np.argmax(session.decode(token)))
            expected.append(token)
        executor.close()
    assert drafted == expected, "a slice that leaves nothing out is the model"
    assert len(session.cache) == 9


def test_a_model_that_was_not_trained_to_have_a_slice_says_so(tiny_llama, source):
    """SmolLM2 and its kind, and a Gemma 3n that is as narrow as a slice of E4B."""
    for path in (tiny_llama, source):
        message = "--speculate slice: this model was not trained to have a smaller one among its"
        with pytest.raises(RequestError, match=message), running(path, exact(speculate="slice")):
            pass


def test_sources_of_a_model_that_drafts_by_its_slice(tall):
    """What the text says again costs nothing and is asked first."""
    with running(tall, exact("cpu", speculate="slice")) as runner:
        speculation = runner.session.speculation
        assert [source.name for source in speculation.sources] == ["lookup", "slice"]
        source = speculation.sources[1]
        assert source.draft(3).tokens == (), "no text yet"
        runner.session.prefill([5, 9, 44])
        source.begin([5, 9, 44, 7])
        assert source.draft(3).tokens == likeliest(runner.session, 7, 3)
        source.add(8)
        runner.session.decode(7)
        assert source.draft(2).tokens == likeliest(runner.session, 8, 2)
        assert source.seconds_per_token > 0


def test_nothing_is_drafted_where_nothing_fits(source):
    with running(source, exact("cpu", context=16)) as runner:
        plain = Session(executor_of(runner, None, buckets=BUCKETS[:1] + BUCKETS[2:]))
        assert plain.draft_by_slice(3, 4) == ()
        session = Session(executor_of(runner, CUT))
        session.prefill(list(range(3, 17)))
        assert len(session.draft_by_slice(3, 4)) == 1
        session.decode(3)
        assert session.draft_by_slice(3, 4) == ()


def test_widths_are_by_the_numbers_of_the_whole_model():
    assert CUT.widths(10) == dict(zip([0, 2, 3, 4, 5, 8, 9], SLICE_WIDTHS, strict=True))
    assert Slice((1,), 7).widths(3) == {0: 7, 2: 7}
