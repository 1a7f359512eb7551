"""The trace of a token against the whole text on the NumPy executor; and what must not change."""

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import astuple

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.lesson.collecting import trace_token
from llm_lite.core.messages.inspecting.lesson import (
    ANY_HEAD,
    MOST_LOGITS,
    MOST_TOKENS,
    TEMPERATURES,
    FollowToken,
)
from llm_lite.core.plan.plan import Kind
from llm_lite.core.records import replace
from tests.families import family_of
from tests.family_checks import MIXTURES, NAMES, RECURRENT, reference, write_case
from tests.lesson_reference import LessonReference, check_trace
from tests.make_huggingface import write_tiny_gemma3n
from tests.runners import BACKENDS, exact, running

COMPARED = ("llama", "gemma2", "gpt1", "gpt2", "bloom", "qwen3", "olmo2", "glm4", "starcoder2")


def trace_of(runner, tokens, position, layer, head, first=0):
    runner.session.clear()
    runner.session.prefill(tokens)
    return trace_token(runner.session, runner.attention, FollowToken(position, layer, head, first))


def tiny(family, folder):
    """The path, tokens and context of a family's first case."""
    known = family_of(family)
    case = next(iter(known.cases))
    path = write_case(known, case, folder)
    return path, reference(known, case).tokens, known.context.get(case, 0)


@pytest.mark.parametrize("family", COMPARED)
def test_every_number_is_that_of_the_reference(family, tmp_path):
    path, tokens, context = tiny(family, tmp_path)
    with running(path, exact("cpu", context=context)) as runner:
        layers = len(runner.attention.layers)
        for layer, head in ((0, 0), (layers - 1, runner.attention.layers[-1].heads - 1)):
            trace = trace_of(runner, tokens, len(tokens) - 1, layer, head, first=5)
            check_trace(trace, LessonReference(path, tokens, layer, head, context))


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "cpu"])
def test_other_executors_give_the_same(request, backend, tmp_path):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path, tokens, _ = tiny("llama", tmp_path)
    with running(path, exact(backend), device=device) as runner:
        check_trace(
            trace_of(runner, tokens, len(tokens) - 1, 1, 1), LessonReference(path, tokens, 1, 1)
        )


def test_a_token_in_the_middle_sees_what_stood_before_it(tmp_path):
    path, tokens, _ = tiny("llama", tmp_path)
    with running(path, exact("cpu")) as runner:
        trace = trace_of(runner, tokens, 10, 1, 0)
    check_trace(trace, LessonReference(path, tokens[:11], 1, 0))
    assert trace.distribution.went_on.id == tokens[11]
    larger = [t for t in trace.distribution.top if t.logit > trace.distribution.went_on.logit]
    assert trace.distribution.rank == len(larger) + 1


def test_of_layers_with_a_state_those_that_attend_are_opened(tmp_path):
    path, tokens, context = tiny("qwen3_5", tmp_path)
    tokens = tokens[:24]
    with running(path, exact("cpu", context=context)) as runner:
        with pytest.raises(RequestError, match="the lesson opens layers that attend, 3"):
            trace_of(runner, tokens, len(tokens) - 1, 0, ANY_HEAD)
        trace = trace_of(runner, tokens, len(tokens) - 1, 3, 1, first=5)
        check_trace(trace, LessonReference(path, tokens, 3, 1, context))
        shape, model = trace.shape, runner.model_file.model.shape
        assert shape.output_gate and shape.cache_layers == 1
        assert shape.state_layers == len(model.recurrent_layers) == 4
        assert 4 * shape.state_values == model.state_bytes
        assert all(one.attention > 0 and one.feed_forward > 0 for one in trace.growth)
        middle = trace_of(runner, tokens, 10, 3, 0)
        check_trace(middle, LessonReference(path, tokens[:11], 3, 0, context))


# One that attends, of families with recurrent states; its layer has experts.
ANY_LAYER = dict.fromkeys(MIXTURES, 0) | {"qwen3_5_moe": 3, "qwen3_next": 3, "lfm2_moe": 1}


@pytest.mark.parametrize("family", MIXTURES)
def test_mixtures_of_experts_are_refused(family, tmp_path):
    path, tokens, context = tiny(family, tmp_path)
    sentence = "the lesson does not show mixtures of experts yet"
    with (
        running(path, exact("cpu", context=context)) as runner,
        pytest.raises(RequestError, match=sentence),
    ):
        trace_of(runner, tokens, len(tokens) - 1, ANY_LAYER[family], ANY_HEAD)


@pytest.mark.parametrize("family", sorted(set(NAMES) - set(MIXTURES)))
def test_every_family_and_layer_can_be_followed(family, tmp_path):
    path, tokens, context = tiny(family, tmp_path)
    with running(path, exact("cpu", context=context)) as runner:
        attending = [i for i, layer in enumerate(runner.attention.layers) if layer.attends]
        assert (len(attending) < len(runner.attention.layers)) == (family in RECURRENT)
        for layer in attending:
            trace = trace_of(runner, tokens, len(tokens) - 1, layer, ANY_HEAD)
            assert len(trace.growth) == trace.shape.layers
            assert all(one.attention > 0 and one.feed_forward > 0 for one in trace.growth)
            assert trace.shape.parallel == (family in ("cohere", "cohere2", "gpt_neox"))
            assert 0 <= trace.head < trace.shape.heads


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cache_stays_bit_for_bit(request, backend, tmp_path):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path, tokens, _ = tiny("qwen3", tmp_path)
    with running(path, exact(backend), device=device) as runner:
        session, executor = runner.session, runner.executor
        session.prefill(tokens)
        states = [t for t in executor.program.plans[0].tensors if t.kind is Kind.STATE]

        def held():
            return [executor.read_state(t.name, 0, t.shape[0]).tobytes() for t in states]

        before, committed = held(), session.committed
        for position in (0, 7, len(tokens) - 1):
            trace_token(session, runner.attention, FollowToken(position, 0, ANY_HEAD))
        assert held() == before and session.committed == committed
        fresh = session.decode(5)
        session.clear()
        session.prefill(tokens)
        assert np.array_equal(fresh, session.decode(5))


def test_a_trace_is_bounded(smollm2):
    with running(smollm2, exact("cpu")) as runner:
        tokens = runner.model_file.tokenizer.encode("one two three " * 40)
        trace = trace_of(runner, tokens, len(tokens) - 1, 3, ANY_HEAD)
    assert len(trace.tokens) == len(trace.opened.head.scores) == MOST_TOKENS
    assert trace.opened.head.others == len(tokens) - MOST_TOKENS
    assert len(trace.distribution.top) == MOST_LOGITS
    assert len(trace.distribution.tails) == len(TEMPERATURES)
    assert count(trace) < 20_000


def count(value):
    inner = astuple(value) if isinstance(value, Struct) else value
    return sum(map(count, inner)) if isinstance(inner, tuple) else 1


def test_the_chosen_head_looks_at_other_tokens_than_the_first(smollm2):
    with running(smollm2, exact("cpu")) as runner:
        tokens = runner.model_file.tokenizer.encode("The capital of France is")
        chosen = trace_of(runner, tokens, 4, 15, ANY_HEAD)
        middle = [shares(trace_of(runner, tokens, 4, 15, head)) for head in range(9)]
    assert middle[chosen.head] == max(middle)


def shares(trace):
    return sum(score.probability for score in trace.opened.head.scores[1:-1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"position": 24}, "position 24 is not in the cache"),
        ({"layer": 99}, "layer 99: the model has"),
        ({"head": 99}, "head 99: layer 0 has heads 0 to"),
    ],
)
def test_what_is_not_there_is_a_sentence(changes, words, tmp_path):
    path, tokens, _ = tiny("llama", tmp_path)
    with running(path, exact("cpu")) as runner:
        runner.session.prefill(tokens)
        asked = replace(FollowToken(3, 0, 0), **changes)
        with pytest.raises(RequestError, match=words):
            trace_token(runner.session, runner.attention, asked)


def test_keys_that_a_ring_has_lost_are_told(tmp_path):
    """A window whose cache keeps less than the text: late tokens are found, early ones refused."""
    case = family_of("mistral")
    path = write_case(case, next(iter(case.cases)), tmp_path, max_position_embeddings=512)
    tokens = [3 + n * 7 % 50 for n in range(400)]
    last = len(tokens) - 1
    with running(path, exact("cpu", whole_caches=True)) as runner:
        whole = trace_of(runner, tokens, last, 1, 0)
    with running(path, exact("cpu")) as runner:
        trace = trace_of(runner, tokens, last, 1, 0)
        assert trace.opened.head.scores == whole.opened.head.scores
        assert len(trace.opened.head.scores) == trace.shape.window < len(tokens)
        with pytest.raises(RequestError, match="no longer holds what token 3 saw"):
            trace_token(runner.session, runner.attention, FollowToken(3, 1, 0))


def test_gemma_3n_can_be_followed(tmp_path):
    """Its residual has several streams, and later layers read the keys of earlier ones."""
    with running(write_tiny_gemma3n(tmp_path), exact("cpu")) as runner:
        for layer in range(len(runner.attention.layers)):
            trace = trace_of(runner, list(range(3, 20)), 16, layer, ANY_HEAD)
            assert trace.opened.residual.size == trace.shape.width
            assert all(np.isfinite(growth.residual) for growth in trace.growth)
