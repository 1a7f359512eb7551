"""How likely each token is: as logits of the whole text have it, of states, targets and parts."""

from pathlib import Path

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.questions.likelihood import LikelihoodRead, ReadLikelihood, check_answer
from llm_lite.core.questions.question import RemoteText
from llm_lite.core.records import replace
from tests.asking import asked
from tests.fixtures.seq2seq import t5
from tests.runners import BACKENDS, exact, running
from tests.seq2seq_checks import stored, write_case

TOKENS = tuple(np.random.default_rng(5).integers(30, 250, 75).tolist())
CLOSE = {"atol": 2e-3, "rtol": 1e-3}


def check(found, logits, tokens, first=0):
    """Compare with logits [n, V] behind each token."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    log_p = (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))[:-1]
    mine = log_p[np.arange(len(log_p)), tokens[1:]]
    begin = max(first, 1)
    known = slice(begin - first, None)
    np.testing.assert_allclose(found.log_probability[known], mine[begin - 1 :], **CLOSE)
    entropy = -(np.exp(log_p) * log_p).sum(axis=1)
    np.testing.assert_allclose(found.entropy[known], entropy[begin - 1 :], **CLOSE)
    rank = (log_p > mine[:, None] + 2e-3).sum(axis=1)[begin - 1 :]
    highest = (log_p > mine[:, None] - 2e-3).sum(axis=1)[begin - 1 :]
    assert ((rank <= found.rank[known]) & (found.rank[known] <= highest)).all()
    assert len(found.rank) == len(tokens) - first
    if first == 0:
        assert np.isnan([found.log_probability[0], found.entropy[0]]).all() and found.rank[0] == -1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("model", ["tiny_llama", "recurrent_folder"])
def test_every_token_of_a_text(model, backend, device, request):
    path = request.getfixturevalue(model)
    with running(path, exact("numpy"), every_output=True) as runner:
        logits = runner.session.logits(TOKENS)
    with running(path, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        check(asked(ReadLikelihood(), runner), logits, TOKENS)
        check(asked(ReadLikelihood(40), runner), logits, TOKENS, 40)
        few = asked(ReadLikelihood(0, 1), runner)
        assert few.rank.tolist() == [-1]
        after = runner.session.decode(5)
    with running(path, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        np.testing.assert_array_equal(runner.session.decode(5), after)


def test_python_reads_it_in_one_pass_too(tiny_llama: Path):
    with llm_lite.load(tiny_llama, backend="cpu", activations="a32") as model:
        whole = model.ask(TOKENS, "likelihood")
        weights = model.likelihood(TOKENS).weights
        np.testing.assert_allclose(np.exp(whole.log_probability[1:]), weights[1:], **CLOSE)
        with pytest.raises(RequestError, match="positions 3 to 79 are not in the cache"):
            model.ask(TOKENS, "likelihood", first=3, last=80)


def test_the_target_of_an_encoder_decoder(tmp_path: Path):
    known = stored("t5", "gated")
    source, target = known["source"].tolist(), known["target"].tolist()
    options = {"backend": "cpu", "keys": "fp32", "values": "fp32", "activations": "a32"}
    with llm_lite.load(write_case(t5.FAMILY, "gated", tmp_path / "m"), **options) as model:
        found = model.ask(source, "likelihood", target=target[1:])
        check(found, known["logits"], np.array(target))


def test_answers_of_other_programs_are_checked():
    one = np.zeros(3, np.float32)
    text, unknown = RemoteText((4,), 2, 2), np.array([np.nan, -1, -2, -3], np.float32)
    good = LikelihoodRead(0, unknown, unknown, np.array([-1, 0, 1, 2], np.int32))
    check_answer(ReadLikelihood(), good, text)
    check_answer(ReadLikelihood(1), LikelihoodRead(1, one, one, np.zeros(3, np.int32)), text)
    for wrong in (
        replace(good, log_probability=np.zeros(4, np.float32)),
        replace(good, entropy=unknown[:3]),
        replace(good, rank=np.array([0, 0, 1, 2], np.int32)),
        replace(good, log_probability=-unknown),
        replace(good, first=1),
    ):
        with pytest.raises(ValueError, match=r"expected"):
            check_answer(ReadLikelihood(), wrong, text)
