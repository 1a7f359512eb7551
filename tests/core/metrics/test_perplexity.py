import math

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError, FileError, RequestError
from llm_lite.core.loading import loader
from llm_lite.core.metrics.perplexity import chunks_of, matrix_bits_per_weight, measure, read_text
from tests.runners import BACKENDS, exact, running

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all. " * 3


@pytest.fixture
def opened(tiny_llama):
    file = loader.open_model(str(tiny_llama), lambda *_: None, print)
    yield file
    file.close()


def log_softmax(logits):
    logits = logits.astype(float)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def naive(runner, chunks):
    """Log probabilities [tokens, V] of what is scored, and the tokens that follow."""
    rows, targets = [], []
    for chunk in chunks:
        logits = log_softmax(runner.session.logits(chunk))
        for i in range(len(chunk) // 2, len(chunk) - 1):
            rows.append(logits[i])
            targets.append(chunk[i + 1])
    return np.array(rows), targets


@pytest.mark.parametrize("size", [7, 32])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_report_is_the_definition(opened, device, backend, size):
    with (
        loader.started(opened, exact(context=size), None) as reference,
        loader.started(opened, exact(backend, context=size, mode="fp16"), device) as tested,
    ):
        chunks = chunks_of(opened.tokenizer, TEXT, size)
        told = []
        report = measure(tested, reference, chunks, lambda *done: told.append(done))
        p, targets = naive(reference, chunks)
        q, _ = naive(tested, chunks)
    rows = np.arange(len(targets))
    kld = (np.exp(p) * (p - q)).sum(axis=1)
    delta = np.exp(q[rows, targets]) - np.exp(p[rows, targets])
    assert report.chunks == len(chunks) > 2
    assert report.tokens_scored == len(targets) == len(chunks) * (size - size // 2 - 1)
    assert report.ppl == pytest.approx(math.exp(-q[rows, targets].mean()), rel=1e-6)
    assert report.ppl_reference == pytest.approx(math.exp(-p[rows, targets].mean()), rel=1e-6)
    error = (-q[rows, targets]).std() / math.sqrt(len(targets) - 1)
    assert report.ppl_error == pytest.approx(error * report.ppl, rel=1e-6)
    for name, percent in (("median", 50), ("p90", 90), ("p99", 99), ("p999", 99.9), ("max", 100)):
        found = getattr(report, f"kld_{name}")
        assert found == pytest.approx(np.percentile(kld, percent), rel=2e-2, abs=1e-11), name
    assert report.kld_mean == pytest.approx(kld.mean(), rel=1e-2) and report.kld_mean > 0
    assert report.delta_p_rms == pytest.approx(np.sqrt((delta**2).mean()), rel=1e-2)
    assert report.delta_p_mean == pytest.approx(delta.mean(), rel=1e-2, abs=1e-8)
    assert report.same_top == (p.argmax(axis=1) == q.argmax(axis=1)).mean()
    assert told == [(size * (i + 1), size * len(chunks)) for i in range(len(chunks))]


def test_bytes_and_bits(opened):
    with loader.started(opened, exact(mode="fp16", context=16), None) as runner:
        assert matrix_bits_per_weight(runner) == 16.0
        chunks = chunks_of(opened.tokenizer, TEXT, 16, 1)
        report = measure(runner, runner, chunks)
        assert report.weight_bytes == runner.executor.weight_bytes
        assert 16.0 < report.bits_per_weight < 17.0  # vectors are float32
    assert (report.kld_mean, report.kld_max, report.same_top, report.chunks) == (0, 0, 1, 1)
    assert report.ppl == report.ppl_reference


class Letters:
    """A tokenizer with a token a letter."""

    def __init__(self, adds_bos):
        self.around = ((0,) if adds_bos else (), ())

    def encode(self, text, *, parse_special):
        assert not parse_special
        return [ord(c) for c in text]


def test_chunks_begin_with_the_begin_token_where_the_model_asks_for_one():
    a, b, c, d, e, f, g, h = (ord(x) for x in "abcdefgh")
    assert chunks_of(Letters(False), "abcdefghi", 4) == [[a, b, c, d], [e, f, g, h]]
    # The begin token is one of the text's own: every later chunk loses its first to it.
    assert chunks_of(Letters(True), "abcdefghi", 4) == [[0, a, b, c], [0, e, f, g]]
    assert chunks_of(Letters(False), "abcdefghi", 4, 1) == [[a, b, c, d]]
    with pytest.raises(RequestError, match="the text has 9 tokens, too few for a chunk of 10"):
        chunks_of(Letters(False), "abcdefghi", 10)
    with pytest.raises(RequestError, match="chunk: expected at least 4 tokens, found 3"):
        chunks_of(Letters(False), "abcdefghi", 3)


def test_it_can_be_stopped(opened):
    with loader.started(opened, exact(context=16), None) as runner:
        chunks = chunks_of(opened.tokenizer, TEXT, 16)
        with pytest.raises(CancelledError):
            measure(runner, runner, chunks, should_stop=lambda: True)


def test_texts_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="missing"):
        read_text(tmp_path / "missing.txt")
    (tmp_path / "latin.txt").write_bytes("déjà vu".encode("latin-1"))
    with pytest.raises(FileError, match="is not valid UTF-8 at byte 1"):
        read_text(tmp_path / "latin.txt")


def test_score_gives_the_logits_of_the_tail(tiny_llama):
    tokens = list(range(20, 60))
    with running(tiny_llama, every_output=True) as runner:
        whole = runner.session.logits(tokens)
        for first, step in ((0, 7), (13, 64), (39, 1)):
            runner.session.clear()
            parts = list(runner.session.score(tokens, first, step))
            assert {len(part) for part in parts[:-1]} <= {step}
            np.testing.assert_allclose(np.concatenate(parts), whole[first:], atol=1e-4)
