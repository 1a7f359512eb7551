"""What is wrong with a draft model is said of it, and is no fault of the model that answers."""

from types import SimpleNamespace

import pytest

from llm_lite.api.loading import load
from llm_lite.core.errors import (
    DeviceLostError,
    DoesNotFitError,
    FileChangedError,
    NotFiniteError,
    OutOfDeviceMemoryError,
    OutOfMemoryError,
    RequestError,
    UnfitModelError,
)
from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.hub.fit.estimate import estimate
from llm_lite.core.hub.fit.machine import Machine
from llm_lite.core.loading import backends, draft_models, loader
from llm_lite.core.loading.fitting import Fitting, description_of
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.metrics import modes
from llm_lite.core.plan.cache_layers import cache_layers
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import GREEDY, NO_END, prompts
from tests.core.generation.speculation.test_draft_model import of_the_model_only
from tests.core.generation.speculation.test_no_trace import tokens_of
from tests.fixtures.seq2seq import marian
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running
from tests.seq2seq_checks import write_case


@pytest.fixture(autouse=True)
def drafts_whatever_it_thinks(monkeypatch):
    """A tiny random model is never sure."""
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)


@pytest.fixture(scope="module")
def smaller(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("smaller") / "smaller.gguf", seed=3)


def options_of(draft, **changes):
    drafts = {"speculate": "lookup", "draft_model": str(draft), "pool_budget": 0}
    return exact("cpu", **{**drafts, "context": 64, **changes})


def refused(target, draft, **changes):
    """The error of loading the draft model."""
    with pytest.raises(RequestError) as found, running(target, options_of(draft, **changes)):
        pass
    assert str(found.value).startswith("draft model: ")
    return found.value


@pytest.fixture
def closed(monkeypatch):
    """The paths of model files that were closed."""
    paths, close = [], ModelFile.close

    def noted(file):
        paths.append(file.path)
        close(file)

    monkeypatch.setattr(ModelFile, "close", noted)
    return paths


def failing_draft(monkeypatch, error):
    """The second executor cannot be made."""
    made, make = [], backends.make_executor

    def fail(*given):
        made.append(given)
        if len(made) == 2:
            raise error
        return make(*given)

    monkeypatch.setattr(backends, "make_executor", fail)
    return made


def test_it_has_the_memory_that_the_target_leaves(tiny_llama, smaller, monkeypatch):
    options = options_of(smaller)
    with running(tiny_llama, options_of("")) as runner:
        asked = Fitting(description_of(runner.model_file), runner.choice, Machine(1 << 34))
        needed = sum(part.host for part in estimate(asked.plan(options), asked.machine).parts)
    room = Machine(needed)
    monkeypatch.setattr(loader, "this_machine", lambda device: room)
    with running(tiny_llama, options_of("")):
        pass
    error = refused(tiny_llama, smaller)
    assert isinstance(error, DoesNotFitError) and error.others == ()
    with running(tiny_llama, replace(options, force=True)) as runner:
        assert runner.draft is not None
    room = Machine(3 * needed)
    with running(tiny_llama, options) as runner:
        assert runner.draft is not None


@pytest.mark.parametrize(
    "error, kind",
    [
        (OutOfDeviceMemoryError("no memory is left"), OutOfMemoryError),
        (UnfitModelError("heads of 65"), RequestError),
    ],
)
def test_a_device_that_cannot_run_it(error, kind, tiny_llama, smaller, monkeypatch, closed):
    """The device runs the target well."""
    made = failing_draft(monkeypatch, error)
    found = refused(tiny_llama, smaller)
    assert type(found) is kind and str(error) in str(found)
    assert len(made) == 2, "nothing was tried again"
    assert closed == [smaller, tiny_llama]


def test_a_device_that_was_lost_is_lost_for_both(tiny_llama, smaller, monkeypatch):
    failing_draft(monkeypatch, DeviceLostError("the device was lost"))
    with pytest.raises(DeviceLostError), running(tiny_llama, options_of(smaller)):
        pass


def test_its_file_is_closed_where_something_fails(tiny_llama, smaller, monkeypatch, closed):
    def fail(*given):
        raise RuntimeError("planted")

    monkeypatch.setattr(draft_models, "info_of", fail)
    with pytest.raises(RuntimeError), running(tiny_llama, options_of(smaller)):
        pass
    assert closed == [smaller, tiny_llama]


def test_what_of_its_variant_is_unchecked_is_checked_later(tiny_llama, smaller, monkeypatch):
    converted, parts = loader.converted, {}

    def unchecked(file, *given, **named):
        weights, _ = converted(file, *given, **named)
        parts[file.path] = (object(),)
        return weights, parts[file.path]

    monkeypatch.setattr(loader, "converted", unchecked)
    with running(tiny_llama, options_of(smaller)) as runner:
        assert runner.unchecked == (*parts[tiny_llama], *parts[smaller])


@pytest.mark.parametrize(
    "kind, heads, width, kept",
    [("int4", 8, 12, "fp16"), ("int8", 16, 10, "fp16"), ("int8", 8, 12, "int8")],
)
def test_a_cache_that_its_heads_do_not_fit(kind, heads, width, kept, tiny_llama, tmp_path):
    odd = write_tiny_llama(tmp_path / "odd.gguf", seed=3, heads=heads, head_dim=width)
    with running(tiny_llama, options_of(odd, keys=kind, values=kind)) as runner:
        layer = cache_layers(runner.draft.session.executor.program.plans[0])[0]
        assert {t.dtype for t in layer.tensors} == {backends.CACHE_DTYPES[kept]}
        assert (runner.executor_info.keys, runner.executor_info.values) == (kind, kind)


def test_every_fault_of_it_names_it(tiny_llama, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    assert str(broken) in str(refused(tiny_llama, broken))


FAULTS = [NotFiniteError("values overflow"), FileChangedError("draft.gguf", "it was changed")]


@pytest.mark.parametrize("error", FAULTS, ids=lambda e: type(e).__name__)
def test_it_fails_in_the_middle_of_an_answer(error, tiny_llama, smaller):
    """The answer is the one without drafts, and a sentence says once why there are no more."""
    prompt, told = prompts(1, seed=11)[0], []
    with running(tiny_llama, options_of(smaller)) as runner:
        speculation, source = of_the_model_only(runner)
        source.report_to(told.append)
        session, executor = runner.session, runner.draft.session.executor
        run, ran = executor.run, []

        def failing(step, stop=None):
            ran.append(step)
            if len(ran) > 3:
                raise error
            return run(step, stop)

        def said():
            session.clear()
            return tokens_of(generate_items(session, prompt, GREEDY, NO_END))

        session.speculation = None
        expected = said()
        session.speculation, executor.run = speculation, failing
        assert said() == expected and len(ran) == 4
        assert said() == expected and len(ran) == 4, "it is not asked again"
        assert source.seconds_per_token == 0
        executor.run = run
    assert told == [f"draft model: {error}; answers go on without its drafts"]


def test_a_device_that_fails_while_it_drafts_is_no_fault_of_it(tiny_llama, smaller):
    with running(tiny_llama, options_of(smaller)) as runner:
        _, source = of_the_model_only(runner)

        def lost(step, stop=None):
            raise DeviceLostError("the device was lost")

        runner.draft.session.executor.run, run = lost, runner.draft.session.executor.run
        source.begin([5, 6, 7])
        with pytest.raises(DeviceLostError):
            source.draft(3)
        runner.draft.session.executor.run = run


def test_it_fails_while_it_is_measured(tiny_llama, smaller, monkeypatch):
    """The target is loaded all the same."""

    def measured(self, *given):
        raise FAULTS[0]

    told = []
    monkeypatch.setattr("llm_lite.core.generation.session.Session.decode", measured)
    with running(tiny_llama, options_of(smaller)) as runner:
        runner.draft.source.report_to(told.append)
    assert len(told) == 1 and "values overflow" in told[0]


def test_where_nothing_is_drafted_a_sentence_says_so(tiny_llama, smaller, tmp_path):
    folder, told = write_case(marian.FAMILY, "plain", tmp_path), []
    with running(folder, exact("cpu", draft_model=str(smaller), speculate="auto")) as runner:
        runner.report_drafts(told.append)
        assert runner.draft is None
    (sentence,) = told
    assert str(smaller) in sentence and "what an encoder-decoder writes is not drafted" in sentence
    with running(tiny_llama, options_of(smaller, speculate="off")) as runner:
        runner.report_drafts(told.append)
    with running(tiny_llama, options_of(smaller)) as runner:
        runner.report_drafts(told.append)
        device = SimpleNamespace(kind="software", name="A processor")
        choice = backends.ExecutorChoice("vulkan", "", described=device)
        said = draft_models.of_no_use("small", choice, runner.model_file)
        assert "gain nothing on A processor, which is only software" in said
    assert told == [sentence], "a person chose it, or it drafts"


def test_software_draws_no_drafts(tiny_llama, smaller, device):
    options = replace(options_of(smaller, speculate="auto"), backend="vulkan")
    with running(tiny_llama, options, device=device) as runner:
        is_software = device.info.kind == "software"
        assert bool(runner.undrafted) == is_software and (runner.draft is None) == is_software


def test_modes_are_measured_without_it(tiny_llama, monkeypatch):
    monkeypatch.setattr(modes, "PREFERENCE", ("int8",))
    file = loader.open_model(str(tiny_llama), lambda *_: None, lambda _: None)
    try:
        rows = modes.measure_modes(file, options_of("/nowhere.gguf"), None, lambda *_: None)
    finally:
        file.close()
    assert [row.mode for row in rows] == ["int8"]


def test_python_says_that_it_drafts_nothing(tiny_llama):
    """Its maps are of a copy of the model, which loads no draft model."""
    told, draft = [], "/nowhere.gguf"
    given = {"backend": "cpu", "context": 64, "query_budget": 0, "draft_model": draft}
    with load(tiny_llama, warn=told.append, **given) as model:
        assert model.attention("ab ab").shape[-1] > 0
    assert [draft in text for text in told] == [True]
