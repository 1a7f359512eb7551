"""Traces of encoders' and encoder-decoders' tokens against the NumPy executor."""

import contextlib

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.inspecting.lesson import ANY_HEAD, MOST_TOKENS, DenseShape, FollowToken
from llm_lite.core.questions.tracing import traced
from tests.encoder_checks import started, stored, write_case
from tests.encoder_families import family_of
from tests.fixtures.seq2seq import bart, marian, t5
from tests.lesson_reference import (
    LessonReference,
    check_trace,
    check_vectors,
    close,
    whole_encoder,
    whole_target,
)
from tests.runners import BACKENDS, exact, running
from tests.seq2seq_checks import stored as stored_pair
from tests.seq2seq_checks import write_case as write_pair

OTHERS = [b for b in BACKENDS if b != "cpu"]
ENCODERS = [("bert", "masked"), ("bert", "plain"), ("bert", "untied"), ("roberta", "masked")]
POOLED = [("bert", "mean"), ("bert", "several"), ("embedding_gemma", "windows")]
POSITIONS = {"t5": "bias", "marian": "sines", "bart": "learned"}
DENSE = {
    "several": (DenseShape(31, 3 * 48, is_tanh=True, has_bias=True),),
    "windows": tuple(
        DenseShape(*sizes, is_tanh=False, has_bias=False) for sizes in ((60, 45), (45, 60))
    ),
}
PAIRS = [
    (t5.FAMILY, "plain"),
    (t5.FAMILY, "gated"),
    (marian.FAMILY, "plain"),
    (bart.FAMILY, "plain"),
]


@contextlib.contextmanager
def encoding(path, tokens, backend="cpu", device=None):
    """An encoder whose session holds the tokens."""
    runner = started(path, backend, device)
    try:
        runner.session.hidden(tokens)
        yield runner
    finally:
        runner.close()
        runner.model_file.close()


@contextlib.contextmanager
def translating(family, case, folder, backend="cpu", device=None):
    """An encoder-decoder that has read the source and the target that are stored of it."""
    path, known = write_pair(family, case, folder), stored_pair(family.name, case)
    source, target = known["source"].tolist(), known["target"].tolist()
    with running(path, exact(backend), device=device) as runner:
        runner.read_source(source)
        runner.session.prefill(target)
        yield runner, path, tuple(source), tuple(target)


def encoder_case(family, case, folder):
    path = write_case(family_of(family), case, folder / "m")
    return path, stored(family, case)["tokens"].tolist()


@pytest.mark.parametrize(("family", "case"), ENCODERS + POOLED)
def test_every_number_of_an_encoder_is_the_references(family, case, tmp_path):
    path, tokens = encoder_case(family, case, tmp_path)
    whole = whole_encoder(path, tuple(tokens))
    with encoding(path, tokens) as runner:
        layers, heads = len(runner.attention.layers), runner.attention.layers[0].heads
        for position, layer, head in ((0, 0, 0), (len(tokens) - 4, layers - 1, heads - 1)):
            trace = traced(runner, FollowToken(position, layer, head))
            wanted = LessonReference(path, tokens, layer, head, position=position, whole=whole)
            check_trace(trace, wanted)
            assert trace.shape.path == "encoder" and not trace.shape.causal
            of_bert = family != "embedding_gemma"
            assert (trace.shape.norm_behind, trace.shape.embedding_norm) == (of_bert, of_bert)
            assert trace.shape.has_head == runner.session.has_head
            assert (trace.pooled is None) == trace.shape.has_head
            if trace.shape.has_head:
                assert trace.distribution.went_on.id == tokens[position]


@pytest.mark.parametrize(("family", "case"), POOLED)
def test_the_vector_of_a_text_and_how_alike_another_is(family, case, tmp_path):
    path, tokens = encoder_case(family, case, tmp_path)
    whole = whole_encoder(path, tuple(tokens))
    beside = "the cat sat on 12"
    with encoding(path, tokens) as runner:
        before = runner.session.committed
        pooled = traced(runner, FollowToken(3, 1, 0, beside=beside)).pooled
        assert runner.session.committed == before and runner.session.tokens() == tuple(tokens)
        assert pooled.names == runner.embedding.poolings
        assert pooled.dense == DENSE.get(case, ())
        other = runner.embed([beside])[0]
    check_vectors((pooled.vector, whole.rows["vector"][0]), (pooled.beside, other))
    own = whole.rows["vector"][0]
    cosine = own @ other / np.linalg.norm(own) / np.linalg.norm(other)
    assert close(pooled.similarity, cosine)
    if pooled.names == ("mean",) and not pooled.dense:
        last = whole.rows[whole.names[whole.ends[-1]]]
        assert close(pooled.length, np.linalg.norm(last.mean(axis=0)))


@pytest.mark.parametrize(("family", "case"), PAIRS)
def test_every_number_of_a_target_is_the_references(family, case, tmp_path):
    with translating(family, case, tmp_path) as (runner, path, source, target):
        whole = whole_target(path, source, target)
        layers, heads = whole.ends, whole.layers[0].heads
        for position, layer, head in ((len(target) - 1, len(layers) - 1, heads - 1), (1, 0, 0)):
            trace = traced(runner, FollowToken(position, layer, head))
            wanted = LessonReference(path, target, layer, head, position=position, whole=whole)
            check_trace(trace, wanted)
            assert trace.shape.path == "encoder_decoder" and trace.shape.causal
            assert [token.id for token in trace.source] == list(source)[:MOST_TOKENS]
            assert len(trace.opened.cross.head.scores) == len(trace.source)
            assert trace.shape.positions == POSITIONS[family.name]
        assert trace.distribution.went_on.id == target[2]


@pytest.mark.parametrize("backend", OTHERS)
def test_other_executors_give_the_same(request, backend, tmp_path):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    path, tokens = encoder_case("bert", "masked", tmp_path)
    whole = whole_encoder(path, tuple(tokens))
    with encoding(path, tokens, backend, device) as runner:
        trace = traced(runner, FollowToken(5, 1, 1))
        check_trace(trace, LessonReference(path, tokens, 1, 1, position=5, whole=whole))
    folder = tmp_path / "pair"
    with translating(t5.FAMILY, "plain", folder, backend, device) as (runner, path, *texts):
        trace = traced(runner, FollowToken(2, 0, 0))
        whole = whole_target(path, *texts)
        check_trace(trace, LessonReference(path, texts[1], 0, 0, position=2, whole=whole))


def test_an_encoders_keys_stay_bit_for_bit(tmp_path):
    path, tokens = encoder_case("bert", "masked", tmp_path)
    with encoding(path, tokens) as runner:
        plan = runner.executor.program.plans[0]
        names = {plan.tensors[op.inputs[1]].name for op in plan.ops if op.name == "attention"}

        def held():
            return [runner.executor.read_state(n, 0, len(tokens)).tobytes() for n in sorted(names)]

        before = held()
        trace = traced(runner, FollowToken(5, 0, ANY_HEAD))
        assert held() == before and 0 <= trace.head < trace.shape.heads


def test_a_long_text_tells_those_around_the_token(tmp_path):
    path, tokens = encoder_case("bert", "masked", tmp_path)
    tokens = (tokens * 3)[:38]
    with encoding(path, tokens) as runner:
        for position in (0, 20, 37):
            trace = traced(runner, FollowToken(position, 0, 0))
            places = [place for place, _ in trace.tokens]
            assert position in places and len(places) == MOST_TOKENS
            head = trace.opened.head
            assert head.others == len(tokens) - MOST_TOKENS and head.others_probability > 0
        with pytest.raises(RequestError, match="position 38 is not in the cache, which holds 38"):
            traced(runner, FollowToken(38, 0, 0))
