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
        policy.record_outcome(evidence, 1, rejected=False)
    for _ in range(rejected):
        policy.record_outcome(evidence, 0, rejected=True)
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


class Said:
    """A source that always says the same; `price` seconds a token."""

    def __init__(self, tokens, name="lookup", price=0.0):
        self.tokens, self.name, self.seconds_per_token = tokens, name, price
        self.text, self.asked = [], []

    def begin(self, tokens):
        self.text = list(tokens)

    def add(self, token):
        self.text.append(token)

    def draft(self, most, should_stop=None):
        self.asked.append(most)
        return Draft(self.tokens[:most], 0 if self.seconds_per_token else 3)


def known(policy=DraftPolicy):
    return policy(costs_of({1: 0.010, 8: 0.012}))


def test_the_first_source_that_has_a_draft_is_taken():
    sources = Said(()), Said((7, 8, 9)), Said((1,))
    speculation = Speculation(sources, known(LongestDrafts))
    speculation.begin([4])
    speculation.add(5)
    assert speculation.propose(2).tokens == (7, 8)
    assert all(source.text == [4, 5] for source in sources)
    assert not sources[2].asked
    assert Speculation(sources[:1], known()).propose(2).tokens == ()


def test_drafts_stop_before_the_end_of_an_answer():
    speculation = Speculation((Said((7, 8, 9)),), known(LongestDrafts))
    assert speculation.propose(3, ends={8}).tokens == (7,)
    assert speculation.propose(3, ends={7}).tokens == ()


def test_a_model_is_asked_where_nothing_is_found_and_only_for_what_pays():
    free, model = Said((1, 2)), Said((7, 8, 9), "model", 0.001)
    speculation = Speculation((free, model), known())
    assert speculation.propose(7).tokens == (1, 2) and speculation.drafted_by == "lookup"
    assert not model.asked
    free.tokens = ()
    assert speculation.propose(7).tokens == (7, 8, 9) and speculation.drafted_by == "model"
    model.seconds_per_token = 0.020  # twice as long as a pass
    assert speculation.propose(7).tokens == () and len(model.asked) == 1
    assert speculation.drafted_by == ""


def test_each_source_is_judged_by_itself():
    free, model = Said((1, 2)), Said((7, 8, 9), "model", 0.001)
    policy = judged(known(), 3, accepted=0, rejected=60)  # what is found does not pay
    speculation = Speculation((free, model), policy)
    before = policy.acceptance(3)
    assert speculation.propose(7).tokens == (7, 8, 9) and speculation.drafted_by == "model"
    speculation.note_pass(4, 0.011)
    speculation.record_outcome((1, 5))
    assert policy.acceptance(3) > before, "its first token came, though it was not tried"
    assert policy.acceptance(0, "model") < policy.acceptance(0, "another")


def answered(right, price, passes=4000):
    """Simulated seconds of as many tokens with a model that drafts, as a share of those without:
    each drafted token is right where `right(place)` says so."""
    taken = {1: 0.010, 4: 0.014, 8: 0.030}
    model = Said(tuple(range(8)), "model", price)
    speculation = Speculation((model,), DraftPolicy(costs_of(taken)))
    place, seconds = 0, 0.0
    while place < passes:
        drafted = speculation.propose(7).tokens
        spent = len(drafted) * price
        speculation.drafting_seconds, took = spent, PassCosts.ratio(COSTS, 1 + len(drafted)) * 0.010
        came = next((i for i in range(len(drafted)) if not right(place + i)), len(drafted))
        for proposal in speculation._proposals:
            proposal.seconds = spent
        speculation.note_pass(1 + len(drafted), took)
        tokens = (*drafted[:came], 99)
        speculation.record_outcome(tokens)
        place, seconds = place + len(tokens), seconds + spent + took
    return seconds / (0.010 * place)


COSTS = costs_of({1: 0.010, 4: 0.014, 8: 0.030})


def test_a_model_that_is_never_right_costs_less_than_a_percent():
    assert answered(lambda place: False, price=0.003) < 1.01


def test_a_model_that_is_too_slow_costs_less_than_a_percent():
    assert answered(lambda place: True, price=0.009) < 1.01
    assert answered(lambda place: place % 2 == 0, price=0.006) < 1.01


def test_a_model_that_is_right_pays():
    assert answered(lambda place: place % 12 != 11, price=0.001) < 0.6


def test_a_model_that_gets_better_is_found_out():
    """Half of the text it is wrong: it is tried so seldom that little is lost, and used later."""
    late = answered(lambda place: place > 2000, price=0.001)
    assert late < 0.85
