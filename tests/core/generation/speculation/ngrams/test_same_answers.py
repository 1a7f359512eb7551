"""Answers with learned drafts are those without, on each executor, and what engines learn from."""

import pytest

from llm_lite.core.generation.speculation import ngram_file as file
from llm_lite.core.generation.speculation.ngram_learning import NgramSource
from llm_lite.core.generation.speculation.ngram_table import NgramTable
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.messages import (
    ChatMessage,
    DraftsLearned,
    ExecutorChanged,
    ForgetLearnedDrafts,
    Generate,
    Logged,
    Reconfigure,
)
from tests.changes import scales
from tests.core.engine_client import GREEDY as SHORT
from tests.core.engine_client import PATIENCE
from tests.core.generation.speculation.test_answers import GREEDY, SAMPLED, answer_with, state
from tests.runners import BACKENDS, exact, running

PROMPTS = ([11, 7, 42, 93], [5, 250, 31], [200, 201, 202, 203, 204])
LEARNING = exact("cpu", speculate="auto", learned_drafts="learn")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "learned_folder", lambda: tmp_path / "learned")
    return tmp_path / "learned"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_exact(backend, sampling, tiny_llama, request):
    """Learned from a beginning of each answer with every seventh token wrong, so that drafts are
    right, wrong, and end."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    accepted = drafted = 0
    with running(tiny_llama, exact(backend, speculate="lookup"), device=device) as runner:
        for prompt in PROMPTS:
            plain, _ = answer_with(runner.session, prompt, sampling, None)
            left, table = state(runner.session), NgramTable()
            tokens = [item.token for item in plain if hasattr(item, "token")]
            table.learn([token if n % 7 else 1 for n, token in enumerate(tokens, 1)])
            way = Speculation((NgramSource(lambda table=table: table),), LongestDrafts())
            found, counts = answer_with(runner.session, prompt, sampling, way)
            assert found == plain
            assert state(runner.session) == left
            accepted, drafted = accepted + counts.accepted, drafted + counts.drafted
            assert list(counts.by_source) == ["ngrams"]
    assert 0 < accepted < drafted


def finished(client, **changes):
    """The end of an answer, what it was, and what drafts had learned when all was quiet."""
    ended, tokens = client.ask(**changes)
    return ended, tokens, client.until(DraftsLearned)


def test_an_engine_drafts_what_it_wrote_in_another_conversation(client, tiny_llama, folder):
    client.load(tiny_llama, LEARNING)
    assert client.until(DraftsLearned) == DraftsLearned(0, 0, 0)
    ended, tokens, learned = finished(client)
    assert "ngrams" not in [one.source for one in ended.stats.drafted_by]
    assert learned == DraftsLearned(1, len(tokens), 0)
    client.engine._host.runner.session.speculation.policy = LongestDrafts()
    finished(client, messages=(ChatMessage("user", "quite another question"),))
    ended, again, learned = finished(client)
    assert again == tokens and learned.answers == 3
    (drafts,) = [one for one in ended.stats.drafted_by if one.source == "ngrams"]
    assert drafts.accepted > 0
    assert client.engine.close()
    (kept,) = file.listed()
    assert kept.model.answers == 3 and kept.size == file.disk_bytes()


def test_forgetting_deletes_it_all(client, tiny_llama, folder):
    folder.mkdir()
    (folder / f"other{file.SUFFIX}").write_bytes(b"of another model")
    client.load(tiny_llama, LEARNING)
    client.until(DraftsLearned)
    finished(client)
    client.send(ForgetLearnedDrafts())
    assert client.until(DraftsLearned) == DraftsLearned(0, 0, 0)
    assert client.engine.close() and file.listed() == []


def test_what_is_to_be_forgotten_is_where_the_window_closes(client, tiny_llama, folder, hook):
    """While an answer runs, which is stopped."""
    folder.mkdir()
    (folder / f"other{file.SUFFIX}").write_bytes(b"of another model")
    client.load(tiny_llama, exact("numpy", speculate="auto", learned_drafts="learn"))
    client.until(DraftsLearned)
    finished(client)
    reached = hook.block_step(len(hook.steps) + 4)
    client.send(Generate((ChatMessage("user", "Hello there"),), SHORT))
    assert reached.wait(PATIENCE)
    client.send(ForgetLearnedDrafts())
    assert client.engine.close(PATIENCE) and file.listed() == []


def test_what_is_not_the_models_own_is_not_learned(client, tiny_llama):
    """A beginning that a person typed, and an answer of a model with changed heads."""
    client.load(tiny_llama, LEARNING)
    client.until(DraftsLearned)
    runner = client.engine._host.runner
    silent = tuple(tuple(0.0 for _ in row) for row in runner.session.gains)
    client.ask(interventions=scales(silent))
    _, tokens, learned = finished(client, begin=ChatMessage("assistant", "Once upon a"))
    assert learned == DraftsLearned(1, SHORT.max_new_tokens, 0)
    assert len(tokens) > SHORT.max_new_tokens


def test_what_lies_on_disk_is_told_where_nothing_is_learned(client, tiny_llama, folder):
    folder.mkdir()
    (folder / f"other{file.SUFFIX}").write_bytes(b"of another model")
    client.load(tiny_llama, exact("cpu", speculate="off"))
    assert client.until(DraftsLearned) == DraftsLearned(0, 0, 16)
    client.ask()
    client.ask()
    assert len(client.of(DraftsLearned)) == 1


@pytest.mark.parametrize("how", ["off", "use"])
def test_who_learns_nothing_leaves_nothing(how, client, tiny_llama, folder):
    client.load(tiny_llama, exact("cpu", speculate="auto", learned_drafts=how))
    client.ask()
    client.ask()
    assert client.engine.close() and not folder.exists()
    assert not [one for one in client.of(Logged) if one.level != "info"]


def test_it_goes_on_on_another_executor(client, tiny_llama):
    client.load(tiny_llama, LEARNING)
    client.until(DraftsLearned)
    finished(client)
    client.send(Reconfigure(exact("numpy", speculate="auto", learned_drafts="learn")))
    client.until(ExecutorChanged)
    assert client.until(DraftsLearned).answers == 1
