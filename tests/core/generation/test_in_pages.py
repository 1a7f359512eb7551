"""A conversation in pages, in lockstep with one that has room for clients beside it: the same
tokens, whatever is done to it."""

import contextlib

import numpy as np
import pytest

from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.loading.client_room import ClientRoom, with_room
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.plan.step import PAGE
from llm_lite.core.records import replace
from tests.asking import lens
from tests.families import family_of
from tests.family_checks import NAMES, TOLERANCE, reference, write_case
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact, running

GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=24)
PROMPT = [*range(5, 205), *range(5, 30)]  # more than a page, and something to draft
GAINS = ((0.0, 1.0, 1.0, 1.0), (1.0, 0.5, 2.0, 1.0))
ONES = ((1.0,) * 4,) * 2
ROOM = ClientRoom(answers=3, pages=5)
INTEGERS = {"mode": "int8", "activations": "auto", "keys": "int8", "values": "fp16"}
TYPES = [{}, INTEGERS]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return write_tiny_llama(folder / "tiny.gguf", context=512, seed=2)


@pytest.fixture
def both(request, tiny):
    """Two runners of a model on a backend: alone, and with room for clients."""
    with contextlib.ExitStack() as stack:

        def both(backend, path=tiny, **changes):
            device = request.getfixturevalue("device") if backend == "vulkan" else None
            alone = stack.enter_context(running(path, exact(backend, **changes), device=device))
            runners = [alone, with_room(alone, ROOM)]
            stack.callback(runners[1].executor.close)
            assert [runner.has_client_room for runner in runners] == [False, True]
            return runners

        yield both


def answer(session: Session, prompt, options=None, **changes):
    """The tokens of a greedy answer, and how many of the prompt were in the cache."""
    sampling = replace(GREEDY, **changes)
    reading = options or PrefillOptions(name="one", conversation=1)
    reused = session.prepare(prompt, reading).reused
    drafts = AnswerDrafts(speculation=session.speculation)
    items = generate_items(session, prompt, sampling, frozenset(), reading=reading, drafts=drafts)
    return [item.token for item in items if hasattr(item, "token")], reused


def same(runners, work):
    """What both make of it, which must be the same."""
    alone, beside = (work(runner) for runner in runners)
    assert alone == beside
    return alone


@pytest.mark.parametrize("types", TYPES, ids=["f32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_edits_branches_and_gains(both, backend, types):
    runners = both(backend, **types)
    said, reused = same(runners, lambda r: answer(r.session, PROMPT))
    assert len(said) == 24 and reused == 0
    again = same(runners, lambda r: answer(r.session, [*PROMPT, *said, 9]))
    assert again[1] == len(PROMPT) + 23
    edited = [*PROMPT[:150], 77, *PROMPT[151:]]
    assert same(runners, lambda r: answer(r.session, edited))[1] == 150
    assert same(runners, lambda r: answer(r.session, [*PROMPT, *said]))[1] > 200, "from the pool"
    for gains in (GAINS, ONES):
        for runner in runners:
            runner.session.set_gains(gains, throughout=True)
        assert (same(runners, lambda r: answer(r.session, PROMPT))[0] == said) is (gains == ONES)


@pytest.mark.parametrize("overflow", ["forget-middle", "rolling"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_forgotten_when_the_context_is_full(both, backend, overflow):
    runners = both(backend, context=PAGE + 40)
    options = PrefillOptions(overflow, head=20, name="one", conversation=1)
    prompt = PROMPT[: PAGE + 20]
    said, _ = same(runners, lambda r: answer(r.session, prompt, options, max_new_tokens=60))
    gaps = same(runners, lambda r: r.session.cache.contents)
    assert gaps.gaps and len(said) == 60
    longer = [*prompt, *said, 9]
    assert same(runners, lambda r: answer(r.session, longer, options))[1] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_drafts_change_no_bit(both, backend):
    """Of logits, keys and queries."""
    alone, _ = both(backend, speculate="lookup", query_budget=EVERY_QUERY)
    session, logits, states = alone.session, [], []
    tokens = [7, 8, 9, 10, 11, 12]
    for draft in ([], [8, 9, 10, 3]):
        session.clear()
        session.prefill(PROMPT)
        rows = [session.decode(tokens[0], draft=draft)]
        assert session.tokens_ahead == tuple(draft)
        rows += [session.decode(token) for token in tokens[1:]]
        logits.append(np.stack(rows))
        states.append(session.copy_prefix().rows)
    np.testing.assert_array_equal(*logits)
    for name, rows in states[0].items():
        np.testing.assert_array_equal(rows.data, states[1][name].data)


@pytest.mark.parametrize(
    ("mode", "activations", "error"),
    [
        ("fp32", "a32", 1e-5),
        ("fp16", "a32", 1e-5),
        ("int8", "a32", 1e-5),
        ("int4", "a32", 1e-5),
        ("int8", "a8", 0),
        ("int4", "a8", 0),
    ],
)
def test_a_position_by_prompt_and_decoded(both, mode, activations, error):
    """The same bits where activations are integers; floats are added in another order."""
    alone, _ = both("cpu", mode=mode, activations=activations, keys="fp32", values="fp32")
    session, found = alone.session, []
    for read in (len(PROMPT), 3):
        session.clear()
        logits = session.prefill(PROMPT[:read])
        for token in PROMPT[read:]:
            logits = session.decode(token)
        rows = {
            name: kept.data.view(np.float32) for name, kept in session.copy_prefix().rows.items()
        }
        found.append(rows | {"logits": logits})
    for name, values in found[0].items():
        np.testing.assert_allclose(found[1][name], values, rtol=0, atol=error)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_goes_on_with_what_the_other_holds(both, backend, tmp_path):
    """In memory and through a file, both ways; afterwards both answer alike."""
    runners = both(backend)
    for source, target in (runners, runners[::-1]):
        source.session.clear()
        source.session.prefill(PROMPT)
        path = tmp_path / "kept.kv"
        identity = on_disk.Identity("a model", source.session.conditions)
        on_disk.save(path, source.session.copy_prefix(), identity)
        kept = on_disk.load(path, identity, target.session.cache, 300)
        for prefix in (source.session.copy_prefix(), kept):
            target.session.clear()
            assert target.session.restore_prefix(prefix) == len(PROMPT)
            assert target.session.tokens() == tuple(PROMPT)
            expected, _ = answer(source.session, [*PROMPT, 9])
            assert answer(target.session, [*PROMPT, 9]) == (expected, len(PROMPT))
            source.session.forget_after(len(PROMPT))


@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_and_lens(both, backend):
    runners = both(backend, query_budget=EVERY_QUERY)
    maps, layers = [], []
    for runner in runners:
        runner.session.prefill(PROMPT)
        count = len(PROMPT)
        found = np.empty((4, count, count), np.float32)
        head_maps(runner.attention, 1, range(4), found)
        maps.append(found)
        layers.append([logits for _, logits in lens(runner.session, count - 2)])
    assert np.allclose(*maps, atol=1e-5)
    assert np.allclose(*layers, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_newest_queries_are_kept_within_the_budget(both, backend):
    """In whole pages, and of the newest positions: their maps are those of all queries."""
    runners = both(backend, query_budget=140 << 10, speculate="off")
    rows, maps = [], []
    for runner in runners:
        answer(runner.session, PROMPT, max_new_tokens=120)
        rows.append(runner.session.committed.rows)
        found = np.empty((4, len(rows[-1]), rows[0].stop), np.float32)
        head_maps(runner.attention, 0, range(4), found)
        maps.append(found)
    assert rows[0].stop == rows[1].stop == len(PROMPT) + 119
    assert PAGE <= len(rows[1]) <= len(rows[0]) < rows[0].stop
    assert np.allclose(maps[0][:, -len(rows[1]) :], maps[1], atol=1e-5)


@pytest.mark.parametrize("context", [32, 100, 300])
def test_a_context_that_is_no_whole_page(both, context):
    """All queries are kept where the budget has room for them, and drafts are verified."""
    runners = both("cpu", context=context, speculate="lookup", query_budget=EVERY_QUERY)
    prompt = ([7, 8, 9] * context)[: context - 12]
    assert len(same(runners, lambda r: answer(r.session, prompt, max_new_tokens=8))[0]) == 8
    assert same(runners, lambda r: r.session.committed.rows) == range(context - 5)
    for runner in runners:
        runner.session.decode(7, draft=(8, 9, 7))
        assert runner.session.tokens_ahead == (8, 9, 7)


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "gemma4", "olmo3"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sliding_layers_are_rings(both, tmp_path, backend, name):
    """Of the chat; what it does is the same."""
    family = family_of(name)
    case = next(iter(family.cases))
    path = write_case(family, case, tmp_path, max_position_embeddings=1024)
    runners = both(backend, path, context=700)
    layers = [runner.session.cache.layers for runner in runners]
    if not any(layer.window for layer in layers[0]):
        pytest.skip("no layer slides in this case")
    rings = [layer for layer in layers[1] if layer.rows < 700]
    assert len(rings) == sum(layer.rows < 700 for layer in layers[0]) > 0
    assert {layer.rows % PAGE for layer in rings} == {0}
    vocabulary = runners[0].executor.program.vocabulary
    prompt = [n % (vocabulary - 5) + 3 for n in range(450)]
    said, _ = same(runners, lambda r: answer(r.session, prompt))
    assert same(runners, lambda r: answer(r.session, [*prompt, *said, 9]))[1] > 450
    assert same(runners, lambda r: answer(r.session, [*prompt[:440], 9]))[1] in (0, 440)
    assert same(runners, lambda r: answer(r.session, prompt))


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name, tmp_path):
    family = family_of(name)
    for number, case in enumerate(family.cases):
        known = reference(family, case)
        path = write_case(family, case, tmp_path / str(number))
        options = exact("cpu", context=family.context.get(case, 0))
        with running(path, options, every_output=True) as runner:
            session = runner.session
            assert np.abs(session.logits(known.tokens) - known.logits).max() < TOLERANCE
            session.clear()
            for end in (3, 8, 9, len(known.tokens)):
                found = session.prefill(known.tokens[:end])
                assert np.abs(found - known.logits[end - 1]).max() < TOLERANCE
