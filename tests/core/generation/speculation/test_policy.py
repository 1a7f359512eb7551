"""How long drafts are: what passes cost, how drafts did, and where nothing is known."""

import pytest

from llm_lite.core.generation.speculation.costs import PassCosts
from llm_lite.core.generation.speculation.draft import Draft
from llm_lite.core.generation.speculation.policy import DraftPolicy
from llm_lite.core.generation.speculation.speculation import (
    LongestDrafts,
    Speculation,
    speculation_of,
)


def costs_of(taken):
    costs = PassCosts()
    for tokens, seconds in taken.items():
        costs.note(tokens, seconds)
    return costs


def judged(policy, evidence, accepted, rejected):
    """Drafts of one token each."""
    for _ in range(accepted):
        policy.judge(evidence, 1, rejected=False)
    for _ in range(rejected):
        policy.judge(evidence, 0, rejected=True)
    return policy


def test_costs_lie_on_lines_between_what_was_measured():
    costs = costs_of({1: 0.010, 5: 0.020, 9: 0.040})
    assert [costs.ratio(n) for n in (1, 3, 5, 7, 9)] == pytest.approx([1, 1.5, 2, 3, 4])
    assert costs.ratio(13) == pytest.approx(4 + 4 * 3 / 8), "as from nothing to the last"
    assert dict(costs.measured()) == pytest.approx({1: 0.010, 5: 0.020, 9: 0.040})


def test_costs_before_anything_was_measured():
    costs = PassCosts()
    costs.note(4, 1.0)  # without T(1) it is a multiple of nothing
    assert not costs.is_known and not costs.measured()
    assert 1 < costs.ratio(2) < costs.ratio(3) < 3


def test_costs_follow_the_machine():
    """A pass that takes twice as long moves what is known by a part; in time all the way."""
    costs = costs_of({1: 0.010, 8: 0.020})
    costs.note(8, 0.040)
    assert 2 < costs.ratio(8) < 3
    for _ in range(60):
        costs.note(8, 0.040)
    assert costs.ratio(8) == pytest.approx(4, rel=1e-3)
    costs.note(8, 0.0)  # a clock that stood still
    assert costs.ratio(8) == pytest.approx(4, rel=1e-3)


def test_a_pass_that_was_interrupted_says_little():
    costs = costs_of({1: 0.010, 4: 5.0})
    assert costs.ratio(4) == 4, "never more than a pass a token"
    costs.note(1, 3.0)
    assert costs.seconds(1) < 0.0125


def test_nothing_is_drafted_before_a_pass_was_timed():
    assert DraftPolicy().length(evidence=50, most=8) == 0


def test_drafts_are_long_where_tokens_are_right_and_passes_cheap():
    policy = judged(DraftPolicy(costs_of({1: 0.010, 8: 0.012})), 20, accepted=60, rejected=0)
    assert policy.length(20, most=7) == 7
    assert policy.length(20, most=3) == 3
    assert policy.acceptance(20) > 0.95


def test_drafts_are_shorter_the_dearer_a_token_is():
    lengths = []
    for last in (0.015, 0.040, 0.075, 0.160):
        policy = judged(DraftPolicy(costs_of({1: 0.010, 8: last})), 20, accepted=40, rejected=8)
        lengths.append(policy.length(20, most=7))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > 3 and lengths[-1] == 0


def test_drafts_that_are_wrong_end():
    policy = judged(DraftPolicy(costs_of({1: 0.010, 8: 0.020})), 2, accepted=0, rejected=30)
    assert policy.length(2, most=7) == 0
    assert policy.length(90, most=7) > 0, "longer matches have a record of their own"


def test_a_size_that_looked_dear_is_tried_again():
    """It may have been measured while the machine was busy; bad drafts raise no doubt."""
    policy = judged(DraftPolicy(costs_of({1: 0.010, 2: 0.020, 8: 0.080})), 20, 60, rejected=0)
    assert policy.length(20, most=7) == 0
    tried = [policy.length(20, most=7) for _ in range(40)]
    assert max(tried) > 0
    policy = judged(DraftPolicy(costs_of({1: 0.010, 2: 0.020, 8: 0.080})), 20, 0, rejected=60)
    assert max(policy.length(20, most=7) for _ in range(40)) == 0
    assert policy.costs.ratio(8) == 8


def test_what_was_not_tried_is_judged_until_it_pays_again():
    policy = judged(DraftPolicy(costs_of({1: 0.010, 8: 0.020})), 2, accepted=0, rejected=30)
    assert judged(policy, 2, accepted=60, rejected=0).length(2, most=7) > 0


def test_lookup_drafts_whatever_it_costs():
    policy = judged(LongestDrafts(costs_of({1: 0.01, 8: 1.0})), 2, accepted=0, rejected=30)
    assert policy.length(2, most=7) == 7


def test_what_a_person_chooses():
    assert speculation_of("off") is None
    assert type(speculation_of("auto").policy) is DraftPolicy
    assert type(speculation_of("lookup").policy) is LongestDrafts


def test_the_first_source_that_has_a_draft_is_taken():
    class Said:
        def __init__(self, tokens):
            self.tokens, self.text = tokens, []

        def begin(self, tokens):
            self.text = list(tokens)

        def add(self, token):
            self.text.append(token)

        def draft(self, most):
            return Draft(self.tokens[:most], 3)

    sources = Said(()), Said((7, 8, 9)), Said((1,))
    speculation = Speculation(sources)
    speculation.begin([4])
    speculation.add(5)
    assert speculation.propose(2).tokens == (7, 8)
    assert all(source.text == [4, 5] for source in sources)
    assert Speculation(sources[:1]).propose(2).tokens == ()
