"""The cases that stand for all combinations hold every pair."""

import itertools

import pytest

from tests.pairs import each_value, pairs


@pytest.mark.parametrize("axes", [("ab", "cde"), ("abc", "defg", "hi", "jklm"), ("ab",) * 6])
def test_every_pair_is_there_and_cases_are_few(axes):
    found = pairs(*axes)
    for (i, one), (j, other) in itertools.combinations(enumerate(axes), 2):
        assert {(case[i], case[j]) for case in found} == set(itertools.product(one, other))
    least = max(len(a) * len(b) for a, b in itertools.combinations(axes, 2))
    assert least <= len(found) <= 2 * least
    assert found == pairs(*axes)


def test_a_case_that_once_failed_stays():
    assert pairs("abc", "de", "fg", also=[("c", "e", "g")])[0] == ("c", "e", "g")


@pytest.mark.parametrize("axes", [("ab", "cde"), ("abc", "defg", "hi", "jklm"), ("ab",) * 6])
def test_every_value_is_in_the_first_tier(axes):
    cases = pairs(*axes)
    found = each_value(cases)
    assert set(found) <= set(cases)
    assert [{case[i] for case in found} for i in range(len(axes))] == list(map(set, axes))
    assert len(found) <= max(map(len, axes)) + 1
