"""A smaller model that drafts: answers stay the same, and its cache follows the text."""

import itertools

import pytest

from llm_lite.core.errors import CancelledError, RequestError
from llm_lite.core.generation.answer import Answer
from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.generation.speculation.draft import NO_DRAFT
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.messages import (
    ChatMessage,
    Generate,
    GenerationFinished,
    SamplingOptions,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import GREEDY, NO_END, SAMPLED, prompts, state
from tests.core.generation.speculation.test_no_trace import tokens_of
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact, running


@pytest.fixture(autouse=True)
def drafts_whatever_it_thinks(monkeypatch):
    """A tiny random model is never sure."""
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)


@pytest.fixture(scope="module")
def smaller(tmp_path_factory):
    """Other weights, and a context of half as many tokens as the model it drafts for."""
    folder = tmp_path_factory.mktemp("smaller")
    return write_tiny_llama(folder / "smaller.gguf", seed=3, context=64)


def options_of(draft, backend="cpu", **changes):
    """Without a pool, which an answer would find filled by those before."""
    drafts = {"speculate": "lookup", "draft_model": str(draft), "pool_budget": 0}
    return exact(backend, **drafts, **changes)


@pytest.fixture(scope="module")
def runner(tiny_llama, smaller):
    with running(tiny_llama, options_of(smaller)) as runner:
        yield runner


def of_the_model_only(runner):
    """Its source; nothing is looked up, so that it drafts everything."""
    speculation = runner.session.speculation
    speculation.sources = (source,) = speculation.sources[-1:]
    assert source.name == "model"
    return speculation, source


def items(session, prompt, sampling=GREEDY, should_stop=None):
    return generate_items(session, prompt, sampling, NO_END, should_stop)


def both(runner, script):
    """What the script says and leaves, without drafts and with; the source."""
    speculation, source = of_the_model_only(runner)
    found = []
    for drafts in (None, speculation):
        runner.session.clear()
        runner.session.speculation = drafts
        said = script(runner.session)
        found.append((said, *state(runner.session)))
    assert found[0] == found[1]
    return source


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ("smaller", "tiny_llama"))
def test_answers_are_the_same(backend, kind, tiny_llama, request):
    """By a model that is nearly always wrong, and by the model itself in int4."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    draft = request.getfixturevalue(kind)
    with running(tiny_llama, options_of(draft, backend), device=device) as runner:
        for prompt in prompts(8 if backend == "cpu" else 2, seed=11):
            for sampling in (GREEDY, SAMPLED):
                both(runner, lambda s: tokens_of(items(s, prompt, sampling)))  # noqa: B023


def test_drafts_of_the_model_itself_come_true(tiny_llama):
    command = Generate((ChatMessage("user", "ab"),), GREEDY, raw=True)
    with running(tiny_llama, options_of(tiny_llama)) as runner:
        of_the_model_only(runner)
        events = []
        answer = Answer(command, events.append, lambda: False)
        answer.begin(runner)
        while answer.step():
            pass
        answer.finish()
    (stats,) = [event.stats for event in events if isinstance(event, GenerationFinished)]
    assert stats.accepted > stats.passes, "int4 of the same weights mostly says the same"
    ((told),) = stats.drafted_by
    assert (told.source, told.drafted, told.accepted) == ("model", stats.drafted, stats.accepted)
    assert any(event.accepted for event in events if isinstance(event, TokenDecoded))


def test_a_text_is_read_in_pieces(runner):
    """And then drafted as if it had been read at once."""
    source, text = runner.draft.source, list(range(5, 61))
    source.begin(text)
    wanted = source.draft(4)
    runner.draft.session.clear()
    source.begin(text)
    source.most_read = 16
    try:
        found = [source.draft(4) for _ in range(3)]
    finally:
        source.most_read = type(source).most_read
    assert [draft.is_reading for draft in found] == [True, True, False]
    assert [len(draft.tokens) for draft in found] == [0, 0, 4]
    assert found[-1] == wanted


@pytest.mark.parametrize("stop", range(2, 30, 3))
def test_stopped_edited_and_asked_again(stop, runner):
    first, second = prompts(2, seed=12, length=12)

    def script(session):
        said = tokens_of(itertools.islice(items(session, first), stop))
        edited = [*first[:7], *second[7:]]
        said += tokens_of(itertools.islice(items(session, edited), stop))
        return said + tokens_of(items(session, first))

    both(runner, script)


def test_cancelled_while_it_drafts(runner):
    """The draft model stands in the middle of its text; the next answer is what it would be."""
    prompt = prompts(1, seed=13, length=12)[0]
    steps = runner.draft.session.executor
    run, asked = steps.run, []

    def cancelled(step, stop=None):
        asked.append(step)
        if len(asked) == 6:
            raise CancelledError("stopped")
        return run(step, stop)

    def script(session):
        said = tokens_of(items(session, prompt))
        session.clear()
        return len(said) > 0, tokens_of(items(session, prompt))

    steps.run = cancelled
    try:
        both(runner, script)
    finally:
        steps.run = run
    assert len(asked) > 6


def test_it_reads_only_what_it_has_not_read(runner):
    _, source = of_the_model_only(runner)
    session = runner.draft.session
    session.clear()
    ran, run = [], session.executor.run
    session.executor.run = lambda step, stop=None: (
        ran.append((step.first_position, step.count)) or run(step, stop)
    )
    try:
        source.begin([5, 6, 7, 8])
        (first, second, third) = source.draft(3).tokens
        assert ran == [(0, 4), (4, 1), (5, 1)]
        source.add(first)
        source.add(9 if second != 9 else 10)  # something else came
        del ran[:]
        source.draft(1)
        assert ran == [(5, 1)], "its first draft is in the cache, the second one is dropped"
        source.begin([5, 6, 7, 8, first, second])
        del ran[:]
        source.draft(2)
        assert [start for start, _ in ran] == [5, 6]
        source.begin(list(range(3, 50)))
        del ran[:]
        source.draft(1)
        assert sum(count for _, count in ran) == 47
        assert third is not None
    finally:
        session.executor.run = run


def test_a_text_that_does_not_fit_is_not_followed(runner):
    _, source = of_the_model_only(runner)
    assert source._session.context == 64
    source.begin([3] * 63)
    assert len(source.draft(8).tokens) == 2, "the last drafted token takes no place"
    source.begin([3] * 65)
    assert source.draft(8) == NO_DRAFT
    prompt = prompts(1, seed=14, length=50)[0]
    both(runner, lambda s: tokens_of(items(s, prompt)))


def test_it_ends_where_it_is_not_sure(runner, monkeypatch):
    _, source = of_the_model_only(runner)
    source.begin([5, 6, 7])
    assert len(source.draft(4).tokens) == 4
    source._spent, source._offered = source._step_seconds, 1.0
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 1.1)
    before = source.seconds_per_token
    for _ in range(40):
        assert source.draft(4) == NO_DRAFT
    assert source.seconds_per_token > before > 0, "what is offered seldom is dear"


def test_another_executor_in_the_middle(tiny_llama, smaller):
    """The answer goes on with a runner whose draft model has read nothing."""
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=24)
    command = Generate((ChatMessage("user", "ab ab"),), sampling, raw=True)
    told = []
    for draft in ("", smaller):
        with (
            running(tiny_llama, options_of(draft, mode="fp32")) as a,
            running(tiny_llama, options_of(draft, mode="int4")) as b,
        ):
            for runner in (a, b) if draft else ():
                of_the_model_only(runner)
            events = []
            answer = Answer(command, events.append, lambda: False)
            answer.begin(a)
            for _ in range(11):
                answer.step()
            answer.begin(b)
            while answer.step():
                pass
            decoded = [e for e in events if isinstance(e, TokenDecoded)]
            told.append([(e.token, e.context_used, e.probability) for e in decoded])
    assert told[0] == told[1]


def test_another_vocabulary(tiny_llama, tmp_path, smollm2):
    other = write_tiny_llama(tmp_path / "other.gguf", seed=3)
    words = ("a draft model has the vocabulary", str(tiny_llama))
    with pytest.raises(RequestError) as found, running(tiny_llama, options_of(smollm2)):
        pass
    assert all(word in str(found.value) for word in (str(smollm2), *words, "49,152"))
    data = other.read_bytes()
    at = data.index(b"<|im_start|>")
    other.write_bytes(data[:at] + b"<|im_stand|>" + data[at + 12 :])
    with pytest.raises(RequestError) as found, running(tiny_llama, options_of(other)):
        pass
    assert all(word in str(found.value) for word in (str(other), *words, "'<|im_stand|>'"))


def test_a_model_that_does_not_draft_is_not_loaded(tiny_llama, smaller):
    options = options_of(smaller)
    with running(tiny_llama, replace(options, speculate="off")) as runner:
        assert runner.draft is None and runner.executor_info.draft is None and not runner.beside
    with running(tiny_llama, options) as runner:
        info = runner.executor_info.draft
        assert (info.path, info.mode, info.context) == (str(smaller), "int4", 64)
        assert info.weight_bytes > 0 and info.kv_bytes > 0


def test_a_name_that_is_no_model(tiny_llama):
    with pytest.raises(RequestError) as found, running(tiny_llama, options_of("no-such-model")):
        pass
    assert str(found.value).startswith("draft model: ") and "no-such-model" in str(found.value)
