"""Answers of which a branch was verified are those without drafts; when branches are drafted."""

import itertools

import numpy as np
import pytest

from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.speculation.decoder import AnswerDecoder
from llm_lite.core.generation.speculation.draft import NO_BRANCH, Branch, Draft, draft_of, likely
from llm_lite.core.generation.speculation.lookup import LookupSource
from llm_lite.core.generation.speculation.policy import DraftPolicy
from llm_lite.core.generation.speculation.speculation import LongestDrafts, Speculation
from llm_lite.core.generation.steps import answer_steps
from llm_lite.core.records import replace
from tests.core.generation.speculation.test_answers import GREEDY, NO_END, prompts, state
from tests.core.generation.speculation.test_policy import costs_of
from tests.runners import BACKENDS, exact, running

FLAT = {1: 0.010, 8: 0.0102}  # seconds of passes over so many tokens


class Forking:
    """Knows the answer, and drafts it with forks: at every third place the draft goes wrong and
    the branch is right, or both are wrong."""

    name, seconds_per_token = "lookup", 0.0

    def __init__(self, answer, length):
        self._answer, self._prompt, self._text = answer, length, 0

    def begin(self, tokens):
        self._text = len(tokens)

    def add(self, token):
        self._text += 1

    def draft(self, most, should_stop=None):
        right = self._answer[self._text - self._prompt :]
        fork, turn = self._text % 3, self._text % 2
        if len(right) < fork + 3 or most < fork + 4:
            return Draft(tuple(right[:most]))
        wrong = tuple((right[fork] + i) % 300 for i in (1, 2))
        other = right[fork : fork + 2] if turn else ((right[fork] + 3) % 300, right[fork + 1])
        return Draft((*right[:fork], *wrong), 9, Branch(tuple(other), fork, 9))


def answered(session, prompt, source, stop=None):
    """What came, what it left, and what of it was drafted."""
    session.speculation = Speculation((source,), LongestDrafts()) if source else None
    session.clear()
    decoder = AnswerDecoder(session, NO_END)
    steps = answer_steps(session, session.prepare(prompt), GREEDY, NO_END, decoder=decoder)
    chosen = [i for i in itertools.islice(steps, stop) if isinstance(i, TokenChoice)]
    said = [replace(i, accepted=False, rejected=()) for i in chosen]
    return said, state(session), decoder.counts


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_are_the_same(backend, tiny_llama, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    with running(tiny_llama, exact(backend, speculate="lookup"), device=device) as runner:
        moved = counted(runner.executor)
        for prompt in prompts(6 if backend == "cpu" else 2, seed=8):
            said, left, _ = answered(runner.session, prompt, None)
            source = Forking([i.token for i in said], len(prompt))
            found, state_then, counts = answered(runner.session, prompt, source)
            assert found == said
            assert state_then == left
            assert counts.accepted > counts.passes, "branches that are right count as accepted"
        assert len(moved) > 4


def counted(executor):
    """The branches that were taken, from now on: (rows of the branch, where they moved, count)."""
    calls, moves = [], executor.move_rows

    def move_rows(first, to, count):
        if to < first:  # NumPy moves others to where a step of all would have them
            calls.append((first, to, count))
        moves(first, to, count)

    executor.move_rows = move_rows
    return calls


@pytest.mark.parametrize("stop", range(4, 24))
def test_stopped_within_a_branch(stop, tiny_llama):
    with running(tiny_llama, exact("cpu", speculate="lookup")) as runner:
        prompt = prompts(1, seed=9)[0]
        every, _, _ = answered(runner.session, prompt, None)
        source = Forking([i.token for i in every], len(prompt))
        said, left, _ = answered(runner.session, prompt, None, stop)
        found, state_then, _ = answered(runner.session, prompt, source, stop)
        assert (found, state_then) == (said, left)
        edited = [*prompt[:6], *prompt]
        after = answered(runner.session, edited, None)[:2]
        answered(runner.session, prompt, source, stop)
        assert answered(runner.session, edited, None)[:2] == after


def test_a_branch_is_what_else_followed_the_text():
    source = LookupSource()
    source.begin([1, 2, 3, 4, 8, 2, 3, 5, 9, 1, 2, 3])
    draft = source.draft(6)
    assert draft.tokens[0] == 4 and draft.evidence == 3
    assert draft.branch == Branch((5, 9, 1, 2), 0, 2)
    source.begin([1, 2, 1, 2])
    assert source.draft(6).branch == NO_BRANCH, "nothing else did"


def test_the_branch_of_a_model_is_its_likeliest_second_token():
    places = [likely(logits_of(*chances)) for chances in ((0.9, 0.05), (0.6, 0.3), (0.5, 0.45))]
    draft = draft_of(places)
    assert draft.tokens == (0, 0, 0)
    assert draft.branch == Branch((1,), 1, 30), "0.9 * 0.3 is more than 0.9 * 0.6 * 0.45"


def logits_of(*chances):
    rest = (1 - sum(chances)) / 8
    return np.log(np.array([*chances, *[rest] * 8], np.float32))


def test_branches_are_verified_where_a_pass_is_cheap_and_they_come():
    flat, steep = FLAT, {1: 0.010, 8: 0.030}
    branch = Branch((1, 2), 0, 4)
    for taken, came, expected in ((flat, 1, 2), (steep, 1, 0), (flat, 0, 0)):
        policy = DraftPolicy(costs_of(taken))
        for turn in range(60):
            policy.record_outcome(3, accepted=2, rejected=True)
            policy.record_branch(4, is_right=bool(came and turn % 3 == 0))
        assert policy.branch_length(3, 3, branch, most=4) == expected, (taken, came)
    assert DraftPolicy(costs_of(flat)).branch_length(3, 3, branch, most=1) == 1


class Offering:
    """Drafts what it is told to, however much may be verified."""

    name, seconds_per_token = "lookup", 0.0

    def __init__(self, draft):
        self._draft = draft

    def draft(self, most, should_stop=None):
        return self._draft


@pytest.mark.parametrize("policy", (LongestDrafts, DraftPolicy))
def test_a_draft_and_its_branch_are_no_more_than_a_step_verifies(policy):
    random, verified = np.random.default_rng(3), set()
    for _ in range(400):
        most, count, more = (int(n) for n in random.integers(1, 9, 3))
        tokens = [int(n) for n in random.integers(3, 30, min(most, count))]
        fork = int(random.integers(len(tokens)))
        branch = Branch((tokens[fork] + 30, *range(70, 70 + more)), fork, 4)
        offered = Draft(tuple(tokens), 9, branch)
        end = int(random.choice([*tokens, *branch.tokens]))
        draft = Speculation((Offering(offered),), policy(costs_of(FLAT))).propose(most, {end})
        assert len(draft.tokens) + len(draft.branch.tokens) <= most
        assert not {*draft.tokens, *draft.branch.tokens} & {end}
        assert not draft.branch.tokens or draft.branch.fork < len(draft.tokens)
        verified.add((bool(draft.tokens), bool(draft.branch.tokens)))
    assert verified == {(False, False), (True, False), (True, True)}
