"""What layers leave is shifted while a model writes: as the definition of the ops has it when the
whole text is computed at once, on every executor; and it costs nothing before somebody asks."""

from pathlib import Path

import numpy as np
import pytest

import llm_lite
from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.split import split_executor
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.messages.interventions import Interventions, Replace, Scale, Shift
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.interventions.live import live_changes
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.records import replace
from tests.asking import asked, lens
from tests.core.exec.test_split import Some
from tests.core.questions.test_patch import at_once, columns_of
from tests.runners import BACKENDS, exact, running

RANDOM = np.random.default_rng(7)
TOKENS = tuple(RANDOM.integers(30, 250, 45).tolist())
CLOSE = {"atol": 2e-3, "rtol": 1e-3}
END, HEAD = "blocks.0.hook_resid_post", "layers.1.attention.heads"


def steering(runner) -> Interventions:
    vector = 0.5 * np.random.default_rng(3).normal(size=columns_of(runner, END))
    return Interventions((Shift(END, tuple(vector.tolist())), Scale(HEAD, 0.0, unit=1)))


def use(runner, interventions, *, throughout=False):
    changes = live_changes(interventions, runner.executor.program)
    ones = tuple((1.0,) * len(row) for row in runner.session.gains)
    runner.set_gains(changes.gains or ones, changes.shifts, throughout=throughout)


def expected_of(path, tokens):
    with running(path, exact("numpy")) as runner:
        shift, scale = steering(runner).changes
        vector = np.array(shift.vector, np.float32)
        width = columns_of(runner, HEAD) // runner.model_info.heads

        def shifted(values):
            values += vector

        def silenced(values):
            values[:, width : 2 * width] = 0

        by_site = {END: shifted, scale.site: silenced}
        sites = ("blocks.1.hook_resid_post", END, "logits")
        return at_once(runner, tokens, by_site, sites)


@pytest.mark.parametrize("backend", BACKENDS)
def test_prompts_and_tokens_are_shifted(tiny_llama: Path, device, backend):
    expected = expected_of(tiny_llama, TOKENS)
    with running(tiny_llama, exact(backend), device=device) as runner:
        session = runner.session
        plain = session.prefill(TOKENS)
        plans = runner.executor.program.plans
        use(runner, steering(runner), throughout=True)
        assert runner.executor.program.plans[: len(plans)] == plans
        assert session.context_used == 0, "what was made without the shift is gone"
        session.prefill(TOKENS[:20])
        session.prefill(TOKENS[:43])
        session.decode(TOKENS[43])
        logits = session.decode(TOKENS[44])
        np.testing.assert_allclose(logits, expected["logits"][-1], **CLOSE)
        assert np.abs(logits - plain).max() > 0.05
        # Questions see what is in force.
        names = (END, "blocks.1.hook_resid_post")
        found = asked(ReadActivations(names), runner).values
        for name in names:
            np.testing.assert_allclose(found[name], expected[name], **CLOSE)
        _, last = lens(session, 44)[-1]
        np.testing.assert_allclose(last, expected["logits"][-1], **CLOSE)
        use(runner, Interventions(), throughout=True)
        np.testing.assert_allclose(session.prefill(TOKENS), plain, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_shift_from_the_middle_on_is_of_later_tokens_only(tiny_llama: Path, device, backend):
    with running(tiny_llama, exact("numpy")) as runner:
        shift = steering(runner).changes[0]
        vector = np.array(shift.vector, np.float32)

        def shifted(values):
            values[30:] += vector

        expected = at_once(runner, TOKENS, {END: shifted})["logits"][-1]
    with running(tiny_llama, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS[:30])
        use(runner, Interventions((shift,)))
        logits = runner.session.prefill(TOKENS)
    np.testing.assert_allclose(logits, expected, **CLOSE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_drafted_tokens_are_shifted_to_the_bit(tiny_llama: Path, device, backend):
    options = exact(backend, speculate="lookup")
    with running(tiny_llama, options, device=device) as runner:
        session = runner.session
        use(runner, steering(runner))
        session.prefill(TOKENS)
        alone = [session.decode(token) for token in (9, 10, 11)]
        session.clear()
        session.prefill(TOKENS)
        drafted = [session.decode(9, draft=(10, 11)), session.decode(10), session.decode(11)]
        assert session.most_drafted >= 2
    for one, other in zip(alone, drafted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_recurrent_models_are_shifted(recurrent_folder: Path, device, backend):
    with running(recurrent_folder, exact("numpy")) as runner:
        vector = (0.5 * RANDOM.normal(size=columns_of(runner, END))).astype(np.float32)

        def shifted(values):
            values += vector

        expected = at_once(runner, TOKENS, {END: shifted})["logits"][-1]
    with running(recurrent_folder, exact(backend), device=device) as runner:
        use(runner, Interventions((Shift(END, tuple(vector.tolist())),)))
        runner.session.prefill(TOKENS[:44])
        logits = runner.session.decode(TOKENS[44])
    np.testing.assert_allclose(logits, expected, **CLOSE)


def test_a_change_of_zero_has_the_bits_of_none(tiny_llama: Path, device):
    for backend in BACKENDS:
        with running(tiny_llama, exact(backend), device=device) as runner:
            plain = runner.session.prefill(TOKENS)
            runner.enable_shifts()
            step = runner.session.step(TOKENS[:9], 0)
            shifted = type(step)(step.tokens, 0, 1, step.segments, shifted=True)
            first = runner.executor.run(step)
            np.testing.assert_array_equal(runner.executor.run(shifted), first)
            runner.session.clear()
            np.testing.assert_array_equal(runner.session.prefill(TOKENS), plain)


def test_larger_scratch_memory_has_the_same_bits(tiny_llama: Path, device):
    """What was recorded with less is recorded again."""
    with running(tiny_llama, exact("vulkan"), device=device) as runner:
        executor, session = runner.executor, runner.session
        plain = session.prefill(TOKENS)
        recorded = executor.recorded
        executor._open_scratch(2 * executor._scratch.size)
        session.clear()
        np.testing.assert_array_equal(session.prefill(TOKENS), plain)
        assert executor.recorded > recorded


def test_executors_that_share_steps_do_not_shift(tiny_llama: Path):
    with running(tiny_llama, exact("cpu")) as runner:
        weights, program = runner.weights, runner.executor.program
        some = Some(lambda op: op.name == "rms_norm")
        split = split_executor(
            some, program, weights, lambda cut: CpuExecutor(program, weights, 2, beside=cut)
        )
        try:
            other = replace(runner, executor=split)
            with pytest.raises(
                RequestError, match="not shifted while it writes, as the steps are shared"
            ):
                other.enable_shifts()
        finally:
            split.close()


def test_patch_is_beside_what_is_in_force(tiny_llama: Path):
    expected = expected_of(tiny_llama, TOKENS)
    with running(tiny_llama, exact("cpu")) as runner:
        use(runner, steering(runner), throughout=True)
        runner.session.prefill(TOKENS)
        half = Interventions((Scale("layers.0.feed_forward.down", 0.5),))
        found = asked(ReadPatch(interventions=half, tokens=tuple(range(99))), runner)
    np.testing.assert_allclose(found.logits_before, expected["logits"][-1][:99], **CLOSE)
    assert found.kl[0, 0] > 1e-5


def test_rows_have_the_identity_of_their_shift(tiny_llama: Path, tmp_path: Path):
    with running(tiny_llama, exact("cpu")) as runner:
        session = runner.session
        session.prefill(TOKENS)
        plain = session.conditions
        use(runner, steering(runner))
        assert session.conditions != plain and session.conditions.weights == plain.weights
        assert session.cache.reusable_prefix_length(session.conditions) == 0
        assert session.cache.reusable_prefix_length(plain) == len(TOKENS)
        session.clear()
        session.prefill(TOKENS)
        path = tmp_path / "cache"
        cache_transfer.save(runner, path)
        session.clear()
        assert cache_transfer.open_saved(runner, path) == len(TOKENS)
        use(runner, Interventions())
        with pytest.raises(on_disk.OtherCacheError, match="weights of heads"):
            cache_transfer.open_saved(runner, path)
        use(runner, Interventions(steering(runner).changes[1:]))
        with pytest.raises(on_disk.OtherCacheError, match="shifted otherwise"):
            cache_transfer.open_saved(runner, path)


LIVE = [
    ((Scale("embedding", 0.0),), "only heads, as of layers.0.attention.heads"),
    ((Shift("layers.0.attention.heads", (0.0,) * 64),), "only what layers leave is shifted"),
    ((Replace("embedding", ((0.0,) * 64,), (0,)),), "not while the model writes"),
    ((Scale(HEAD, 0.0, positions=(3,)),), "acts on all tokens while"),
    ((Shift(END, (1.0,)),), "expected 64 numbers"),
]


@pytest.mark.parametrize(("changes", "sentence"), LIVE)
def test_what_cannot_act_while_a_model_writes(tiny_llama: Path, changes, sentence):
    with running(tiny_llama) as runner, pytest.raises(RequestError, match=sentence):
        live_changes(Interventions(changes), runner.executor.program)


def test_python_writes_under_interventions(tiny_llama: Path):
    with llm_lite.load(tiny_llama, backend="cpu", activations="a32") as model:
        width = next(one.columns for one in model.sites() if one.name == "embedding")
        vector = 0.5 * np.random.default_rng(3).normal(size=width)
        greedy = {"temperature": 0, "max_new_tokens": 12}
        plain = model.complete("Hello", **greedy).text
        steered = model.complete(
            "Hello", interventions=[llm_lite.Shift(END, vector)], **greedy
        ).text
        assert steered != plain == model.complete("Hello", **greedy).text
        assert model.generate("Hello", interventions=llm_lite.Scale(HEAD, 0.0), **greedy).text
        model.gains[1] = 0
        both = model.complete("Hello", interventions=llm_lite.Shift(END, vector), **greedy).text
        assert both != steered
        with pytest.raises(RequestError, match="did you mean"):
            model.complete("Hello", interventions=llm_lite.Scale("blocks.1.attn.hook_zz", 0.0))


def test_nothing_is_there_before_somebody_shifts(tiny_llama: Path):
    for backend in ("numpy", "cpu"):
        with running(tiny_llama, exact(backend)) as runner:
            use(runner, Interventions((Scale(HEAD, 0.0, unit=1),)))
            runner.session.prefill(TOKENS)
            assert not runner.executor.program.can_shift
            names = {t.name for plan in runner.executor.program.plans for t in plan.tensors}
            assert "layer_shifts" not in names
