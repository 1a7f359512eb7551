"""The block of a Qwen3.5 that drafts further tokens: as transformers' layers compute it, whatever
the cache went through, and of no influence on what is answered."""

import re

import numpy as np
import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.generation import session as steps
from llm_lite.core.loading import backends
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.drafting_block import FAMILY, add_block, text, write_drafting
from tests.family_checks import write_gguf
from tests.paths import FIXTURES
from tests.runners import BACKENDS, exact, running

CLOSE = 2e-3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_drafting(tmp_path_factory.mktemp("drafting") / "m", max_position_embeddings=1024)


@pytest.fixture(scope="module")
def known():
    with np.load(FIXTURES / "drafting_block.npz") as arrays:
        return arrays["tokens"].tolist(), arrays["logits"]


@pytest.fixture
def drafted(monkeypatch):
    """A session's logits of drafts behind its cache and a token; software devices draft too."""
    monkeypatch.setattr(backends, "drafts", lambda choice, options: options.speculate != "off")

    def logits(session, token, most):
        rows, usual = [], steps.likely
        with monkeypatch.context() as patch:
            patch.setattr(steps, "likely", lambda row: rows.append(row) or usual(row))
            assert len(session.draft_by_slice(token, most)) == most
        return np.stack(rows)

    return logits


def drafting(path, backend, device):
    return running(path, exact(backend, speculate="auto"), device=device)


@pytest.mark.parametrize("backend", BACKENDS)
def test_drafts_are_those_of_transformers(backend, folder, known, drafted, device):
    tokens, expected = known
    with drafting(folder, backend, device) as runner:
        session = runner.session
        for cuts in ((79,), (1, 3, 8, 63, 66, 79), range(1, 80)):
            session.clear()
            for end in cuts:
                session.prefill(tokens[:end])
            found = drafted(session, tokens[-1], len(expected))
            assert np.abs(found - expected).max() < CLOSE
            again = drafted(session, tokens[-1], len(expected))
            np.testing.assert_array_equal(found, again)


def test_drafts_of_a_gguf_file_are_the_same(tmp_path, known, drafted, device):
    write_gguf(FAMILY, "plain", tmp_path / "plain.gguf")
    add_block(tmp_path / "plain.gguf", tmp_path / "m.gguf")
    tokens, expected = known
    with drafting(tmp_path / "m.gguf", "cpu", None) as runner:
        assert runner.model.shape.layers == 5
        runner.session.prefill(tokens[:-1])
        assert np.abs(drafted(runner.session, tokens[-1], 4) - expected).max() < CLOSE


@pytest.mark.parametrize("backend", BACKENDS)
def test_drafts_behind_edits_and_other_conversations_are_as_read_anew(
    backend, folder, drafted, device
):
    random = np.random.default_rng(3)
    words = [random.integers(30, 260, count).tolist() for count in (300, 40, 90, 200)]
    system, question, other, apart = words
    with drafting(folder, backend, device) as runner:
        session = runner.session
        session.pool.budget = 64 << 20
        fresh = []
        for prompt in ([*system, *question], [*system, *other]):
            session.clear()
            session.prefill(prompt)
            fresh.append(drafted(session, 40, 3))
        session.clear()
        session.prefill([*system, *question])
        session.decode(50)
        session.prefill([*system, *other])  # an edit: the state is run again
        assert np.abs(drafted(session, 40, 3) - fresh[1]).max() < CLOSE
        session.prefill(apart)
        session.prefill([*system, *other, 40])  # from the pool
        session.forget_after(len(system) + len(other))
        assert np.abs(drafted(session, 40, 3) - fresh[1]).max() < CLOSE
        assert np.abs(fresh[0] - fresh[1]).max() > 0.1


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_have_the_same_bits_with_drafts(backend, folder, drafted, device):
    tokens = text()
    with drafting(folder, backend, device) as runner:
        session, plain = runner.session, []
        session.prefill(tokens[:40])
        for token in tokens[40:60]:
            plain.append(session.decode(token))
        session.prefill(tokens[:40])
        for number, token in enumerate(tokens[40:60]):
            drafts = [place.token for place in session.draft_by_slice(token, 2)]
            drafts = tokens[41 + number : 43 + number] if number % 3 else drafts
            row = session.decode(token, draft=() if session.is_ahead(token) else drafts)
            np.testing.assert_array_equal(row, plain[number])


def test_the_block_drafts_unless_a_person_says_otherwise(folder):
    with running(folder, exact("cpu", speculate="auto")) as runner:
        assert [one.name for one in runner.session.speculation.sources] == ["lookup", "block"]
        cache = runner.model_info.cache
        assert len(cache.layers) == len(cache.drafts) == 1 and cache.token_bytes == 2 * 2 * 4 * 32
        assert cache.reserved_bytes == 1024 * cache.token_bytes
    for chosen in ("off", "lookup"):
        with running(folder, exact("cpu", speculate=chosen)) as runner:
            assert not runner.executor.program.has_slice


def test_a_block_of_another_width_is_told(tmp_path):
    write_gguf(FAMILY, "plain", tmp_path / "plain.gguf")
    narrow = {"nextn.eh_proj.weight": np.ones((4, 8), np.float32)}
    add_block(tmp_path / "plain.gguf", tmp_path / "m.gguf", narrow)
    with pytest.raises(FileError, match=r"attn_norm.weight is missing|expected shape"):
        read(tmp_path / "m.gguf")


def test_a_block_that_lacks_a_tensor_is_told(folder):
    source, missing = open_source(folder), "blk.draft.attn_k.weight"
    tensors = {name: one for name, one in source.tensors.items() if name != missing}
    with pytest.raises(FileError, match=re.escape(f"{missing} is missing")):
        read_model(source.metadata, tensors, source.path)


def test_a_block_that_is_not_known_is_left_out(tmp_path):
    write_gguf(FAMILY, "plain", tmp_path / "plain.gguf")
    more = {"nextn.embed_tokens.weight": np.ones((4, 8), np.float32)}
    add_block(tmp_path / "plain.gguf", tmp_path / "m.gguf", more)
    assert not read(tmp_path / "m.gguf").shape.draft_block


def read(path):
    source = open_source(path)
    return read_model(source.metadata, source.tensors, source.path)
