"""T(n) is measured before anything was answered, and leaves no trace."""

import itertools

import pytest

from llm_lite.core.errors import CancelledError, DeviceError
from llm_lite.core.generation.speculation.costs import MOST_SECONDS, RUNS, SIZES, PassTiming
from llm_lite.core.generation.speculation.speculation import speculation_of
from tests.core.generation.speculation.test_answers import prompts, state
from tests.core.generation.speculation.test_no_trace import (  # noqa: F401
    items,
    parts,
    program,
    session_of,
    windowed,
)
from tests.runners import BACKENDS, exact, running

GO_ON = lambda: False  # noqa: E731


def counted(session, at_step=lambda number: None):
    """The steps that run, as (first position, tokens); each token is a segment."""
    ran, run = [], session.executor.run

    def noted(step, stop=None):
        assert len(step.segments) == step.count
        ran.append((step.first_position, step.count))
        at_step(len(ran))
        return run(step, stop)

    session.executor.run = noted
    return ran


def all_of(timing, session):
    while timing.step(session, GO_ON):
        pass


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_sizes_behind_the_conversation(backend, tiny_llama, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    options = exact(backend, speculate="lookup", context=64)
    with running(tiny_llama, options, device=device) as runner:
        session = runner.session
        session.prefill([5, 6, 7])
        left, logits = state(session), session.executor.run(session.step([8], 3)).tobytes()
        ran, speculation = counted(session), speculation_of("auto")
        all_of(speculation.timing, session)
        most = session.executor.program.most_drafted
        sizes = [n for n in SIZES if n <= 1 + most]
        assert ran == [(3, 1)] + [(3, n) for n in sizes for _ in range(RUNS)]
        assert list(speculation.policy.costs.measured()) == sizes
        assert state(session) == left
        assert session.executor.run(session.step([8], 3)).tobytes() == logits


def test_between_two_tokens_of_an_answer(program):  # noqa: F811
    """Rings that have gone round, queries, and drafted tokens that are ahead."""
    prompt = prompts(1, seed=3, length=10)[0]
    found = []
    for measured in (False, True):
        session = session_of(program, drafts=True)
        said = []
        for item in itertools.islice(items(session, prompt), 24):
            said.append(getattr(item, "token", None))
            if measured:
                all_of(speculation_of("auto").timing, session)
        found.append((said, *state(session)))
    assert found[0] == found[1]


def test_a_command_ends_a_pass_which_comes_again(parts):  # noqa: F811
    session = session_of(parts, drafts=True)
    session.prefill([5, 6, 7])
    left, speculation = state(session), speculation_of("auto")
    for _ in range(5):
        assert speculation.timing.step(session, lambda: True)
    assert not speculation.policy.costs.measured() and state(session) == left
    all_of(speculation.timing, session)
    assert list(speculation.policy.costs.measured()) == [1, 2, 4]


def test_what_answers_have_measured_is_not_measured_again(parts):  # noqa: F811
    session, speculation = session_of(parts, drafts=True), speculation_of("auto")
    speculation.policy.costs.note(1, 0.5)
    speculation.policy.costs.note(4, 1.0)
    ran = counted(session)
    all_of(speculation.timing, session)
    assert ran == [(0, 2)] * RUNS


def test_passes_that_would_be_long_are_left_to_answers(parts):  # noqa: F811
    session, speculation = session_of(parts, drafts=True), speculation_of("auto")
    speculation.policy.costs.note(1, 1.1 * MOST_SECONDS)
    ran = counted(session)
    assert not speculation.timing.step(session, GO_ON) and not ran


def test_a_full_context_has_no_room(parts):  # noqa: F811
    session = session_of(parts, drafts=True)
    for token in range(3, 3 + session.context - 1):
        session.decode(token)
    ran, speculation = counted(session), speculation_of("auto")
    all_of(speculation.timing, session)
    assert {tokens for _, tokens in ran} == {1}


def test_what_fails_is_said_by_the_next_answer(parts):  # noqa: F811
    def lost(number):
        raise DeviceError("lost")

    session, timing = session_of(parts, drafts=True), speculation_of("auto").timing
    ran = counted(session, lost)
    assert not timing.step(session, GO_ON) and not timing.step(session, GO_ON)
    assert len(ran) == 1


def test_only_auto_weighs_costs():
    assert isinstance(speculation_of("auto").timing, PassTiming)
    assert speculation_of("lookup").timing is None


def test_cancelled_is_no_failure(parts):  # noqa: F811
    def cancelled(number):
        if number == 2:
            raise CancelledError("stopped")

    session, speculation = session_of(parts, drafts=True), speculation_of("auto")
    counted(session, cancelled)
    all_of(speculation.timing, session)
    assert list(speculation.policy.costs.measured()) == [1, 2, 4]
