"""Drafted tokens that are ahead leave no trace: stopped, edited, steered, forgotten, moved."""

import itertools

import numpy as np
import pytest

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.generation.answer import Answer
from llm_lite.core.generation.prefill import PLAIN, PrefillOptions
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.generation.steps import generate_items
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import ChatMessage, Generate, SamplingOptions, TokenDecoded
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, chat_pages
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import GREEDY, NO_END, prompts, state
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import exact, running

BUCKETS = (Bucket(1, 1), Bucket(4, 4), Bucket(6, 1))
BEFORE = PAGE + 12  # positions, more than a ring has


@pytest.fixture(scope="module")
def parts(tiny_llama):
    """A program and its weights."""
    with running(tiny_llama) as runner:
        pages = chat_pages(48, 6, segments=4)
        build = BuildOptions(48, "f16", "f16", "f16", False, BUCKETS, query_rows=48, pages=pages)
        yield runner.model_file.model.build(build), runner.model_file.file.tensors


@pytest.fixture(scope="module")
def windowed(tmp_path_factory):
    """Likewise, of sliding layers and queries that keep fewer positions than a text has."""
    path = write_case(family_of("gemma3"), "plain", tmp_path_factory.mktemp("windows"))
    source = open_source(path)
    model = read_model(source.metadata, source.tensors, source.path)
    context, most = BEFORE + 48, BEFORE // 2
    pages, buckets = chat_pages(context, most, segments=4), (*BUCKETS, Bucket(most, 1))
    build = BuildOptions(context, "f32", "f32", "f32", False, buckets, query_rows=PAGE, pages=pages)
    program = model.build(build)
    rings = [t.shape[0] for t in program.plans[0].tensors if t.name.startswith(("k_cache", "q_"))]
    assert min(rings) == PAGE < max(rings)
    return program, dict(source.tensors)


@pytest.fixture(params=["full", "windows"])
def program(request):
    return request.getfixturevalue({"full": "parts", "windows": "windowed"}[request.param])


def beginning(program):
    """Tokens before those of a test: what rings have no room for."""
    return list(range(3, 3 + BEFORE)) if program.context > BEFORE else []


def session_of(program, *, drafts, executor=CpuExecutor):
    session = Session(executor(*program))
    session.speculation = Speculation(policy=LongestDrafts()) if drafts else None
    return session


def both(program, script, executor=CpuExecutor):
    """What the script says and leaves, without drafts and with."""
    found = []
    for drafts in (False, True):
        session = session_of(program, drafts=drafts, executor=executor)
        said = script(session)
        found.append((said, *state(session)))
    assert found[0] == found[1]
    return found[1][0]


def items(session, prompt, sampling=GREEDY, reading=PLAIN):
    prompt = [*beginning(session.executor.program), *prompt]
    return generate_items(session, prompt, sampling, NO_END, reading=reading)


def tokens_of(answer):
    return [item.token for item in answer if isinstance(item, TokenChoice)]


@pytest.mark.parametrize("stop", range(3, 30, 2))
def test_stopped_between_two_tokens(stop, program):
    for prompt in prompts(2, seed=3, length=10):
        both(program, lambda s: tokens_of(itertools.islice(items(s, prompt), stop)))  # noqa: B023


def test_drafts_are_ahead_when_answers_are_stopped(program):
    """Else the test above says nothing."""
    ahead = set()
    for stop in range(3, 30):
        session = session_of(program, drafts=True)
        list(itertools.islice(items(session, prompts(1, seed=3, length=10)[0]), stop))
        ahead.add(len(session.tokens_ahead))
    assert {0, 1, 2} <= ahead


@pytest.mark.parametrize("executor", (CpuExecutor, NumpyExecutor))
def test_edited_after_a_stop(executor, program):
    first, second = prompts(2, seed=4, length=10)

    def script(session):
        said = []
        for stop, kept in ((9, 6), (14, 3), (20, 9)):
            said += tokens_of(itertools.islice(items(session, first), stop))
            edited = [*first[:kept], *second[kept:]]
            said += tokens_of(itertools.islice(items(session, edited), stop))
        return said

    both(program, script, executor)


def test_gains_that_change_in_the_middle(parts):
    prompt = prompts(1, seed=5, length=10)[0]

    def script(session):
        said, halved = [], tuple(tuple(0.5 for _ in layer) for layer in session.gains)
        for count, item in enumerate(items(session, prompt)):
            said.append(getattr(item, "token", None))
            if count in (9, 15, 16, 22):
                session.set_gains(halved if count % 2 else session_gains)
        return said

    session_gains = Session(CpuExecutor(*parts)).gains
    both(parts, script)


@pytest.mark.parametrize("overflow", ("stop", "forget-middle", "rolling"))
def test_a_full_context(overflow, parts):
    sampling = replace(GREEDY, max_new_tokens=120)
    for prompt in prompts(3, seed=6, length=30):
        reading = PrefillOptions(overflow, head=8)
        said = both(parts, lambda s: tokens_of(items(s, prompt, sampling, reading)))  # noqa: B023
        assert len(said) == (120 if overflow != "stop" else 49 - len(prompt))


def test_looking_inside_in_the_middle(parts):
    """Steps beside the cache write over drafted rows, and give them back."""
    prompt = prompts(1, seed=7, length=10)[0]

    def script(session):
        said = []
        for item in items(session, prompt):
            said.append(getattr(item, "token", None))
            if 11 < session.context_used < 47:
                with session.scratch_steps(session.context_used - 1, 2):
                    said.append(session.run_scratch([3, 4], session.context_used - 1).tobytes())
        return said

    both(parts, script)


def test_kept_copies_hold_what_is_counted(program):
    prompt = prompts(1, seed=8, length=10)[0]

    def script(session):
        list(itertools.islice(items(session, prompt), 14))
        kept = session.copy_prefix("name")
        rows = {name: rows.data.tobytes() for name, rows in kept.rows.items()}
        list(itertools.islice(items(session, prompts(1, seed=9)[0]), 6))
        taken = session.restore_prefix(kept)
        return rows, kept.contents, taken, session.decode(5).tobytes()

    both(program, script)


def test_moved_to_another_mode_in_the_middle(tiny_llama):
    """The answer goes on with what was said, on weights that are others."""
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=30)
    command = Generate((ChatMessage("user", "ab ab ab ab"),), sampling, raw=True)
    options = {mode: exact("cpu", speculate="lookup", mode=mode) for mode in ("fp32", "int4")}
    with running(tiny_llama, options["fp32"]) as a, running(tiny_llama, options["int4"]) as b:
        for moved in range(4, 24, 3):
            told = []
            for drafts in (False, True):
                for runner in (a, b):
                    runner.session.clear()
                    runner.session.speculation = (
                        Speculation(policy=LongestDrafts()) if drafts else None
                    )
                events = []
                answer = Answer(command, events.append, lambda: False)
                answer.begin(a)
                for _ in range(moved):
                    answer.step()
                answer.begin(b)
                while answer.step():
                    pass
                answer.finish()
                decoded = [e for e in events if isinstance(e, TokenDecoded)]
                told.append([(e.token, e.context_used, e.probability) for e in decoded])
            assert told[0] == told[1]


def test_prompts_after_answers_reuse_as_much(program):
    """What rings have lost is the same, so the same positions are computed again."""

    def script(session):
        steps, run = [], session.executor.run

        def counted(step, stop=None):
            steps.append((step.first_position, step.count))
            return run(step, stop)

        before = beginning(session.executor.program)
        prompt = prompts(1, seed=10, length=10)[0]
        said = tokens_of(itertools.islice(items(session, prompt), 20))
        text = [*before, *prompt, *said]
        reused = [session.reusable(text[:length]) for length in range(1, len(before) + 28)]
        session.executor.run = counted
        session.prefill([*before, *prompt, *said[:5], 3, 4, 5])
        return reused, steps

    both(program, script)


def test_numbers_are_checked_when_they_count(parts):
    """A draft whose logits are no numbers ends nothing before its token comes."""
    session = session_of(parts, drafts=True)
    session.prefill([5, 6, 5, 6])
    run = session.executor.run

    def broken(step, stop=None):
        logits = run(step, stop)
        logits[1:] = np.nan
        return logits

    session.executor.run = broken
    assert np.isfinite(session.decode(5, draft=(6, 5))).all()
    assert session.context_used == 5
    with pytest.raises(Exception, match="token 5"):
        session.decode(6)
    assert session.context_used == 5
